"""The visual comparison: LR, bicubic, each model and HR side by side, with their PSNR beneath, as one picture."""

from dataclasses import dataclass, field

import numpy as np
import torch
from PIL import Image as PillowImage
from PIL import ImageDraw, ImageFont
from torch import Tensor

from enlcn.data.image_io import Image
from enlcn.errors import UserError
from enlcn.evaluate.results import Settings
from enlcn.evaluate.run import Evaluated
from enlcn.evaluate.upscalers import BICUBIC, bicubic
from enlcn.metrics import psnr, rgb_to_y

CROP_SIDE = 80  # HR pixels
PANEL_SIDE = 200  # at least so many pixels on paper
GAP = 8
LINE = 18
FRAME_COLOUR = (220, 30, 30)
EDGE_COLOUR = (200, 200, 200)
Box = tuple[int, int, int, int]  # x, y, width, height in HR pixels


@dataclass(frozen=True)
class Panel:
    """One enlarged crop: its pixels (h, w, 3) and the lines beneath it."""

    pixels: np.ndarray
    caption: tuple[str, ...]


@dataclass
class CropCollector:
    """Watches an evaluation and keeps the crops worth showing.

    One row for each test set, of the image and the place where the models differ most amid detail; or one for each
    image named in `images` ("name" or "set/name"). A given `box` is used instead of the place found.
    """

    settings: Settings
    box: Box | None = None
    images: tuple[str, ...] = ()
    _rows: dict[str, tuple[float, list[Panel]]] = field(default_factory=dict)

    def __call__(self, evaluated: Evaluated) -> None:
        """Take a look at one more image."""
        names = (evaluated.image, f"{evaluated.testset}/{evaluated.image}")
        if self.images and not set(names) & set(self.images):
            return
        candidates = dict(evaluated.sr)
        if BICUBIC not in candidates:
            candidates = {BICUBIC: bicubic(self.settings.scale).upscale(evaluated.lr), **candidates}
        score, box = busiest_box(evaluated.hr, list(candidates.values()))
        if self.box is not None:
            box = self.box
        key = names[1] if self.images else evaluated.testset
        if key not in self._rows or score > self._rows[key][0]:
            self._rows[key] = score, self._panels(evaluated, candidates, box)

    def picture(self) -> Image:
        """All rows as one picture."""
        if not self._rows:
            raise UserError(f"none of the images {', '.join(self.images)} is in the test sets")
        rows = [draw_row(panels) for _, panels in self._rows.values()]
        height = sum(row.height for row in rows) + GAP * (len(rows) + 1)
        sheet = PillowImage.new("RGB", (max(row.width for row in rows) + 2 * GAP, height), "white")
        top = GAP
        for row in rows:
            sheet.paste(row, (GAP, top))
            top += row.height + GAP
        return Image(np.asarray(sheet))

    def _panels(self, evaluated: Evaluated, candidates: dict[str, Tensor], box: Box) -> list[Panel]:
        x, y, width, height = box
        _, _, image_height, image_width = evaluated.hr.shape
        if x < 0 or y < 0 or min(width, height) < 1 or x + width > image_width or y + height > image_height:
            raise UserError(
                f"{evaluated.image}: the crop {x},{y},{width},{height} does not lie within its "
                f"{image_width}x{image_height} pixels"
            )

        def cut(image: Tensor) -> Tensor:
            return image[..., y : y + height, x : x + width]

        scale = self.settings.scale
        blocks = evaluated.lr.repeat_interleave(scale, -2).repeat_interleave(scale, -1)
        panels = [
            Panel(_framed(evaluated.hr, box), (f"{evaluated.testset}/{evaluated.image}", "whole image")),
            Panel(_pixels(cut(blocks)), ("LR", f"x{scale}")),
        ]
        for name, sr in candidates.items():
            whole = psnr(sr, evaluated.hr, shave=self.settings.shave)
            here = psnr(cut(sr), cut(evaluated.hr))
            panels.append(Panel(_pixels(cut(sr)), (name, f"{whole:.2f} dB", f"crop {here:.2f} dB")))
        panels.append(Panel(_pixels(cut(evaluated.hr)), ("HR", "PSNR on Y")))
        return panels


def busiest_box(hr: Tensor, candidates: list[Tensor], side: int = CROP_SIDE) -> tuple[float, Box]:
    """Where the candidates' squared errors on Y differ most (are largest, if there is one) amid detail of HR.

    Args:
        hr: (1, 3, H, W), uint8.
        candidates: upscaled images of the same shape.
        side: width and height of the box, less where the image is smaller.

    Returns:
        How much they differ there (the geometric mean of difference and detail), and the box.
    """
    truth = rgb_to_y(hr)[0, 0]
    errors = torch.stack([(rgb_to_y(sr)[0, 0] - truth).square() for sr in candidates])
    difference = errors.amax(0) - errors.amin(0) if len(candidates) > 1 else errors[0]
    detail = torch.zeros_like(truth)
    detail[:-1] += truth.diff(dim=0).square()
    detail[:, :-1] += truth.diff(dim=1).square()
    height, width = min(side, truth.shape[0]), min(side, truth.shape[1])
    scores = (_box_means(difference, height, width) * _box_means(detail, height, width)).clamp(min=0).sqrt()
    y, x = divmod(int(scores.argmax()), scores.shape[1])
    return float(scores[y, x]), (x, y, width, height)


def _box_means(values: Tensor, height: int, width: int) -> Tensor:
    """(H, W) -> (H - height + 1, W - width + 1): the mean over each box, by the box's corner."""
    # sums over all rectangles that start at the image's corner; four of them make a box
    sums = torch.nn.functional.pad(values.cumsum(0).cumsum(1), (1, 0, 1, 0))
    boxes = sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]
    return boxes / (height * width)


def draw_row(panels: list[Panel]) -> PillowImage.Image:
    """Panels side by side at one height, enlarged by a whole number with square pixels, captions beneath."""
    zoom = max(1, -(-PANEL_SIDE // max(panels[-1].pixels.shape[:2])))
    height = panels[-1].pixels.shape[0] * zoom
    pictures = [_at_height(panel.pixels, height) for panel in panels]
    lines = max(len(panel.caption) for panel in panels)
    font = ImageFont.load_default(LINE - 5)
    widths = [
        max(picture.width, *(int(font.getlength(line)) + 1 for line in panel.caption))
        for picture, panel in zip(pictures, panels, strict=True)
    ]
    row = PillowImage.new("RGB", (sum(widths) + GAP * (len(widths) - 1), height + LINE * lines + GAP), "white")
    draw, left = ImageDraw.Draw(row), 0
    for picture, panel, width in zip(pictures, panels, widths, strict=True):
        start = left + (width - picture.width) // 2
        row.paste(picture, (start, 0))
        draw.rectangle((start, 0, start + picture.width - 1, height - 1), outline=EDGE_COLOUR)
        for number, line in enumerate(panel.caption):
            draw.text((left + width // 2, height + GAP // 2 + LINE * number), line, "black", font, anchor="ma")
        left += width + GAP
    return row


def _at_height(pixels: np.ndarray, height: int) -> PillowImage.Image:
    picture = PillowImage.fromarray(pixels)
    enlarged = height % picture.height == 0
    width = max(1, round(picture.width * height / picture.height))
    method = PillowImage.Resampling.NEAREST if enlarged else PillowImage.Resampling.LANCZOS
    return picture.resize((width, height), method)


def _framed(hr: Tensor, box: Box) -> np.ndarray:
    """The whole image with the crop's place marked."""
    picture = PillowImage.fromarray(_pixels(hr))
    x, y, width, height = box
    thickness = max(2, min(picture.size) // 100)
    ImageDraw.Draw(picture).rectangle((x, y, x + width - 1, y + height - 1), outline=FRAME_COLOUR, width=thickness)
    return np.asarray(picture)


def _pixels(image: Tensor) -> np.ndarray:
    """(1, 3, h, w) -> (h, w, 3)."""
    return np.ascontiguousarray(image[0].permute(1, 2, 0).cpu().numpy())
