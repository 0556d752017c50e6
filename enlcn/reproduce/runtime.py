"""The supplement's running times: one module at 100 x 100 and 150 x 150, 64 channels, on the device at hand."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from enlcn.models.attention import ENLCA
from enlcn.models.rivals import NLA, NLSA
from enlcn.reproduce import charts, paper
from enlcn.reproduce.label import MINIATURE
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.tables import Cell, Column, Table, significant
from enlcn.reproduce.training import device_name

if TYPE_CHECKING:
    from matplotlib.figure import Figure

CHANNELS = 64
PAPER_SIDES = (100, 150)
MODULES: dict[str, Callable[[], nn.Module]] = {
    "NLA": lambda: NLA(CHANNELS, reduction=1),
    "NLSA-r4": lambda: NLSA(CHANNELS, reduction=1, num_rounds=4),
    "ENLCA-m128": lambda: ENLCA(CHANNELS, reduction=1, num_features=128),
    "3x3 convolution": lambda: nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1),
}
_MAX_REPEATS = 1000  # the paper's
_MIN_REPEATS = 3


def measure(context: Context) -> Json:
    """Median milliseconds of every module at both sizes; on a GPU also in the precisions it is made for."""
    device = context.device
    precisions = ("float32", "tf32", "bfloat16") if device.type == "cuda" else ("float32",)
    seconds = min(1.0, context.budget / 200)
    return {
        "times": {precision: _time_all(context, precision, seconds) for precision in precisions},
        "sides": list(context.preset.runtime_sides),
        "device": device_name(device),
        "torch": torch.__version__,
    }


def _time_all(context: Context, precision: str, seconds: float) -> Json:
    device = context.device
    times: Json = {}
    dtype = torch.bfloat16 if precision == "bfloat16" else torch.float32
    torch.manual_seed(0)
    with torch.no_grad(), _products(device, exact=precision == "float32"):
        for name, build in MODULES.items():
            module = _in_dtype(build().to(device).eval(), dtype)
            times[name] = {}
            for side in context.preset.runtime_sides:
                x = torch.randn(1, CHANNELS, side, side, device=device, dtype=dtype)
                x = x.contiguous(memory_format=torch.channels_last)  # as within the network
                times[name][str(side)] = {
                    "wall_ms": _median_ms(partial(module, x), device, seconds),
                    "gpu_ms": _replayed_ms(module, x, seconds) if device.type == "cuda" else None,
                }
    return times


def _in_dtype(module: nn.Module, dtype: torch.dtype) -> nn.Module:
    """The module in `dtype`, with F in float32 as networks keep it."""
    projection = module.projection.clone() if isinstance(module, ENLCA) else None
    module = module.to(dtype)
    if projection is not None:
        module.projection = projection
    return module


@contextmanager
def _products(device: torch.device, *, exact: bool) -> Iterator[None]:
    """The scope in which a GPU's matrix products and convolutions of float32 are exact, or rounded to tf32."""
    if device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    torch.set_float32_matmul_precision("highest" if exact else "high")
    torch.backends.cudnn.allow_tf32 = not exact
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]


def _median_ms(call: Callable[[], object], device: torch.device, seconds: float) -> float:
    """Median milliseconds of one call as its caller waits for it."""

    def once() -> float:
        began = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        return 1e3 * (time.perf_counter() - began)

    first = once()  # libraries choose algorithms in their first call
    if first > 1e3 * seconds and device.type == "cpu":
        return first
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < _MIN_REPEATS or (time.perf_counter() - began < seconds and len(times) < _MAX_REPEATS):
        times.append(once())
    return statistics.median(times)


def _replayed_ms(module: nn.Module, x: Tensor, seconds: float) -> float | None:
    """Median milliseconds on the GPU alone, launches removed by a CUDA graph; None where it cannot be captured."""
    try:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                module(x)
        torch.cuda.current_stream().wait_stream(side)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            module(x)
    except Exception:  # whatever cannot be captured is timed as its caller sees it alone
        torch.cuda.synchronize()
        return None
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < _MIN_REPEATS or (time.perf_counter() - began < seconds and len(times) < _MAX_REPEATS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def show(data: Json) -> Section:
    """A table for each precision; the first beside the paper's, where it is of the paper's sizes."""
    tables = [_table(data, precision) for precision in data["times"]]
    return Section(text=_label(data["sides"]), tables=tables, charts={"runtime": lambda: _draw(data)})


def _label(sides: list[int]) -> list[str]:
    """What must be said where modules were timed on smaller images than the paper's."""
    if sides == list(PAPER_SIDES):
        return []
    ours, theirs = (" and ".join(f"{side}x{side}" for side in each) for each in (sides, PAPER_SIDES))
    return [f"{MINIATURE} Modules are timed at {ours} (the paper: {theirs})."]


def _table(data: Json, precision: str) -> Table:
    sides, times = data["sides"], data["times"][precision]
    theirs_too = precision == "float32" and sides == list(PAPER_SIDES)
    on_gpu = any(each["gpu_ms"] is not None for by_side in times.values() for each in by_side.values())
    columns = [Column("module")]
    for side in sides:
        columns += [Column(f"paper, {side}²", ".1f")] if theirs_too else []
        columns.append(Column(f"ours, {side}²", ".3g"))
        columns += [Column(f"GPU alone, {side}²", ".3g")] if on_gpu else []
    columns += [Column("NLA over it, paper", ".1f")] if theirs_too else []
    columns.append(Column(f"NLA over it, ours, {sides[1]}²", ".1f"))
    rows: list[list[Cell]] = []
    for name, by_side in times.items():
        row: list[Cell] = [name]
        for side in sides:
            row += [_papers(name, side)] if theirs_too else []
            row.append(by_side[str(side)]["wall_ms"])
            row += [by_side[str(side)]["gpu_ms"]] if on_gpu else []
        if theirs_too:
            theirs, exact = _papers(name, sides[1]), _papers("NLA", sides[1])
            row.append(exact / theirs if exact and theirs else None)
        row.append(times["NLA"][str(sides[1])]["wall_ms"] / by_side[str(sides[1])]["wall_ms"])
        rows.append(row)
    note = (
        f"64 channels and queries as wide. Ours: {data['device']}, PyTorch {data['torch']}, median of one call as its "
        "caller waits for it"
        + ("; GPU alone: a CUDA graph of it replayed, launches removed." if on_gpu else ".")
        + (
            f" The paper: {paper.RUNTIME_DEVICE}, mean of 1,000; the cards differ, ratios compare."
            if theirs_too
            else ""
        )
    )
    return Table(f"Milliseconds, {precision}", columns, rows, note)


def _papers(name: str, side: int) -> float | None:
    """The paper's milliseconds, where it gives them."""
    theirs = paper.RUNTIME.get(name)
    return theirs[PAPER_SIDES.index(side)] if theirs and side in PAPER_SIDES else None


def _draw(data: Json) -> "Figure":
    figure, panels = charts.new_figure(2, width=11)
    times = data["times"]["float32"]
    names = list(times)
    for axes, side in zip(panels, data["sides"], strict=True):
        bars = {
            f"ours, {data['device']}": (charts.BLUE, [times[name][str(side)]["wall_ms"] for name in names]),
            "ours, without launches": (charts.SKY, [times[name][str(side)]["gpu_ms"] for name in names]),
            f"the paper, {paper.RUNTIME_DEVICE}": ("#bbbbbb", [_papers(name, side) for name in names]),
        }
        bars = {label: bar for label, bar in bars.items() if any(ms is not None for ms in bar[1])}
        thickness = 0.8 / len(bars)
        for index, (label, (colour, values)) in enumerate(bars.items()):
            places = [place + (index - (len(bars) - 1) / 2) * thickness for place in range(len(names))]
            shown = [(place, ms) for place, ms in zip(places, values, strict=True) if ms is not None]
            axes.barh([p for p, _ in shown], [ms for _, ms in shown], 0.95 * thickness, color=colour, label=label)
            for place, ms in shown:
                label_place: Any = {"xytext": (4, 0), "textcoords": "offset points"}
                axes.annotate(significant(ms), (ms, place), va="center", fontsize=9, **label_place)
        axes.set_xscale("log")
        axes.margins(x=0.18)
        axes.set_yticks(range(len(names)), names)
        axes.invert_yaxis()
        axes.grid(axis="y", visible=False)
        axes.set(title=f"{side} x {side}, float32", xlabel="milliseconds, logarithmic")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    return figure


ITEM = Item("Running time of one module", "Table 5 (supplement C)", measure, show, needs_pictures=False)
