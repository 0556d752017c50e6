"""XMP packets: what they say of orientation and size is made true, and nothing else is touched."""

import io

import numpy as np
import pytest
from PIL import Image as PillowImage

from enlcn.data.image import Image
from enlcn.data.image_io import encode_image, load_image, save_image
from enlcn.data.vips_stream import ImageStream
from enlcn.data.xmp import xmp_of_size, xmp_upright

HEAD = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?><x:xmpmeta xmlns:x="adobe:ns:meta/">'
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"><rdf:Description rdf:about=""'
    ' xmlns:tiff="http://ns.adobe.com/tiff/1.0/" xmlns:exif="http://ns.adobe.com/exif/1.0/"'
)
TAIL = "</rdf:RDF></x:xmpmeta>\n   \n<?xpacket end='w'?>"


def attributes(orientation, width, height) -> bytes:
    told = f'\n tiff:Orientation="{orientation}" tiff:ImageWidth = \'{width}\'\ttiff:ImageLength="{height}"'
    told += f' exif:PixelXDimension="{width}" exif:PixelYDimension="{height}" my-tiff:Orientation="6" tiff:Make="6"/>'
    return (HEAD + told + TAIL).encode()


def elements(orientation, width, height) -> bytes:
    told = f"><tiff:Orientation>{orientation}</tiff:Orientation><tiff:ImageWidth> {width}\n</tiff:ImageWidth>"
    told += f'<tiff:ImageLength xml:lang="x">{height}</tiff:ImageLength><exif:PixelXDimension>{width}'
    told += f"</exif:PixelXDimension><exif:PixelYDimension>{height}</exif:PixelYDimension>"
    told += "<dc:title>tiff:Orientation 6, exif:PixelXDimension 60</dc:title><tiff:Orientation/></rdf:Description>"
    return (HEAD + told + TAIL).encode()


@pytest.mark.parametrize("packet", [attributes, elements])
def test_only_the_values_change(packet):
    assert xmp_upright(packet(6, 60, 40)) == packet(1, 60, 40)
    assert xmp_of_size(packet(6, 60, 40), 1600, 9) == packet(6, 1600, 9)


def test_packets_that_do_not_tell_stay_as_they_are():
    for packet in (b"", b"\xff\xfe<\0x\0", (HEAD + "/>" + TAIL).encode(), b"tiff:Orientation='&#54;'"):
        assert xmp_of_size(xmp_upright(packet), 5, 5) == packet


@pytest.mark.parametrize("format", ["JPEG", "WEBP", "PNG", "AVIF", "TIFF"])
@pytest.mark.parametrize("packet", [attributes, elements])
def test_turned_pictures(tmp_path, codec, format, packet):
    exif = PillowImage.Exif()
    exif[0x0112] = 6
    path = tmp_path / "turned"
    how = {"tiffinfo": {700: packet(6, 30, 20), 274: 6}} if format == "TIFF" else {"exif": exif}
    if format == "PNG":
        texts = how["pnginfo"] = __import__("PIL.PngImagePlugin").PngImagePlugin.PngInfo()
        texts.add_itxt("XML:com.adobe.xmp", packet(6, 30, 20).decode())
    elif format != "TIFF":
        how["xmp"] = packet(6, 30, 20)
    PillowImage.new("RGB", (30, 20)).save(path, format, **how)
    image = load_image(path)
    assert (image.width, image.height) == (20, 30)
    assert image.xmp == packet(1, 30, 20)
    if codec == "vips":
        assert ImageStream(path).like.xmp == image.xmp


def test_a_picture_that_was_not_turned_keeps_what_is_told(tmp_path, codec):
    PillowImage.new("RGB", (30, 20)).save(tmp_path / "a.jpg", xmp=attributes(6, 30, 20))
    assert load_image(tmp_path / "a.jpg").xmp == attributes(6, 30, 20)


@pytest.mark.parametrize("format", ["jpeg", "webp"])
def test_files_tell_their_own_size(tmp_path, codec, format):
    image = Image(np.zeros((80, 120, 3), np.uint8), xmp=attributes(1, 30, 20))
    assert load_image(encode_image(image, format)).xmp == attributes(1, 120, 80)
    with PillowImage.open(io.BytesIO(encode_image(image, format))) as opened:
        assert opened.info["xmp"] == attributes(1, 120, 80)


def test_in_every_format(tmp_path):
    pytest.importorskip("pyvips")
    image = Image(np.zeros((80, 120, 3), np.uint8), xmp=elements(1, 30, 20))
    for suffix in (".png", ".jpg", ".webp", ".avif", ".tif"):
        assert load_image(save_image(image, tmp_path / f"a{suffix}")).xmp == elements(1, 120, 80)
