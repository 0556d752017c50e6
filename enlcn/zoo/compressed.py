"""Which family is for pictures out of JPEG files, and when to say so."""

from enlcn.zoo import registry
from enlcn.zoo.choose import DEFAULT_FAMILY

PHOTO_FAMILY = "enlcn-photo"
# From here on it depends on the picture which family is better, see docs/models/enlcn-photo-x2.md.
CLEAN_QUALITY = 95


def photo_family_helps(jpeg_quality: int | None, model: str | None) -> bool:
    """Whether PHOTO_FAMILY, which must be here, does better than the model of the default family that was taken.

    Args:
        jpeg_quality: of the file the picture came from; None where it was no JPEG.
        model: the checkpoint that was taken, by its full name.
    """
    if jpeg_quality is None or jpeg_quality >= CLEAN_QUALITY or model is None:
        return False
    rows = registry.known()
    if model not in rows or not model.startswith(f"{DEFAULT_FAMILY}-x"):
        return False
    others = (row for row in rows.values() if row.name.startswith(f"{PHOTO_FAMILY}-x"))
    return any(row.scale >= rows[model].scale and registry.find(row) is not None for row in others)
