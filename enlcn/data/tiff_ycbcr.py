"""YCbCr in TIFF files that are not compressed as JPEG: the codecs give such samples as they lie there, as if RGB.

TIFF 6.0, section 21: luma and colour differences, each from a black to a white of its own.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from enlcn.data.tiff_tags import Value, tags_of_tiff

_BITS, _COMPRESSION, _PHOTOMETRIC = 258, 259, 262
_COEFFICIENTS, _SUBSAMPLING, _BLACK_AND_WHITE = 529, 530, 532
_WANTED = (_BITS, _COMPRESSION, _PHOTOMETRIC, _COEFFICIENTS, _SUBSAMPLING, _BLACK_AND_WHITE)
_YCBCR, _JPEG = 6, (6, 7)  # of which the codecs make RGB themselves
_BT601 = (0.299, 0.587, 0.114)
_FULL_RANGE = (0.0, 255.0, 128.0, 255.0, 128.0, 255.0)
_HALVED = (2, 2)  # what the standard assumes where a file does not tell


@dataclass(frozen=True)
class YCbCr:
    """How the samples of a file stand for colours.

    Attributes:
        bits: of a sample.
        is_subsampled: colour differences are shared by several pixels.
        luma: weights of red, green and blue in Y.
        black_and_white: of Y, Cb and Cr, in turn.
    """

    bits: int = 8
    is_subsampled: bool = False
    luma: tuple[float, ...] = _BT601
    black_and_white: tuple[float, ...] = _FULL_RANGE

    def to_rgb(self) -> tuple[np.ndarray, np.ndarray]:
        """The matrix (3, 3) and offset (3,) with which R'G'B' = matrix @ Y'CbCr + offset, all in [0, 255]."""
        black, white = np.array(self.black_and_white[::2]), np.array(self.black_and_white[1::2])
        spread = np.array([255.0, 127.0, 127.0]) / (white - black)
        red, green, blue = self.luma
        from_blue, from_red = 2 - 2 * blue, 2 - 2 * red
        full = np.array([[1, 0, from_red], [1, -blue * from_blue / green, -red * from_red / green], [1, from_blue, 0]])
        matrix = full * spread
        return matrix, -matrix @ black


def ycbcr_of_tiff(source: bytes | Path) -> YCbCr | None:
    """What a file's first directory tells of its YCbCr; None where its colours are others or compressed as JPEG."""
    tags = tags_of_tiff(source, _WANTED)
    if tags.get(_PHOTOMETRIC) != (_YCBCR,) or tags.get(_COMPRESSION, (1,))[0] in _JPEG:
        return None
    luma = _numbers(tags.get(_COEFFICIENTS), _BT601)
    black_and_white = _numbers(tags.get(_BLACK_AND_WHITE), _FULL_RANGE)
    levels = zip(black_and_white[::2], black_and_white[1::2], strict=True)
    if min(luma) <= 0 or any(low >= high for low, high in levels):
        luma, black_and_white = _BT601, _FULL_RANGE
    is_subsampled = tags.get(_SUBSAMPLING, _HALVED) != (1, 1)
    return YCbCr(int(max(tags.get(_BITS, (8,)))), is_subsampled, luma, black_and_white)


def _numbers(values: Value | None, usual: tuple[float, ...]) -> tuple[float, ...]:
    return tuple(map(float, values)) if values is not None and len(values) == len(usual) else usual
