"""Timing for benchmarks/gpu.py: GPU time by graph replay, wall time per call, and results that survive failures."""

import statistics
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

# Inputs are rotated until together they are twice an H200's L2 cache, so that none is found there by luck.
_ROTATED_BYTES = 120 << 20
_MAX_SETS = 24

Result = dict[str, Any]
HIDDEN = ("failed", "not_captured")  # tracebacks


def attempt(label: str, function: Callable[[], Result]) -> Result:
    """What `function` returns; where it fails, the traceback, printed and kept. The run goes on."""
    began = time.perf_counter()
    try:
        result = function()
    except Exception:
        text = traceback.format_exc()
        print(f"FAILED {label}\n{text}", file=sys.stderr, flush=True)
        result = {"failed": text}
    finally:
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
    seconds = time.perf_counter() - began
    shown = {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in result.items() if k not in HIDDEN}
    print(f"{label}: {'FAILED' if 'failed' in result else shown} ({seconds:.1f} s)", flush=True)
    return {"label": label, **result}


def num_sets(input_bytes: int) -> int:
    """How many inputs to rotate among."""
    return max(1, min(_MAX_SETS, -(-_ROTATED_BYTES // max(1, input_bytes))))


def gpu_ms(function: Callable[[Tensor], Any], inputs: Sequence[Tensor], *, budget_s: float = 0.6) -> float:
    """Median milliseconds of GPU time of one call, launches removed: all inputs in one graph, replayed."""
    if not inputs[0].is_cuda:
        return wall_ms(function, inputs[0], budget_s=0.05)

    def run_all() -> None:
        for x in inputs:
            function(x)

    return graph_ms(run_all, budget_s=budget_s) / len(inputs)


def graph_ms(function: Callable[[], Any], *, budget_s: float = 0.6) -> float:
    """Median milliseconds of one replay of `function` captured as a graph."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            function()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        function()
    median = event_ms(graph.replay, budget_s=budget_s)
    graph.reset()
    return median


def replayed(function: Callable[[], Any], x: Tensor) -> Result:
    """`graph_ms` as an entry of a result, where x is on a GPU; what cannot be captured leaves its reason instead."""
    if not x.is_cuda:
        return {}
    try:
        return {"gpu_ms": graph_ms(function, budget_s=1.0)}
    except Exception:
        text = traceback.format_exc()
        print(f"NOT CAPTURED\n{text}", file=sys.stderr, flush=True)
        return {"not_captured": text}


def event_ms(function: Callable[[], Any], *, budget_s: float = 0.6) -> float:
    """Median milliseconds between events around one call; at least 5 calls, as many as the budget holds."""
    function()
    torch.cuda.synchronize()
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 5 or (time.perf_counter() - began < budget_s and len(times) < 200):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        function()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return statistics.median(times)


def wall_ms(function: Callable[[Tensor], Any], x: Tensor, *, budget_s: float = 0.3) -> float:
    """Median milliseconds of one eager call as its caller waits for it."""
    function(x)
    times: list[float] = []
    began = time.perf_counter()
    while len(times) < 3 or (time.perf_counter() - began < budget_s and len(times) < 50):
        synchronize(x)
        start = time.perf_counter()
        function(x)
        synchronize(x)
        times.append((time.perf_counter() - start) * 1e3)
    return statistics.median(times)


def synchronize(x: Tensor) -> None:
    """Wait for x's device."""
    if x.is_cuda:
        torch.cuda.synchronize()


def relative_error(value: Tensor, expected: Tensor) -> float:
    """|value - expected| / |expected|; NaN where either holds one."""
    return ((value.double() - expected.double()).norm() / expected.double().norm()).item()
