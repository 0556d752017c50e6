"""What an XMP packet says of the pixels it came with, made to say it of others; all else stays byte for byte."""

import re

_ORIENTATION = b"tiff:Orientation"
_WIDTHS, _HEIGHTS = (b"tiff:ImageWidth", b"exif:PixelXDimension"), (b"tiff:ImageLength", b"exif:PixelYDimension")


def xmp_upright(xmp: bytes) -> bytes:
    """The packet of a picture whose pixels have been turned upright.

    >>> xmp_upright(b'<rdf:Description tiff:Orientation="6"/>')
    b'<rdf:Description tiff:Orientation="1"/>'
    """
    return _with_number(xmp, _ORIENTATION, 1)


def xmp_of_size(xmp: bytes, width: int, height: int) -> bytes:
    """The packet with the picture's size, where it gives one.

    >>> xmp_of_size(b"<exif:PixelXDimension>60</exif:PixelXDimension>", 240, 160)
    b'<exif:PixelXDimension>240</exif:PixelXDimension>'
    """
    for names, number in ((_WIDTHS, width), (_HEIGHTS, height)):
        for name in names:
            xmp = _with_number(xmp, name, number)
    return xmp


def _with_number(xmp: bytes, name: bytes, number: int) -> bytes:
    """The packet with the number of a property changed, be it an attribute or an element."""
    attribute = rb"(?<![^\s])" + name + rb"\s*=\s*[\"']\s*"
    element = rb"<" + name + rb"(?:\s[^<>]*)?(?<!/)>\s*"
    return re.sub(rb"((?:" + attribute + rb"|" + element + rb"))\d+(?=\s*[\"'<])", rb"\g<1>%d" % number, xmp)
