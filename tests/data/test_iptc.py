"""IPTC metadata: the same records from JPEG and TIFF to either, as Pillow reads them; told where they are lost."""

import io
import logging
import struct

import numpy as np
import pytest
from PIL import Image as PillowImage

from enlcn.data.image import Image
from enlcn.data.image_io import encode_image, load_image
from enlcn.data.iptc import iptc_of
from enlcn.data.vips_stream import ImageStream
from enlcn.upscaling import upscale

PIXELS = np.random.default_rng(0).integers(0, 256, (9, 13, 3)).astype(np.uint8)


def record(number: int, content: bytes) -> bytes:
    return struct.pack(">BBBH", 0x1C, 2, number, len(content)) + content


RECORDS = record(120, b"Ein Haus") + record(25, b"house") + record(80, b"A. Photographer")


def block(kind: int, content: bytes, name: bytes = b"\0\0") -> bytes:
    return (
        b"8BIM" + struct.pack(">H", kind) + name + struct.pack(">I", len(content)) + content + bytes(len(content) % 2)
    )


def jpeg(*blocks: bytes) -> bytes:
    buffer = io.BytesIO()
    payload = b"Photoshop 3.0\0" + b"".join(blocks)
    segment = b"\xff\xed" + struct.pack(">H", 2 + len(payload)) + payload
    PillowImage.fromarray(PIXELS).save(buffer, "jpeg", extra=segment)
    return buffer.getvalue()


def as_pillow_reads(data: bytes) -> bytes:
    with PillowImage.open(io.BytesIO(data)) as opened:
        if opened.format == "JPEG":
            return opened.info["photoshop"][0x0404]
        told = opened.tag_v2[33723]
        return struct.pack(f"<{len(told)}I", *told) if isinstance(told, tuple) else told


def test_records_are_found_among_other_blocks(codec):
    data = jpeg(block(0x0421, b"sizes"), block(0x0404, RECORDS, b"\4name\0"), block(0x0425, bytes(16)))
    assert load_image(data).iptc == RECORDS
    assert load_image(jpeg(block(0x0421, b"sizes"))).iptc is None


@pytest.mark.parametrize("format", ["jpeg", "tiff"])
@pytest.mark.parametrize("records", [RECORDS, RECORDS + record(5, b"x")], ids=["even", "odd"])
def test_records_survive(codec, format, records):
    image = load_image(jpeg(block(0x0404, records)))
    data = encode_image(image, format)
    assert load_image(data).iptc == records
    assert as_pillow_reads(data).rstrip(b"\0") == records
    assert load_image(encode_image(load_image(data), "jpeg")).iptc == records


@pytest.mark.parametrize("format", ["png", "webp", "avif"])
def test_a_loss_is_told(codec, format, caplog):
    image = load_image(jpeg(block(0x0404, RECORDS)))
    with caplog.at_level(logging.WARNING, "enlcn"):
        encode_image(image, format, name="a.x")
        assert caplog.messages == ["a.x: its IPTC metadata is left out; only JPEG and TIFF hold it"]
        caplog.clear()
        encode_image(load_image(jpeg()), format)
        assert caplog.messages == []


def test_records_too_long_for_a_segment(codec, caplog):
    image = Image(PIXELS, iptc=b"".join(record(25, bytes(30_000)) for _ in range(3)))
    assert load_image(encode_image(image, "jpeg")).iptc is None
    assert "too long for JPEG" in caplog.text
    assert load_image(encode_image(image, "tiff")).iptc == image.iptc


def test_records_survive_upscaling_and_streams(tmp_path):
    pytest.importorskip("pyvips")
    (tmp_path / "a.jpg").write_bytes(jpeg(block(0x0404, RECORDS)))
    assert upscale(load_image(tmp_path / "a.jpg"), model="untrained:enlcn-tiny-x2").iptc == RECORDS
    assert ImageStream(tmp_path / "a.jpg").like.iptc == RECORDS


@pytest.mark.parametrize(
    ("held", "found"),
    [
        (RECORDS + b"\0\0\0", RECORDS),
        (RECORDS[:-1], RECORDS[: -len(record(80, b"A. Photographer"))]),
        (struct.pack(">12I", *struct.unpack("<12I", RECORDS.ljust(48, b"\0"))), RECORDS),
        (
            struct.pack(">BBBH", 0x1C, 2, 120, 0x8002) + b"\0\3abc",
            struct.pack(">BBBH", 0x1C, 2, 120, 0x8002) + b"\0\3abc",
        ),
        (b"Photoshop 3.0\0" + b"8BIM\4", None),
        (b"8BIM\4\4\0\0\0", None),
        (b"anything", None),
        (b"", None),
        (None, None),
    ],
)
def test_padded_damaged_and_swapped(held, found):
    assert iptc_of(held) == found
