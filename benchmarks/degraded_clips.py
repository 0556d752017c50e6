"""What becomes of compressed clips: PSNR on Y of frames that went through H.264, upscaled by each model.

    python benchmarks/degraded_clips.py --data PHOTOGRAPHS [--model enlcn-light-x2 --model enlcn-photo-x2]

PHOTOGRAPHS is a folder or a tar. Of each a clip is made, a window that moves over it by a few pixels a frame, shrunk
as imresize shrinks and encoded by x264 at several CRF; its last frame is decoded and upscaled. In brackets what each
model gains over bicubic interpolation. Needs the video extra.
"""

import argparse
import io
from fractions import Fraction
from pathlib import Path
from statistics import fmean

import av
import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

from enlcn.data.image_io import to_float, to_uint8
from enlcn.data.resize import imresize, imresize_torch
from enlcn.data.shards import decode, find_images
from enlcn.metrics import psnr
from enlcn.upscaling import upscale
from enlcn.zoo import native_scale

CRFS = (18, 23, 28, 33)
FRAMES, HEIGHT, WIDTH = 8, 120, 180  # of a clip, LR
STEP = 3  # HR pixels from frame to frame: parts of an LR pixel, too


def window(photo: np.ndarray, frame: int, scale: int) -> np.ndarray:
    """What a clip shows in a frame, HR."""
    top, left = ((size - scale * side) // 2 for size, side in zip(photo.shape, (HEIGHT, WIDTH), strict=False))
    left += STEP * (frame - FRAMES // 2)
    return photo[top : top + scale * HEIGHT, left : left + scale * WIDTH]


def last_frame(frames: list[np.ndarray], crf: int) -> np.ndarray:
    """The last of some RGB frames, as an H.264 file gives it back."""
    file = io.BytesIO()
    with av.open(file, "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(25), options={"crf": str(crf)})
        stream.height, stream.width, stream.pix_fmt = *frames[0].shape[:2], "yuv420p"
        for frame in frames:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(np.ascontiguousarray(frame), format="rgb24")))
        container.mux(stream.encode())
    file.seek(0)
    with av.open(file, "r") as container:
        *_, last = container.decode(video=0)
        return last.to_ndarray(format="rgb24")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", action="append", help="repeatable (default: enlcn-light-x2)")
    options = parser.parse_args()
    models = options.model or ["enlcn-light-x2"]
    scale = native_scale(models[0])
    photos = [decode(file) for file in find_images(options.data, "all")]
    margin = STEP * FRAMES
    photos = [p for p in photos if p.shape[0] >= scale * HEIGHT and p.shape[1] >= scale * WIDTH + margin]
    table = Table(title=f"{len(photos)} clips x{scale}, PSNR on Y in dB")
    for heading in ("CRF", "bicubic", *models):
        table.add_column(heading, justify="right")
    for crf in track(CRFS, "upscaling", console=Console(stderr=True), transient=True):
        scores: dict[str, list[float]] = {name: [] for name in ("bicubic", *models)}
        for photo in photos:
            clip = [imresize(window(photo, frame, scale), 1 / scale) for frame in range(FRAMES)]
            lr = torch.from_numpy(last_frame(clip, crf).copy()).permute(2, 0, 1)[None]
            hr = torch.from_numpy(window(photo, FRAMES - 1, scale).copy()).permute(2, 0, 1)[None]
            results = {"bicubic": imresize_torch(lr, float(scale))}
            for name in models:
                sr = upscale(to_float(lr)[0], scale, model=name, device="cpu", precision="fp32")
                results[name] = to_uint8(sr)[None]
            for name, result in results.items():
                scores[name].append(psnr(result, hr, shave=scale))
        plain, *ours = (fmean(values) for values in scores.values())
        table.add_row(str(crf), f"{plain:.2f}", *(f"{each:.2f} ({each - plain:+.2f})" for each in ours))
    Console().print(table)


if __name__ == "__main__":
    main()
