"""Feed damaged image files to the reader: each must end in an image or in one clean line, in bounded memory.

    python benchmarks/mutated_images.py --count 10000

Mutation i depends on the seed and i alone, so any of them can be replayed with --start i --count 1.
"""

import argparse
import faulthandler
import io
import json
import struct
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image as PillowImage

import enlcn
from enlcn.data.image_io import Image, ImageError, encode_image, load_image

Mutator = Callable[[bytearray, np.random.Generator], None]
EXTREMES = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)
HEADER = 200  # where most formats keep sizes, offsets and counts


def seed_files() -> dict[str, bytes]:
    """Small real files of every format and of most of their kinds."""
    photo = load_image(Path(enlcn.__file__).parent / "assets" / "palace.png").pixels[:64, :80]
    deep = photo.astype(np.uint16) * 257
    alpha = np.linspace(0, 255, 64 * 80).reshape(64, 80).astype(np.uint8)
    picture = PillowImage.fromarray(photo)
    exif = PillowImage.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"

    def by_pillow(image: PillowImage.Image, format: str, **options: object) -> bytes:
        buffer = io.BytesIO()
        image.save(buffer, format, **options)
        return buffer.getvalue()

    files = {
        f"{format} {kind}": encode_image(image, format)
        for format in ("png", "jpeg", "webp", "avif", "tiff")
        for kind, image in {"rgb": Image(photo), "grey": Image(photo[..., :1])}.items()
    }
    for format in ("png", "webp", "tiff"):
        files[f"{format} alpha"] = encode_image(Image(photo, alpha), format, lossless=format == "webp")
    for format in ("png", "tiff", "avif"):
        files[f"{format} 16 bit"] = encode_image(Image(deep), format)
    files["png palette"] = by_pillow(picture.convert("P"), "PNG", transparency=3)
    files["png exif"] = by_pillow(picture, "PNG", exif=exif)
    files["jpeg exif progressive"] = by_pillow(picture, "JPEG", exif=exif, progressive=True)
    files["jpeg cmyk"] = by_pillow(picture.convert("CMYK"), "JPEG")
    files["tiff cmyk"] = by_pillow(picture.convert("CMYK"), "TIFF")
    files["tiff plain"] = by_pillow(picture, "TIFF", exif=exif)
    files["tiff lzw"] = by_pillow(picture, "TIFF", compression="tiff_lzw")
    files["tiff jpeg"] = by_pillow(picture, "TIFF", compression="jpeg")
    files["bmp"] = by_pillow(picture, "BMP")
    return files


def flip_bytes(data: bytearray, rng: np.random.Generator) -> None:
    for _ in range(rng.integers(1, 9)):
        data[rng.integers(len(data))] = rng.integers(256)


def flip_header_bytes(data: bytearray, rng: np.random.Generator) -> None:
    for _ in range(rng.integers(1, 4)):
        data[rng.integers(min(HEADER, len(data)))] = rng.integers(256)


def plant_extreme(data: bytearray, rng: np.random.Generator) -> None:
    size = (1, 2, 4)[rng.integers(3)]
    value = EXTREMES[rng.integers(len(EXTREMES))] & (256**size - 1)
    reach = HEADER if rng.integers(2) else len(data)
    place = int(rng.integers(max(1, min(reach, len(data)) - size)))
    data[place : place + size] = value.to_bytes(size, ("little", "big")[rng.integers(2)])


def truncate(data: bytearray, rng: np.random.Generator) -> None:
    del data[rng.integers(len(data)) :]


def delete_range(data: bytearray, rng: np.random.Generator) -> None:
    place = rng.integers(len(data))
    del data[place : place + rng.integers(1, 100)]


def repeat_range(data: bytearray, rng: np.random.Generator) -> None:
    place = rng.integers(len(data))
    data[place:place] = data[place : place + rng.integers(1, 400)]


def insert_noise(data: bytearray, rng: np.random.Generator) -> None:
    place = rng.integers(len(data))
    data[place:place] = rng.bytes(int(rng.integers(1, 100)))


def blank_range(data: bytearray, rng: np.random.Generator) -> None:
    place, length = rng.integers(len(data)), rng.integers(1, 300)
    data[place : place + length] = bytes([(0, 255)[rng.integers(2)]]) * len(data[place : place + length])


def swap_ranges(data: bytearray, rng: np.random.Generator) -> None:
    a, b = rng.integers(len(data), size=2)
    length = rng.integers(1, 64)
    data[a : a + length], data[b : b + length] = data[b : b + length], data[a : a + length]


MUTATORS: tuple[Mutator, ...] = (
    flip_bytes,
    flip_header_bytes,
    plant_extreme,
    truncate,
    delete_range,
    repeat_range,
    insert_noise,
    blank_range,
    swap_ranges,
)


def with_right_checksums(data: bytes) -> bytes:
    """A PNG whose chunks have the checksums of what they now hold, so that damage gets past them."""
    fixed, place = bytearray(data), 8
    while place + 12 <= len(fixed):
        (length,) = struct.unpack_from(">I", fixed, place)
        end = place + 8 + length
        if end + 4 > len(fixed):
            break
        struct.pack_into(">I", fixed, end, zlib.crc32(fixed[place + 4 : end]))
        place = end + 4
    return bytes(fixed)


def mutated(files: dict[str, bytes], seed: int, index: int) -> tuple[str, bytes]:
    """Mutation number `index`: which file it was, and its bytes."""
    rng = np.random.default_rng((seed, index))
    kind = list(files)[rng.integers(len(files))]
    data = bytearray(files[kind])
    for _ in range(rng.integers(1, 4)):
        if data:
            MUTATORS[rng.integers(len(MUTATORS))](data, rng)
    if kind.startswith("png") and rng.integers(2):
        return kind, with_right_checksums(bytes(data))
    return kind, bytes(data)


def peak_megabytes() -> int:
    """The most this process ever held; getrusage would also count what its parent held when it started this one."""
    status = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024


def run(count: int, start: int, seed: int, codec: str) -> dict[str, object]:
    """Read `count` mutations; what they ended in, the slowest of them, and the process's peak memory."""
    files = seed_files()
    if codec == "pillow":
        sys.modules["pyvips"] = None  # type: ignore[assignment]
    outcomes: Counter[str] = Counter()
    violations, slowest, began = [], 0.0, time.perf_counter()
    for index in range(start, start + count):
        kind, data = mutated(files, seed, index)
        before = time.perf_counter()
        try:
            image = load_image(data, name="mutated")
            outcomes["images"] += 1
            int(image.planes().sum())
        except ImageError as error:
            outcomes["clean errors"] += 1
            if "\n" in str(error) or not str(error).startswith("mutated: "):
                violations.append(f"{index} ({kind}): unclean message {str(error)!r}")
        except Exception as error:
            violations.append(f"{index} ({kind}): {type(error).__name__}: {error}")
        slowest = max(slowest, time.perf_counter() - before)
    return {
        "mutations": count,
        **outcomes,
        "violations": violations,
        "slowest_seconds": round(slowest, 3),
        "seconds": round(time.perf_counter() - began, 1),
        "peak_megabytes": peak_megabytes(),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--start", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--codec", choices=("vips", "pillow"), default="vips")
    arguments = parser.parse_args()
    faulthandler.enable()
    result = run(arguments.count, arguments.start, arguments.seed, arguments.codec)
    print(json.dumps(result, indent=2))
    sys.exit(bool(result["violations"]))


if __name__ == "__main__":
    main()
