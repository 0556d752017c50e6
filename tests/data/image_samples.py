"""Image files made byte by byte, so that what reads and writes them is not what is tested."""

import struct
import zlib

import numpy as np

ORIENTATIONS = range(1, 9)


def exif_block(orientation: int, order: str = ">") -> bytes:
    """An EXIF block with orientation, Make, Artist and an ExifIFD that holds DateTimeOriginal."""
    make, artist, taken = b"Camera Maker\0", b"A. Photographer\0", b"2021:02:03 04:05:06\0"
    first, count = 8, 4
    sub_ifd = first + 2 + 12 * count + 4
    make_at = sub_ifd + 2 + 12 + 4
    artist_at = make_at + len(make)
    taken_at = artist_at + len(artist)

    def entry(tag: int, kind: int, number: int, value: int) -> bytes:
        packed = struct.pack(f"{order}H", value) + b"\0\0" if kind == 3 else struct.pack(f"{order}I", value)
        return struct.pack(f"{order}HHI", tag, kind, number) + packed

    directory = struct.pack(f"{order}H", count)
    directory += entry(0x010F, 2, len(make), make_at)
    directory += entry(0x0112, 3, 1, orientation)
    directory += entry(0x013B, 2, len(artist), artist_at)
    directory += entry(0x8769, 4, 1, sub_ifd) + struct.pack(f"{order}I", 0)
    sub = struct.pack(f"{order}H", 1) + entry(0x9003, 2, len(taken), taken_at) + struct.pack(f"{order}I", 0)
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return mark + struct.pack(f"{order}I", first) + directory + sub + make + artist + taken


def adobe_rgb_profile() -> bytes:
    """An ICC matrix profile with the primaries and the gamma of Adobe RGB (1998)."""

    def xyz(x: float, y: float, z: float) -> bytes:
        return b"XYZ \0\0\0\0" + struct.pack(">3i", *(round(v * 65536) for v in (x, y, z)))

    curve = b"curv\0\0\0\0" + struct.pack(">IH", 1, 563) + b"\0\0"  # 563 / 256 = 2.19921875
    text = b"Adobe RGB compatible\0"
    description = b"desc\0\0\0\0" + struct.pack(">I", len(text)) + text + bytes(78) + b"\0"
    tags = {
        b"desc": description,
        b"cprt": b"text\0\0\0\0none\0\0\0\0",
        b"wtpt": xyz(0.9505, 1.0, 1.0891),
        b"rXYZ": xyz(0.60974, 0.31111, 0.01947),
        b"gXYZ": xyz(0.20528, 0.62567, 0.06087),
        b"bXYZ": xyz(0.14919, 0.06322, 0.74457),
        b"rTRC": curve,
        b"gTRC": curve,
        b"bTRC": curve,
    }
    table, body, offset = struct.pack(">I", len(tags)), b"", 128 + 4 + 12 * len(tags)
    for signature, data in tags.items():
        table += signature + struct.pack(">II", offset + len(body), len(data))
        body += data + bytes(-len(data) % 4)
    size = 128 + len(table) + len(body)
    header = struct.pack(">I4sI4s4s4s", size, b"none", 0x02400000, b"mntr", b"RGB ", b"XYZ ")
    header += struct.pack(">6H", 2020, 1, 1, 0, 0, 0) + b"acsp" + bytes(28)
    header += struct.pack(">3i", 63190, 65536, 54061)
    return header + bytes(128 - len(header)) + table + body


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png_file(planes: np.ndarray, *, icc: bytes | None = None, exif: bytes | None = None) -> bytes:
    """A PNG of planes (H, W, 1 to 4), 8 or 16 bit, unfiltered."""
    height, width, bands = planes.shape
    colour_type = {1: 0, 2: 4, 3: 2, 4: 6}[bands]
    rows = planes.astype(planes.dtype.newbyteorder(">")).reshape(height, -1)
    raw = b"".join(b"\0" + row.tobytes() for row in rows)
    header = struct.pack(">IIBBBBB", width, height, planes.dtype.itemsize * 8, colour_type, 0, 0, 0)
    chunks = [png_chunk(b"IHDR", header)]
    if icc:
        chunks.append(png_chunk(b"iCCP", b"profile\0\0" + zlib.compress(icc)))
    if exif:
        chunks.append(png_chunk(b"eXIf", exif))
    chunks += [png_chunk(b"IDAT", zlib.compress(raw)), png_chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def png_chunks(data: bytes) -> dict[bytes, bytes]:
    """The chunks of a PNG, those of one kind joined."""
    chunks: dict[bytes, bytes] = {}
    place = 8
    while place < len(data):
        (length,) = struct.unpack_from(">I", data, place)
        kind = data[place + 4 : place + 8]
        chunks[kind] = chunks.get(kind, b"") + data[place + 8 : place + 8 + length]
        place += 12 + length
    return chunks


def stored_for(upright: np.ndarray, orientation: int) -> np.ndarray:
    """How a camera with this EXIF orientation stores what is seen as `upright`, from the standard's table.

    Orientation n says where row 0 and column 0 of the stored pixels lie in the picture as seen.
    """
    return {
        1: lambda seen: seen,  # top, left
        2: lambda seen: seen[:, ::-1],  # top, right
        3: lambda seen: seen[::-1, ::-1],  # bottom, right
        4: lambda seen: seen[::-1],  # bottom, left
        5: lambda seen: seen.swapaxes(0, 1),  # left, top
        6: lambda seen: np.rot90(seen, 1),  # right, top
        7: lambda seen: np.rot90(seen, 2).swapaxes(0, 1),  # right, bottom
        8: lambda seen: np.rot90(seen, -1),  # left, bottom
    }[orientation](upright)
