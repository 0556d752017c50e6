"""Which family is for pictures out of JPEG files, and when to say so."""

from enlcn.zoo import registry
from enlcn.zoo.choose import DEFAULT_FAMILY, family_scales

PHOTO_FAMILY = "enlcn-photo"
# Beneath this quality the family for photographs gains more than the default one, see docs/models/enlcn-photo-x4.md.
CLEAN_QUALITY = 95


def is_worth_telling(jpeg_quality: int | None, model: str | None) -> bool:
    """Whether PHOTO_FAMILY should be named to someone who upscaled such a file with the default family.

    Args:
        jpeg_quality: of the file the picture came from; None where it was no JPEG.
        model: the checkpoint that was taken, by its full name.
    """
    if jpeg_quality is None or jpeg_quality >= CLEAN_QUALITY or model is None:
        return False
    default = model in registry.known() and model.rpartition("-x")[0] == DEFAULT_FAMILY
    return default and bool(family_scales(PHOTO_FAMILY))
