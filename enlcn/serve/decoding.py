"""An uploaded picture, decoded under the name that errors and results call it by."""

from enlcn.data.image import Image
from enlcn.data.image_io import load_image

NAME = "upload"


def decode(data: bytes, max_pixels: int) -> Image:
    """The picture."""
    return load_image(data, max_pixels=max_pixels, name=NAME)
