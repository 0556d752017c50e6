"""The loop: every image of every set, upscaled by every model and compared with its ground truth."""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from enlcn.data.degradation_ranges import check_jpeg_quality, check_noise
from enlcn.data.resize import Border
from enlcn.data.testsets import BenchmarkSet, ImagePair, find_testsets, load_pair
from enlcn.errors import UserError
from enlcn.evaluate.degraded_input import degraded
from enlcn.evaluate.results import ImageScore, ModelInfo, Results, Score, Settings, TestsetInfo
from enlcn.evaluate.upscalers import BICUBIC, ModelSource, Upscaler, build_upscalers, label_models
from enlcn.metrics import psnr, ssim
from enlcn.upscaling.devices import resolve_device, resolve_precision, torch_threads
from enlcn.upscaling.engine_options import EngineOptions

MODES = ("whole", "streaming")


@dataclass(frozen=True)
class Evaluated:
    """One test image and what every model made of it: lr (1, 3, h, w), hr and sr (1, 3, s h, s w), uint8 on the CPU."""

    testset: str
    image: str
    lr: Tensor
    hr: Tensor
    sr: dict[str, Tensor]
    scores: dict[str, Score]


def evaluate(
    models: Mapping[str, ModelSource] | Sequence[str],
    testsets: Sequence[str | os.PathLike[str] | BenchmarkSet],
    scale: int,
    *,
    device: str = "auto",
    precision: str = "fp32",
    self_ensemble: bool = False,
    mode: str = "whole",
    border: Border = "mirror",
    shave: int | None = None,
    noise: float = 0.0,
    jpeg_quality: int | None = None,
    on_start: Callable[[int], None] | None = None,
    on_image: Callable[[Evaluated], None] | None = None,
) -> Results:
    """Measure PSNR and SSIM of models on test sets.

    Args:
        models: names, checkpoint files or "bicubic"; or a mapping from a name to one of these or to a network,
            which is moved to the device and put in evaluation mode.
        testsets: folders, names of known sets, or sets found before.
        scale: s.
        device: "auto", "cpu", "cuda"…
        precision: "fp32", "bf16", "fp16" or "auto".
        self_ensemble: take the mean over the eight flips and rotations.
        mode: "whole" image, or "streaming" (ours only; the same result in bounded memory).
        border: border rule for LR images that have to be made.
        shave: pixels dropped on each side before comparing; s unless told.
        noise: deviation of Gaussian noise that is added to LR images, in grey levels.
        jpeg_quality: of JPEG files that LR images then go through; None for none.
        on_start: called once with the number of images before the first.
        on_image: called after each image with all that was computed for it.

    Returns:
        The figures of every image; `Results.mean` gives those of the tables.
    """
    found = _named_sets(testsets, scale)
    if mode not in MODES:
        raise UserError(f"mode is '{mode}'; choose from {', '.join(MODES)}")
    check_noise(noise, "noise")
    check_jpeg_quality(jpeg_quality, "jpeg_quality")
    options = EngineOptions(device=device, precision=precision, self_ensemble=self_ensemble, mode=mode)
    named = dict(models) if isinstance(models, Mapping) else label_models([os.fspath(model) for model in models])
    if not named or not found:
        raise UserError("nothing to evaluate: give at least one model and one test set")
    upscalers = build_upscalers(named, options, scale=scale)
    settings = Settings(
        scale=scale,
        shave=scale if shave is None else shave,
        precision=resolve_precision(precision, resolve_device(device)),
        self_ensemble=self_ensemble,
        border=border,
        noise=noise,
        jpeg_quality=jpeg_quality,
        device=_device_name(resolve_device(device)),
        mode=mode,
    )
    if on_start:
        on_start(sum(len(testset.pairs) for testset in found.values()))
    scores: list[ImageScore] = []
    for name, testset in found.items():
        for pair in testset.pairs:
            evaluated = _evaluate_pair(name, pair, upscalers, settings, border)
            scores += [ImageScore(model, name, pair.name, score) for model, score in evaluated.scores.items()]
            if on_image:
                on_image(evaluated)
    return Results(
        settings,
        tuple(ModelInfo(each.name, each.source, each.parameters) for each in upscalers),
        tuple(_describe(name, testset, border) for name, testset in found.items()),
        tuple(scores),
    )


def _evaluate_pair(
    testset: str, pair: ImagePair, upscalers: list[Upscaler], settings: Settings, border: Border
) -> Evaluated:
    # Small tensors one after the other: where cores are busy, waiting for a second thread takes ten times longer.
    try:
        with torch_threads(1):
            lr, hr = load_pair(pair, settings.scale, border)
            lr = degraded(lr, settings.noise, settings.jpeg_quality)
    except UserError as error:
        raise UserError(f"{error}; nothing is reported of an incomplete test set: mend or remove the file") from None
    upscaled, scores = {}, {}
    for upscaler in upscalers:
        began = time.perf_counter()
        with torch_threads(1) if upscaler.source == BICUBIC else nullcontext():
            sr = upscaler.upscale(lr).cpu()
        seconds = time.perf_counter() - began
        if sr.shape != hr.shape:
            raise UserError(
                f"{upscaler.name} made {sr.shape[-1]}x{sr.shape[-2]} pixels of {pair.name}, "
                f"expected {hr.shape[-1]}x{hr.shape[-2]}"
            )
        with torch_threads(1):
            scores[upscaler.name] = _score(sr, hr, pair, settings.shave, seconds)
        upscaled[upscaler.name] = sr
    return Evaluated(testset, pair.name, lr, hr, upscaled, scores)


def _score(sr: Tensor, hr: Tensor, pair: ImagePair, shave: int, seconds: float) -> Score:
    try:
        return Score(
            psnr_y=psnr(sr, hr, shave=shave),
            ssim_y=ssim(sr, hr, shave=shave),
            psnr_rgb=psnr(sr, hr, shave=shave, channels="rgb"),
            ssim_rgb=ssim(sr, hr, shave=shave, channels="rgb"),
            seconds=seconds,
        )
    except UserError as error:
        raise UserError(f"{pair.hr}: {error}") from None


def _named_sets(sources: Sequence[str | os.PathLike[str] | BenchmarkSet], scale: int) -> dict[str, BenchmarkSet]:
    """All sets under names that tell them apart."""
    found: list[BenchmarkSet] = []
    for source in sources:
        found += [source] if isinstance(source, BenchmarkSet) else find_testsets(source, scale)
    names = [each.name for each in found]
    for each in found:
        if each.scale != scale:
            raise UserError(f"{each.name}: the test set was read for x{each.scale}, the evaluation is x{scale}")
    return {each.name if names.count(each.name) == 1 else str(each.folder): each for each in found}


def _describe(name: str, testset: BenchmarkSet, border: str) -> TestsetInfo:
    lr_source = "files" if testset.has_lr_files else f"imresize of HR, border={border}"
    return TestsetInfo(name, str(Path(testset.folder)), len(testset.pairs), lr_source)


def _device_name(device: torch.device) -> str:
    return f"{device} ({torch.cuda.get_device_name(device)})" if device.type == "cuda" else str(device)
