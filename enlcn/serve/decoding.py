"""Decoding beside other threads: libvips keeps what went wrong in one place for all of them."""

import threading

from enlcn.data.image import Image
from enlcn.data.image_io import load_image

NAME = "upload"  # what errors call the picture
# Held while a header is read and while a picture is decoded. Whether a fault is harmless is told by its text, which the
# next reader clears: without the lock, a truncated JPEG now and then passed for a whole one.
ALONE = threading.Lock()


def decode(data: bytes, max_pixels: int) -> Image:
    """The picture, read with no other reader beside."""
    with ALONE:
        return load_image(data, max_pixels=max_pixels, name=NAME)
