"""Training speed on one GPU, side by side in one run: the authors' step, ours, TFLOP/s, and the cost of the data.

    python benchmarks/train_gpu.py --out results.json            # minutes on a data-centre GPU
    python benchmarks/train_gpu.py --out results.json --tiny     # every branch on a CPU, seconds; times mean nothing

Without --data, images are noise: what they show changes no time.
"""

import argparse
import json
import re
import statistics
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
from train_steps import CAPTURED, Variant, Workload, authors_step, noise_images, our_step, workloads

from enlcn.cost import network_flops
from enlcn.data.patches import open_patches
from enlcn.data.shards import PackedImages, default_cache, find_images, load_packed
from enlcn.train.distributed import Ranks, choose_device
from enlcn.train.loop import sampling_of

AUTHORS = "authors' step"
BACKWARD_FACTOR = 3  # forward, and twice as much backward


VARIANTS = {
    "paper": [
        Variant("compiled + graph", CAPTURED),
        Variant("compiled + graph, attention by kernels", CAPTURED, backend="triton"),
        Variant("compiled + graph, L_cl on 64 rows", CAPTURED, num_rows=64),
    ],
    "paper data": [
        Variant("data from the set", CAPTURED, num_rows=64),
        Variant("one constant batch", CAPTURED, num_rows=64, constant_batch=True),
    ],
    "modern": [
        Variant("compiled + graph", CAPTURED),
        Variant("compiled + graph, L_cl on 64 rows", CAPTURED, num_rows=64),
        Variant("compiled + graph, plain attention, L_cl on 64 rows", CAPTURED, num_rows=64, backend="naive"),
    ],
    "gated": [
        Variant("compiled + graph", CAPTURED, num_rows=16),
        Variant("compiled + graph, gates by PyTorch", CAPTURED, num_rows=16, gate="naive"),
    ],
    "small": [
        Variant("data from the set", CAPTURED, num_rows=16),
        Variant("one constant batch", CAPTURED, num_rows=16, constant_batch=True),
    ],
}


def milliseconds_per_step(step: Callable[[], None], work: Workload, device: torch.device) -> float:
    def wait() -> None:
        if device.type == "cuda":
            torch.cuda.synchronize(device)

    for _ in range(work.warm_up):
        step()
    times = []
    for _ in range(work.repeats):
        wait()
        started = time.perf_counter()
        for _ in range(work.steps):
            step()
        wait()
        times.append((time.perf_counter() - started) / work.steps * 1e3)
    return statistics.median(times)


def measurements(
    options: argparse.Namespace, images: PackedImages, device: torch.device, deadline: float
) -> Iterator[dict[str, object]]:
    """One row for each variant; one that fails says why and does not keep the others from running."""
    works, wanted = workloads(options.tiny), re.compile(options.variants)
    for name in options.groups.split(","):
        variants = VARIANTS[name]
        work = works[name.split()[0]]
        source = open_patches(images, sampling_of(work.config, Ranks(0, 1, device)), device)
        candidates: list[tuple[str, Callable[[], Callable[[], None]]]] = []
        if name == "paper":
            candidates.append((AUTHORS, lambda w=work, s=source: authors_step(w, s, device)))  # type: ignore[misc]
        for variant in variants:
            build = lambda w=work, v=variant, s=source: our_step(w, v, s, device)  # noqa: E731
            candidates.append((variant.label, build))
        for label, build_step in candidates:
            row: dict[str, object] = {"group": name, "workload": work.label, "variant": label}
            if not wanted.fullmatch(label):
                continue
            if time.monotonic() > deadline:
                yield row | {"failed": "no time left"}
                continue
            yield row | measure(build_step, work, device, folds=label != AUTHORS)


def measure(
    build: Callable[[], Callable[[], None]], work: Workload, device: torch.device, *, folds: bool
) -> dict[str, object]:
    started = time.monotonic()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    try:
        milliseconds = milliseconds_per_step(build(), work, device)
    except Exception as error:  # whatever a compiler or a capture raises
        traceback.print_exc()
        return {"failed": f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"[:200]}
    data, model = work.config.data, work.config.model
    flops = BACKWARD_FACTOR * data.batch_size * network_flops(model, data.crop, data.crop, folds=folds)
    return {
        "ms_per_step": milliseconds,
        "images_per_second": data.batch_size / milliseconds * 1e3,
        "tflops": flops / milliseconds / 1e9,
        "peak_gib": torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None,
        "seconds_to_measure": time.monotonic() - started,
    }


def print_row(row: dict[str, object]) -> None:
    head = f"{row['workload']:32} {row['variant']:50}"
    if "failed" in row:
        print(f"{head} failed: {row['failed']}", flush=True)
    else:
        print(
            f"{head} {row['ms_per_step']:9.2f} ms {row['images_per_second']:9.0f} img/s {row['tflops']:7.1f} TFLOP/s",
            flush=True,
        )


def summary(rows: list[dict[str, object]]) -> dict[str, float]:
    """The three figures this file is for; those whose rows failed are left out."""
    ms = {(row["group"], row["variant"]): float(row["ms_per_step"]) for row in rows if "ms_per_step" in row}  # type: ignore[arg-type]
    facts: dict[str, float] = {}
    authors = ms.pop(("paper", AUTHORS), None)
    for fact, looks_at_few_rows in (("speedup_over_authors", False), ("speedup_over_authors_64_rows", True)):
        ours = [ms[key] for key in ms if key[0] == "paper" and ("rows" in str(key[1])) == looks_at_few_rows]
        if authors and ours:
            facts[fact] = authors / min(ours)
    tflops = [float(row["tflops"]) for row in rows if row["group"] == "modern" and "tflops" in row]  # type: ignore[arg-type]
    if tflops:
        facts["tflops_batch_32_of_48"] = max(tflops)
    for group in ("small", "paper data"):
        with_data, constant = ms.get((group, "data from the set")), ms.get((group, "one constant batch"))
        if with_data and constant:
            facts[f"slower_with_data_percent_{group.replace(' ', '_')}"] = 100 * (with_data / constant - 1)
    return facts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the results")
    parser.add_argument("--data", type=Path, help="images, as for `enlcn train`")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--groups", default=",".join(VARIANTS), help=f"any of {', '.join(VARIANTS)}")
    parser.add_argument("--variants", default=".*", metavar="REGEX", help="measure only what is called so")
    parser.add_argument("--tiny", action="store_true", help="small networks and few steps, to try every branch")
    parser.add_argument("--minutes", type=float, default=5.5, help="start no measurement after this")
    options = parser.parse_args()
    if unknown := set(options.groups.split(",")) - set(VARIANTS):
        parser.error(f"unknown group '{min(unknown)}'; choose from {', '.join(VARIANTS)}")

    device = choose_device(options.device)
    deadline = time.monotonic() + 60 * options.minutes
    if options.data is not None:
        images = load_packed(find_images(options.data), 4, default_cache())
    else:
        images = noise_images(4, count=4 if options.tiny else 200, side=32 if options.tiny else 256)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, {len(images.names)} images of {images.hr.shape[0] / 1e6:.0f} megapixels")
    report: dict[str, object] = {"device": name, "torch": torch.__version__, "tiny": options.tiny}
    rows: list[dict[str, object]] = []
    for row in measurements(options, images, device, deadline):
        rows.append(row)
        print_row(row)
        # After every row: a run that is cut off leaves what it has.
        options.out.write_text(json.dumps(report | {"rows": rows, "summary": summary(rows)}, indent=2) + "\n")
    if not rows:
        labels = dict.fromkeys([AUTHORS, *(each.label for group in VARIANTS.values() for each in group)])
        parser.error(f"--variants {options.variants} is none of: {'; '.join(labels)}")
    for fact, value in summary(rows).items():
        print(f"{fact}: {value:.2f}")


if __name__ == "__main__":
    main()
