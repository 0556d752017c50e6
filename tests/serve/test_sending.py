"""Results on their way out: whole though they are forgotten meanwhile, counted as long as they are read."""

import asyncio
import gc

import pytest

from enlcn.serve import sending
from enlcn.serve.config import ServeConfig
from enlcn.serve.job_routes import _file
from enlcn.serve.jobs import Job, Result
from enlcn.serve.problems import Problem
from enlcn.serve.sending import KeptFile
from enlcn.serve.storage import CHUNK, BlobGoneError, Storage
from enlcn.serve.studio import Studio

DATA = bytes(range(256)) * (3 * CHUNK // 256)
SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}}


class MakesDATA:
    cost = 1.0

    def __init__(self, storage):
        self.storage = storage

    def __call__(self, toolbox, watch):
        return Result({"result": (self.storage.blob(DATA), "image/png")})

    def discard(self):
        pass


@pytest.fixture
def studio():
    return Studio(ServeConfig())


@pytest.fixture
def job(studio):
    """One whose result can be fetched."""
    done = Job("client", MakesDATA(studio.storage), {})
    studio._jobs[done.id] = done
    studio.run(done, None)
    return done


async def stay():
    await asyncio.Event().wait()


def send_all(response):
    """What a client gets that takes everything."""
    body = bytearray()

    async def take(message):
        body.extend(message.get("body", b""))

    asyncio.run(response(SCOPE, stay, take))
    return bytes(body)


@pytest.mark.parametrize("end", ["forgotten", "expired", "evicted"])
def test_a_result_that_ends_before_its_first_byte_is_sent_whole(studio, job, end):
    response = _file(job, "result")
    if end == "forgotten":
        studio.forget(job)
    elif end == "expired":
        job.finished -= studio.config.result_seconds + 1
        studio.sweep()
    else:
        studio.make_room(studio.storage.limit)
    assert job.id not in studio._jobs
    assert studio.storage.used == len(DATA)
    assert send_all(response) == DATA
    assert studio.storage.used == 0


def test_a_result_that_was_given_back_is_not_found(studio, job):
    result = job.result
    studio.forget(job)
    job.result = result  # as a route has read it that was overtaken
    with pytest.raises(Problem) as raised:
        _file(job, "result")
    assert (raised.value.status, raised.value.kind) == (404, "no-such-job")


def test_a_result_that_was_forgotten_while_its_job_was_found_is_not_found(studio, job):
    studio.forget(job)
    with pytest.raises(Problem) as raised:
        _file(job, "result")
    assert raised.value.kind == "no-such-job"


def test_a_client_that_takes_nothing_is_given_up(studio, job, monkeypatch):
    monkeypatch.setattr(sending, "STALLED_SECONDS", 0.05)
    pieces = []

    async def stall(message):
        if message["type"] == "http.response.body":
            pieces.append(message["body"])
            if len(pieces) == 2:
                studio.forget(job)
                assert studio.storage.used == len(DATA), "its room counts while it is read"
                await stay()

    asyncio.run(asyncio.wait_for(_file(job, "result")(SCOPE, stay, stall), 10))
    assert len(pieces) == 2
    assert studio.storage.used == 0


def test_a_slow_client_gets_everything(monkeypatch):
    monkeypatch.setattr(sending, "STALLED_SECONDS", 2.0)
    storage = Storage(10**7)
    blob = storage.blob(DATA)
    body = bytearray()

    async def take_slowly(message):
        await asyncio.sleep(0.6)  # longer than the limit in all, but not for one piece
        body.extend(message.get("body", b""))

    asyncio.run(KeptFile(blob, "image/png")(SCOPE, stay, take_slowly))
    assert bytes(body) == DATA


def test_a_client_that_leaves_lets_go():
    storage = Storage(10**7)
    blob = storage.blob(DATA)
    response = KeptFile(blob, "image/png")
    blob.close()

    async def leave():
        await asyncio.sleep(0.05)
        return {"type": "http.disconnect"}

    async def stall(message):
        await stay()

    asyncio.run(asyncio.wait_for(response(SCOPE, leave, stall), 10))
    assert storage.used == 0


def test_an_answer_that_is_never_sent_lets_go():
    storage = Storage(10**7)
    blob = storage.blob(DATA)
    response = KeptFile(blob, "image/png")
    blob.close()
    assert storage.used == len(DATA)
    del response
    gc.collect()
    assert storage.used == 0
    with pytest.raises(BlobGoneError):
        KeptFile(blob, "image/png")
