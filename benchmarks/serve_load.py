"""Many clients at once on loopback: no result lost or mixed up, the queue's limit kept, latencies reported.

    python benchmarks/serve_load.py --clients 200 --seconds 60

Each client has an address of its own (127.x.y.z), sends a picture of its own, waits for the answer, compares it with
what the network gives for that very picture, and sends the next. A 429 is an answer too; its Retry-After is kept.
"""

import argparse
import asyncio
import json
import ssl
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
from serve_process import Server, percentile

import enlcn
from enlcn.data.image import Image
from enlcn.data.image_io import encode_image, load_image

_NO_TLS = ssl.create_default_context()  # one for all: each client would else read all certificates
MODEL = "untrained:enlcn-tiny-x2"
SIDE = 32
LIMIT = 64


@dataclass
class Tally:
    """What the clients saw."""

    answers: Counter[str] = field(default_factory=Counter)
    latencies: list[float] = field(default_factory=list)
    refusals: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    per_client: Counter[int] = field(default_factory=Counter)
    deepest_queue: float = 0.0


def picture(client: int) -> np.ndarray:
    """The pixels (H, W, 3) of one client."""
    return np.random.default_rng(client).integers(0, 256, (SIDE, SIDE, 3), np.uint8)


async def client(number: int, url: str, expected: np.ndarray, until: float, tally: Tally) -> None:
    """One client: sends its picture as long as there is time."""
    data = encode_image(Image(picture(number)), "png")
    address = f"127.{1 + number // 250}.{number % 250}.7"
    transport = httpx.AsyncHTTPTransport(local_address=address, verify=_NO_TLS)
    async with httpx.AsyncClient(base_url=url, timeout=120, transport=transport) as session:
        while time.monotonic() < until:
            began = time.monotonic()
            answer = await session.post("/v1/upscale?scale=2&respond=image", content=data)
            seconds = time.monotonic() - began
            tally.answers[str(answer.status_code)] += 1
            if answer.status_code == 429:
                tally.refusals.append(seconds)
                if int(answer.headers["Retry-After"]) < 1:
                    tally.wrong.append(f"client {number}: Retry-After {answer.headers['Retry-After']}")
                await asyncio.sleep(float(answer.headers["Retry-After"]))
                continue
            if answer.status_code != 200:
                tally.wrong.append(f"client {number}: {answer.status_code} {answer.text[:150]}")
                continue
            tally.latencies.append(seconds)
            tally.per_client[number] += 1
            got = load_image(answer.content).pixels.astype(int)
            if got.shape != expected.shape or np.abs(got - expected).max() > 1:  # threads round differently
                tally.wrong.append(f"client {number}: got another picture's result")


async def watch(url: str, tally: Tally, health: list[float]) -> None:
    """Ask for the queue's length and the server's health all along."""
    async with httpx.AsyncClient(base_url=url, timeout=30) as session:
        while True:
            began = time.monotonic()
            await session.get("/healthz")
            health.append(time.monotonic() - began)
            text = (await session.get("/metrics")).text
            length = next(line for line in text.splitlines() if line.startswith("enlcn_queue_length "))
            tally.deepest_queue = max(tally.deepest_queue, float(length.split()[1]))
            await asyncio.sleep(0.2)


async def load(url: str, clients: int, seconds: float) -> dict[str, object]:
    """Run all clients; what they saw."""
    expected = [enlcn.upscale(picture(number), 2, model=MODEL, device="cpu") for number in range(clients)]
    tally, health = Tally(), [0.0]
    watching = asyncio.create_task(watch(url, tally, health))
    began = time.monotonic()
    everyone = (client(number, url, expected[number], began + seconds, tally) for number in range(clients))
    await asyncio.gather(*everyone)
    elapsed = time.monotonic() - began
    watching.cancel()

    def milliseconds(values: list[float]) -> dict[str, float]:
        shares = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
        return {name: round(1000 * percentile(values, share), 1) for name, share in shares.items()} if values else {}

    served = [tally.per_client[number] for number in range(clients)]
    return {
        "clients": clients,
        "seconds": round(elapsed, 1),
        "answers": dict(sorted(tally.answers.items())),
        "results_per_second": round(len(tally.latencies) / elapsed, 1),
        "latency_ms": milliseconds(tally.latencies),
        "refusal_ms": milliseconds(tally.refusals),
        "healthz_ms": milliseconds(health),
        "results_per_client": {"least": min(served), "most": max(served)},
        "deepest_queue": tally.deepest_queue,
        "wrong": tally.wrong[:10],
    }


def run(server: Server, clients: int, seconds: float, limit: int = LIMIT) -> dict[str, object]:
    """The load, and whether all is in order afterwards."""
    told = asyncio.run(load(server.url, clients, seconds))
    gauges = httpx.get(f"{server.url}/metrics").text
    left = [line for line in gauges.splitlines() if line.startswith(("enlcn_queue_length ", "enlcn_stored_bytes "))]
    answers = told["answers"]
    assert isinstance(answers, dict)
    violations = list(told["wrong"])  # type: ignore[call-overload]
    if told["deepest_queue"] > limit:  # type: ignore[operator]
        violations.append(f"the queue held {told['deepest_queue']} of {limit}")
    if any(not line.endswith(" 0") for line in left):
        violations.append(f"not all places were given back: {left}")
    if set(answers) - {"200", "429"}:
        violations.append(f"answers were {answers}")
    return {**told, "queue_limit": limit, "violations": violations}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--queue-length", type=int, default=LIMIT)
    arguments = parser.parse_args()
    options = ("--model", MODEL, "--device", "cpu", "--queue-length", str(arguments.queue_length))
    with Server(*options) as server:
        result = run(server, arguments.clients, arguments.seconds, arguments.queue_length)
    print(json.dumps(result, indent=2))
    sys.exit(bool(result["violations"]))


if __name__ == "__main__":
    main()
