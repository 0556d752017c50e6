"""Short versions of the two proofs under benchmarks/: hostile uploads, and many clients at once."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
import httpx
import serve_hostile
import serve_load


class Shown:
    """The server of the tests as the benchmarks see theirs."""

    def __init__(self, server):
        self.url, self._server = server.url, server

    def megabytes(self):
        return self._server.resident_bytes() / 2**20


def test_hostile_uploads_leave_the_server_as_it_was(server, monkeypatch):
    monkeypatch.setattr(serve_hostile, "SLOWEST_HEALTH", 5.0)  # other tests have the cores, too
    told = serve_hostile.run(Shown(server), count=60, at_once=8, seed=0)
    assert told["violations"] == []
    assert sum(told["answers"].values()) == 60
    assert set(told["answers"]) <= {"200", "400", "413", "415", "422"}


def test_every_hostile_kind_gets_the_status_it_deserves(server):
    for name, data in serve_hostile.bombs().items():
        answer = server.client.post("/v1/upscale?respond=image&scale=2", content=data)
        if name == "png data beyond its size":
            assert answer.status_code in (200, 422)
            continue
        expected = {400} if not data else {413, 415, 422}
        if name.startswith("png compressed"):
            expected = {200, 422}  # a small picture with a large note: the note may be dropped
        assert answer.status_code in expected, (name, answer.status_code, answer.text[:200])


def test_no_result_is_lost_or_mixed_up_under_load(start):
    server = start("--queue-length", "12", model=serve_load.MODEL)
    told = serve_load.run(Shown(server), clients=40, seconds=8, limit=12)
    assert told["violations"] == []
    assert told["answers"]["200"] >= 12
    assert told["answers"]["429"] >= 1
    assert told["deepest_queue"] <= 12


def test_a_truncated_jpeg_never_passes_for_a_whole_one_beside_others(server):
    """libvips keeps its messages in one place for all threads; those of one upload must not excuse another."""
    from concurrent.futures import ThreadPoolExecutor

    jpeg = serve_hostile.seed_files()["jpeg rgb"]
    with ThreadPoolExecutor(8) as pool:
        answers = pool.map(lambda _: httpx.post(f"{server.url}/v1/upscale", content=jpeg[:-400], timeout=60), range(80))
        assert {answer.status_code for answer in answers} == {422}
