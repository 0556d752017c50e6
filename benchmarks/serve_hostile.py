"""Hostile uploads: bombs, truncated and mutated files, wrong types, huge claims. The server must not care.

    python benchmarks/serve_hostile.py --count 1000

Each upload must end in a clean answer (never a 5xx), /healthz must be answered under 100 ms all along, and memory must
come back to its level. Upload i depends on the seed and i alone.
"""

import argparse
import asyncio
import json
import random
import struct
import sys
import threading
import time
import zlib
from collections import Counter
from pathlib import Path

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from mutated_images import mutated, seed_files
from serve_process import Server, percentile

SLOWEST_HEALTH = 0.1
MEMORY_SLACK = 64.0  # MiB: what allocators keep


def png(width: int, height: int, body: bytes, *extra: bytes, depth: int = 8, colour: int = 2) -> bytes:
    """A PNG with right checksums, whatever it claims."""
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    parts = [_chunk(b"IHDR", header), *extra, _chunk(b"IDAT", body), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def bombs() -> dict[str, bytes]:
    """Small files that would become large, or claim to."""
    zeros = zlib.compress(bytes(64 * 2**20), 9)  # 64 MiB in 64 KiB
    text = b"bomb\0\0" + zeros
    tiff = struct.pack("<2sHIH", b"II", 42, 8, 4)
    tiff += struct.pack("<HHII", 256, 4, 1, 2**31 - 1) + struct.pack("<HHII", 257, 4, 1, 2**31 - 1)
    tiff += struct.pack("<HHII", 273, 4, 1, 8) + struct.pack("<HHII", 279, 4, 1, 2**32 - 1) + b"\0\0\0\0"
    jpeg = b"\xff\xd8\xff\xc0\x00\x11\x08\xff\xff\xff\xff\x03\x01\x22\x00\x02\x11\x01\x03\x11\x01\xff\xd9"
    webp = b"RIFF\x1a\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff"
    avif = b"\x00\x00\x00\x1cftypavif\x00\x00\x00\x00avifmif1miaf" + b"\x7f\xff\xff\xffmeta" + bytes(64)
    bmp = b"BM" + struct.pack("<IHHIIiiHHI", 2**32 - 1, 0, 0, 54, 40, 2**31 - 1, 2**31 - 1, 1, 24, 0) + bytes(20)
    return {
        "png claims 2^31 x 2^31": png(2**31 - 1, 2**31 - 1, zeros),
        "png claims 60000 x 60000": png(60_000, 60_000, zeros),
        "png within limits, pixels missing": png(4000, 4000, zlib.compress(bytes(1000))),
        "png data beyond its size": png(16, 16, zeros),
        "png compressed text": png(16, 16, zlib.compress(bytes(16 * 49)), _chunk(b"zTXt", text)),
        "png compressed profile": png(16, 16, zlib.compress(bytes(16 * 49)), _chunk(b"iCCP", b"x\0\0" + zeros)),
        "png 16 bit, just allowed": png(4096, 4095, zlib.compress(bytes(100)), depth=16, colour=6),
        "tiff claims 2^31 x 2^31": tiff,
        "jpeg claims 65535 x 65535": jpeg,
        "webp claims 2^24 x 2^24": webp,
        "avif with a box of 2 GB": avif,
        "bmp claims 2^31 x 2^31": bmp,
        "svg": b"<svg xmlns='http://www.w3.org/2000/svg' width='99999' height='99999'/>",
        "html": b"<!doctype html><script>alert(1)</script>",
        "zip": b"PK\x03\x04" + bytes(200),
        "gzip": b"\x1f\x8b" + bytes(200),
        "elf": b"\x7fELF" + bytes(200),
        "nothing but zeros": bytes(100_000),
        "empty": b"",
    }


def upload(index: int, seed: int, made: dict[str, bytes], files: dict[str, bytes]) -> tuple[str, bytes]:
    """Upload number `index`: what it is, and its bytes."""
    choice = random.Random(f"{seed} {index}")
    if index % 3 == 0:
        name = list(made)[(index // 3) % len(made)]
        return name, made[name]
    kind, data = mutated(files, seed, index)
    if index % 3 == 1:
        return f"{kind}, truncated", data[: choice.randrange(1, max(2, len(data)))]
    return f"{kind}, mutated", data


async def attack(url: str, count: int, at_once: int, seed: int) -> dict[str, object]:
    """Send all uploads; returns the answers by status, and how long /healthz took meanwhile."""
    made, files = bombs(), seed_files()
    uploads = [upload(index, seed, made, files) for index in range(count)]  # made before the clock runs
    answers: Counter[str] = Counter()
    wrong: list[str] = []
    health: list[float] = []
    over = threading.Event()
    gate = asyncio.Semaphore(at_once)
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:

        async def one(index: int) -> None:
            name, data = uploads[index]
            async with gate:
                path = "/v1/attention?x=0&y=0" if index % 7 == 0 else "/v1/upscale?scale=2&respond=image"
                for _ in range(100):
                    if index % 2:
                        answer = await client.post(path, content=data)
                    else:
                        answer = await client.post(path, files={"file": (f"../../{name}\r\n", data)})
                    if answer.status_code != 429:
                        break
                    await asyncio.sleep(0.2)
            answers[str(answer.status_code)] += 1
            is_problem = answer.headers["content-type"] == "application/problem+json"
            if answer.status_code >= 500 or (answer.status_code != 200 and not is_problem):
                wrong.append(f"{index} ({name}): {answer.status_code} {answer.text[:200]}")

        def watch() -> None:
            with httpx.Client(base_url=url, timeout=30) as other:
                while not over.wait(0.05):
                    began = time.perf_counter()
                    assert other.get("/healthz").status_code == 200
                    health.append(time.perf_counter() - began)

        watching = threading.Thread(target=watch)
        watching.start()
        await asyncio.gather(*(one(index) for index in range(count)))
        over.set()
        watching.join()
    return {
        "answers": dict(sorted(answers.items())),
        "wrong": wrong[:10],
        "healthz_ms": {
            "asked": len(health),
            "p50": round(1000 * percentile(health, 0.5), 1),
            "p99": round(1000 * percentile(health, 0.99), 1),
            "max": round(1000 * max(health), 1),
        },
    }


def healthy_after(url: str) -> float:
    """The slowest of twenty /healthz once all is over, in seconds."""
    times = []
    with httpx.Client(base_url=url) as client:
        for _ in range(20):
            began = time.perf_counter()
            assert client.get("/healthz").status_code == 200
            times.append(time.perf_counter() - began)
    return max(times)


def run(server: Server, count: int, at_once: int, seed: int) -> dict[str, object]:
    """Warm up, attack, and look again."""
    good = httpx.post(f"{server.url}/v1/upscale?scale=2", content=seed_files()["png rgb"], timeout=60)
    assert good.status_code == 200
    asyncio.run(attack(server.url, 60, at_once, seed + 1))  # code and caches that any use brings into memory
    before = server.megabytes()
    began = time.perf_counter()
    told = asyncio.run(attack(server.url, count, at_once, seed))
    seconds = time.perf_counter() - began
    after = healthy_after(server.url)
    again = httpx.post(f"{server.url}/v1/upscale?scale=2", content=seed_files()["png rgb"], timeout=60)
    memory = server.megabytes()
    return {
        "uploads": count,
        "seconds": round(seconds, 1),
        **told,
        "healthz_after_ms": round(1000 * after, 1),
        "memory_megabytes": {"before": round(before, 1), "after": round(memory, 1)},
        "same_result_after": again.content == good.content,
        "violations": [
            *told["wrong"],  # type: ignore[misc]
            *(["/healthz was slow afterwards"] if after > SLOWEST_HEALTH else []),
            *(["memory did not come back"] if memory > before + MEMORY_SLACK else []),
            *(["a good picture no longer gives the same result"] if again.content != good.content else []),
        ],
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--at-once", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", default="enlcn-light")
    arguments = parser.parse_args()
    np.seterr(all="ignore")
    with Server("--model", arguments.model) as server:
        result = run(server, arguments.count, arguments.at_once, arguments.seed)
    print(json.dumps(result, indent=2))
    sys.exit(bool(result["violations"]))


if __name__ == "__main__":
    main()
