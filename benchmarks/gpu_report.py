"""Tables and the plot of a run of benchmarks/gpu.py, from its JSON alone."""

from pathlib import Path
from typing import Any

Results = dict[str, Any]
Entry = dict[str, Any]

NAMES = {
    "ours": "ENLCA, ours",
    "plain": "ENLCA as published",
    "sdpa": "exact attention core, fused (SDPA)",
    "nlsa": "NLSA",
    "conv3x3": "3x3 convolution",
}
# x read twice, written once, at the rate of the measured copy (an H200's 4.23 TB/s where none was measured).
_CHANNELS, _COPY = 256, 4.23
_BYTES = {"bfloat16": 2, "float32": 4}


def markdown(results: Results) -> str:
    """The whole report."""
    made = results["machine"]
    title = "# Performance\n\n"
    source = (
        f"Measured by `benchmarks/gpu.py` on one {made['device']} (PyTorch {made['torch']}, Triton {made['triton']}).\n"
    )
    method = "GPU time: median of graph replays. Wall: one eager call as its caller waits. Milliseconds.\n"
    parts = [title + source + method]
    heading = "## The module, one image, C = 256, D = 64, m = 128"
    parts += [f"{heading}, {dtype}\n\n{module_table(results, dtype)}" for dtype in _BYTES]
    parts.append(f"## Error of the module against float64\n\n{error_table(results)}")
    for section, heading in HEADINGS.items():
        table = plain_table(entries(results, section))
        if table:
            parts.append(f"## {heading}\n\n{table}")
    return "\n".join(parts)


HEADINGS = {
    "ceilings": "What the card can do",
    "big": "4096 x 4096 in one call",
    "network": "ENLCN x4",
    "train": "Training",
    "passes": "The passes, and other tilings",
    "check": "Checks",
}


def entries(results: Results, section: str) -> list[Entry]:
    """A section's entries; none where it was not run."""
    found: list[Entry] = results["sections"].get(section, [])
    return found


def timed(results: Results, contender: str, dtype: str) -> dict[int, Entry]:
    """A contender's entries by size."""
    everything = entries(results, "module") + entries(results, "rivals")
    return {e["size"]: e for e in everything if (e["contender"], e["dtype"]) == (contender, dtype) and e.get("gpu_ms")}


def floor_ms(results: Results, size: int, dtype: str) -> float:
    """The least time two passes over x can take."""
    copies = [e["tb_per_s"] for e in entries(results, "ceilings") if "tb_per_s" in e]
    return 3 * size**2 * _CHANNELS * _BYTES[dtype] / (copies[0] if copies else _COPY) / 1e9


def module_table(results: Results, dtype: str) -> str:
    """GPU time / wall time of each contender at each size."""
    columns = {name: timed(results, name, dtype) for name in NAMES}
    sizes = sorted({size for column in columns.values() for size in column})
    rows = [["", *(f"{size}²" for size in sizes)]]
    for name, column in columns.items():
        cells = [f"{column[s]['gpu_ms']:.3g} / {column[s]['wall_ms']:.3g}" if s in column else "–" for s in sizes]
        rows.append([NAMES[name], *cells])
    rows.append(["floor: x read twice, written once", *(f"{floor_ms(results, s, dtype):.3g}" for s in sizes)])
    return grid(rows)


def error_table(results: Results) -> str:
    """|error| / |value| of the output and of Y, and whether two runs agree to the bit."""
    rows = [["", "output", "Y alone", "two runs bit-equal"]]
    for dtype in _BYTES:
        for size, entry in timed(results, "ours", dtype).items():
            if "error" in entry:
                equal = "yes" if entry["bit_equal"] else "no"
                rows.append([f"{dtype} {size}²", f"{entry['error']:.1e}", f"{entry['y_error']:.1e}", equal])
    return grid(rows)


def plain_table(found: list[Entry]) -> str:
    """Every number of every entry; failures say so."""
    hidden = {
        "label",
        "failed",
        "not_captured",
        "contender",
        "dtype",
        "size",
        "engine",
        "part",
        "workload",
        "kernels",
        "ranking",
        "rows",
    }
    names = list(dict.fromkeys(key for entry in found for key in entry if key not in hidden))
    if not found:
        return ""
    rows = [["", *names]]
    for entry in found:
        cells = [
            "failed" if "failed" in entry else "–" if entry.get(name) is None else show(entry[name]) for name in names
        ]
        rows.append([entry["label"], *cells])
    return grid(rows)


def show(value: object) -> str:
    """A number in few digits."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def grid(rows: list[list[str]]) -> str:
    """A Markdown table; the first row is its head."""
    head, *body = rows
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *body]]
    return "\n".join(lines) + "\n"


def short_table(results: Results) -> str:
    """The figures that matter, last on the screen."""
    lines = [f"seconds: {', '.join(f'{k} {v:.0f}' for k, v in results.get('seconds', {}).items())}"]
    for dtype in _BYTES:
        ours, plain = timed(results, "ours", dtype), timed(results, "plain", dtype)
        for size, entry in ours.items():
            line = f"ENLCA {dtype} {size}²: {entry['gpu_ms']:.4f} ms GPU, {entry['wall_ms']:.3f} wall"
            line += f", floor {floor_ms(results, size, dtype):.4f}, error {entry.get('error', float('nan')):.1e}"
            if size in plain:
                line += f"; plain {plain[size]['gpu_ms']:.3f} / {plain[size]['wall_ms']:.3f}"
                ratios = [plain[size][kind] / entry["gpu_ms"] for kind in ("gpu_ms", "wall_ms")]
                line += f" = {ratios[0]:.1f}x GPU, {ratios[1]:.0f}x wall"
            lines.append(line)
    for section in ("ceilings", "network", "train", "big"):
        for entry in entries(results, section):
            numbers = {k: show(v) for k, v in entry.items() if isinstance(v, float)}
            lines.append(f"{entry['label']}: {'FAILED' if 'failed' in entry else numbers}")
    checks = entries(results, "check")
    if checks:
        lines.append(f"checks: {sum(bool(e.get('ok')) for e in checks)} of {len(checks)} passed")
    return "\n".join(lines)


def plot(results: Results, path: Path) -> None:
    """GPU time against pixels, log-log, bfloat16, with the floor drawn."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    sizes: set[int] = set()
    for name, label in NAMES.items():
        found = timed(results, name, "bfloat16")
        sizes |= set(found)
        if found:
            pixels, times = [s * s for s in found], [e["gpu_ms"] for e in found.values()]
            axes.plot(pixels, times, marker="o", label=label, linewidth=2.5 if name == "ours" else 1.2)
    if sizes:
        floors = [floor_ms(results, s, "bfloat16") for s in sorted(sizes)]
        axes.plot([s * s for s in sorted(sizes)], floors, "k--", linewidth=1, label="floor: x read twice, written once")
    axes.set(xscale="log", yscale="log", xlabel="pixels", ylabel="ms of GPU time, bfloat16, C = 256")
    axes.grid(which="major", alpha=0.3)
    if sizes:
        axes.legend(frameon=False)
    figure.savefig(path, dpi=160)
    pyplot.close(figure)
