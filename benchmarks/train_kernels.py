"""Where the time of a training step goes on one GPU: its kernels by what they do, and convolutions by batch size.

    python benchmarks/train_kernels.py --workload paper                  # kernels of one captured step, longest first
    python benchmarks/train_kernels.py --convolutions 16,22,32,44 --crop 48    # TFLOP/s of a 256-channel 3x3 each way
    python benchmarks/train_kernels.py --workload paper --tiny           # every branch on a CPU; times mean nothing

A card of 132 multiprocessors takes 132 tiles of 128 positions at a time, so that some batch sizes fill it better.
"""

import argparse
import re
from collections import defaultdict
from collections.abc import Callable

import torch
from torch import Tensor
from torch.autograd import DeviceType
from torch.profiler import ProfilerActivity, profile
from train_steps import CAPTURED, Variant, noise_images, our_step, workloads

from enlcn.data.patches import open_patches
from enlcn.train.config import EngineConfig
from enlcn.train.distributed import Ranks, choose_device
from enlcn.train.loop import sampling_of
from enlcn.train.step import set_up_backends

# What a kernel is for, by its name; the first that is found counts. Compiled ones are called after all they fuse.
KINDS = {
    "compiled, reducing": r"^triton_(red|per)_",
    "compiled, point by point": r"^triton_(poi|for)_",
    "optimizer": r"adam|foreach|multi_tensor|lpnorm",
    "L_cl": r"ranked_terms",
    "attention": r"^(summarise|apply|mean_values|key_gradient|query_gradient)\w*kernel",
    "convolution": r"conv|wgrad|dgrad|fprop|implicit|cudnn|nhwc|nchw",
    "matrix product": r"gemm|cutlass|nvjet|cublas|splitk|xmma",
    "copies": r"memcpy|memset|copy",
}
REPLAYS = 10


def kind_of(name: str) -> str:
    return next((kind for kind, pattern in KINDS.items() if re.search(pattern, name, re.IGNORECASE)), "other")


def kernel_times(step: Callable[[], None], device: torch.device) -> dict[str, tuple[float, int]]:
    """Microseconds and calls of each kernel in one step."""
    activities = [ProfilerActivity.CUDA] if device.type == "cuda" else [ProfilerActivity.CPU]
    wanted = DeviceType.CUDA if device.type == "cuda" else DeviceType.CPU
    with profile(activities=activities) as record:
        for _ in range(REPLAYS):
            step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
    times: defaultdict[str, list[float]] = defaultdict(list)
    for event in record.events() or []:
        if event.device_type == wanted:
            times[event.name].append(event.time_range.elapsed_us())
    return {name: (sum(each) / REPLAYS, round(len(each) / REPLAYS)) for name, each in times.items()}


def print_kernels(times: dict[str, tuple[float, int]], most: int) -> None:
    by_kind: defaultdict[str, list[tuple[float, int]]] = defaultdict(list)
    for name, time_and_calls in times.items():
        by_kind[kind_of(name)].append(time_and_calls)
    groups = {"in all": [*times.values()], **by_kind}
    sums = {kind: (sum(row[0] for row in rows), sum(row[1] for row in rows)) for kind, rows in groups.items()}
    for kind, (microseconds, calls) in sorted(sums.items(), key=lambda row: -row[1][0]):
        print(f"{microseconds / 1e3:8.3f} ms {calls:6} calls  {kind}")
    for name, (microseconds, calls) in sorted(times.items(), key=lambda row: -row[1][0])[:most]:
        print(f"{microseconds / 1e3:8.3f} ms {calls:6} x {microseconds / max(calls, 1):7.1f} us  {name[:110]}")


def show_step(workload: str, device: torch.device, *, tiny: bool, most: int) -> None:
    work = workloads(tiny)[workload]
    images = noise_images(4, count=4 if tiny else 200, side=32 if tiny else 256)
    source = open_patches(images, sampling_of(work.config, Ranks(0, 1, device)), device)
    engine = EngineConfig() if tiny else CAPTURED
    step = our_step(work, Variant("", engine, num_rows=work.config.loss.num_rows), source, device)
    for _ in range(work.warm_up):
        step()
    print(f"{work.label}, L_cl on {work.config.loss.num_rows or 'all'} rows")
    print_kernels(kernel_times(step, device), most)


def show_convolutions(batches: list[int], crop: int, channels: int, device: torch.device) -> None:
    """TFLOP/s of a 3x3 convolution: forward, and its gradients by input and by weight."""
    set_up_backends(EngineConfig(), device)
    dtype = torch.bfloat16
    weight = torch.randn(channels, channels, 3, 3, device=device, dtype=dtype).to(memory_format=torch.channels_last)
    for batch in batches:
        x, gradient = (
            torch.randn(batch, channels, crop, crop, device=device, dtype=dtype).to(memory_format=torch.channels_last)
            for _ in range(2)
        )

        def backward(by_input: bool, x: Tensor = x, gradient: Tensor = gradient) -> object:
            mask = [by_input, not by_input, False]
            return torch.ops.aten.convolution_backward(
                gradient, x, weight, None, [1, 1], [1, 1], [1, 1], False, [0, 0], 1, mask
            )

        ways: dict[str, Callable[[], object]] = {
            "forward": lambda x=x: torch.nn.functional.conv2d(x, weight, padding=1),  # type: ignore[misc]
            "by input": lambda: backward(True),
            "by weight": lambda: backward(False),
        }
        flops = 2 * 9 * channels**2 * batch * crop**2
        cells = []
        for way, run in ways.items():
            milliseconds = _milliseconds(run, device)
            cells.append(f"{way} {milliseconds:7.4f} ms {flops / milliseconds / 1e9:6.1f} TFLOP/s")
        print(f"batch {batch:4} of {crop}x{crop}, {channels} channels: " + ", ".join(cells))


def _milliseconds(run: Callable[[], object], device: torch.device) -> float:
    for _ in range(3):
        run()
    if device.type != "cuda":
        return float("nan")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(10):
            run()
    times = []
    for _ in range(5):
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        began.record()
        graph.replay()
        ended.record()
        torch.cuda.synchronize(device)
        times.append(began.elapsed_time(ended) / 10)
    return sorted(times)[2]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--workload", choices=["paper", "modern", "small", "gated"], help="the step whose kernels are listed"
    )
    parser.add_argument("--most", type=int, default=30, help="kernels to list (default: %(default)s)")
    parser.add_argument("--convolutions", metavar="B,B", help="batch sizes at which a convolution is timed")
    parser.add_argument("--crop", type=int, default=28, help="its side (default: %(default)s)")
    parser.add_argument("--channels", type=int, default=256)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--tiny", action="store_true", help="a small network, to try every branch")
    options = parser.parse_args()
    if not options.workload and not options.convolutions:
        parser.error("give --workload or --convolutions")
    device = choose_device(options.device)
    if options.convolutions:
        show_convolutions([int(b) for b in options.convolutions.split(",")], options.crop, options.channels, device)
    if options.workload:
        show_step(options.workload, device, tiny=options.tiny, most=options.most)


if __name__ == "__main__":
    main()
