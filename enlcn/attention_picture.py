"""Attention maps as a picture: panels side by side, the weights as heat over the darkened photo, the pixel marked."""

import math
from dataclasses import dataclass

import numpy as np
from PIL import Image, ImageDraw, ImageFont
from torch import Tensor

from enlcn.attention_map import AttentionMap

# Black, violet, red, orange, pale yellow: darker to lighter, so that grey print keeps the order.
_HEAT = np.array([(0, 0, 4), (81, 18, 124), (183, 55, 121), (252, 137, 97), (252, 253, 191)], dtype=np.float64)
_MARK = (230, 30, 30)
_MIN_PANEL = 320
_GAP = 12
_CAPTION = 44


@dataclass(frozen=True)
class Row:
    """One line of the picture.

    Attributes:
        title: the network, and whether it is trained.
        point: (x, y) of the marked pixel.
        maps: the panels after the photo.
    """

    title: str
    point: tuple[int, int]
    maps: list[AttentionMap]


def draw(lr: Tensor, rows: list[Row]) -> Image.Image:
    """Photo and maps, one row per network and point.

    Args:
        lr: the photo, (1, 3, H, W) in [0, 1].
        rows: what to show.

    Returns:
        An RGB picture.
    """
    photo = (lr[0].clamp(0, 1).permute(1, 2, 0).cpu().numpy() * 255).round().astype(np.uint8)  # (H, W, 3)
    zoom = max(1, math.ceil(_MIN_PANEL / photo.shape[1]))
    panel_width, panel_height = photo.shape[1] * zoom, photo.shape[0] * zoom
    columns = 1 + max(len(row.maps) for row in rows)
    size = (columns * (panel_width + _GAP) + _GAP, len(rows) * (panel_height + _CAPTION + _GAP) + _GAP)
    sheet = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(sheet)
    font = ImageFont.load_default(size=14)
    for line, row in enumerate(rows):
        panels = [(photo, [row.title, f"pixel {row.point[0]},{row.point[1]}"])]
        panels += [
            (_overlay(photo, m), [_title(m), f"top 1 % of pixels: {m.focus:.0%} of the weight"]) for m in row.maps
        ]
        top = _GAP + line * (panel_height + _CAPTION + _GAP)
        for column, (pixels, caption) in enumerate(panels):
            left = _GAP + column * (panel_width + _GAP)
            panel = Image.fromarray(pixels).resize((panel_width, panel_height), Image.Resampling.NEAREST)
            sheet.paste(panel, (left, top))
            _mark(pen, left + (row.point[0] + 0.5) * zoom, top + (row.point[1] + 0.5) * zoom)
            pen.multiline_text((left, top + panel_height + 4), "\n".join(caption), fill="black", font=font, spacing=4)
    return sheet


def _title(attention_map: AttentionMap) -> str:
    return f"attention {attention_map.module}, {attention_map.weighing}"


def _overlay(photo: np.ndarray, attention_map: AttentionMap) -> np.ndarray:
    weights = attention_map.weights.double().cpu().numpy()
    # The square root brings out the many small weights beside the few large ones.
    level = np.sqrt(weights / max(weights.max(), 1e-30)) * (len(_HEAT) - 1)
    heat = np.stack([np.interp(level, range(len(_HEAT)), _HEAT[:, c]) for c in range(3)], axis=-1)
    grey = photo.mean(axis=-1, keepdims=True)
    return np.clip(0.25 * grey + 0.85 * heat, 0, 255).astype(np.uint8)


def _mark(pen: ImageDraw.ImageDraw, x: float, y: float) -> None:
    for radius, colour in ((7, "white"), (6, _MARK), (5, _MARK)):
        pen.ellipse((x - radius, y - radius, x + radius, y + radius), outline=colour)
