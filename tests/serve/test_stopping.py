"""The end of a server: it goes on answering while jobs finish and until their results are fetched, but not for long."""

import signal
import time

import httpx
import pytest

from .conftest import picture
from .test_limits import SLOW, gauge, kind_of, wait_until

FETCHING = "stopping: results can be fetched for 10 s; Ctrl-C again stops it now\n"


def start_job(server, size=200):
    """The address of a job that runs."""
    answer = server.client.post("/v1/upscale?respond=job", content=picture(1, size, size))
    wait_until(lambda: gauge(server, "enlcn_jobs_running") == 1)
    return answer.headers["location"]


@pytest.fixture
def stopping(start):
    """A server that was told to stop while a job runs, and the job."""
    server = start("--shutdown-seconds", "60", model=SLOW)
    place = start_job(server)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.stderr.readline().startswith("stopping: what runs has up to 60 s")
    return server, place


def test_a_stopping_server_answers_until_the_last_result_is_fetched(stopping):
    server, place = stopping
    ready = httpx.get(server.url + "/readyz")  # on a connection of its own
    assert (ready.status_code, kind_of(ready)) == (503, "shutting-down")
    assert server.client.get("/healthz").status_code == 200
    refused = server.client.post("/v1/upscale", content=picture(2))
    assert (refused.status_code, kind_of(refused)) == (503, "shutting-down")
    assert refused.headers["Retry-After"]
    with server.client.stream("GET", place + "/events") as events:
        assert "event: done" in list(events.iter_lines())
    assert server.process.stderr.readline() == FETCHING
    time.sleep(1)  # nobody hurries
    assert server.client.get(place).json()["state"] == "done"
    assert server.client.get(place + "/result").headers["content-type"] == "image/png"
    server.process.wait(5)
    assert server.process.stderr.read() == "stopped\n"
    assert server.process.returncode == 0


def test_results_that_nobody_fetches_keep_a_server_for_some_seconds(stopping):
    server, _ = stopping
    assert server.process.stderr.readline() == FETCHING
    began = time.monotonic()
    server.process.wait(20)
    assert 8 < time.monotonic() - began < 15


def test_a_second_signal_waits_for_no_client(stopping):
    server, _ = stopping
    assert server.process.stderr.readline() == FETCHING
    began = time.monotonic()
    server.process.send_signal(signal.SIGTERM)
    server.process.wait(20)
    assert time.monotonic() - began < 5
    assert server.process.stderr.read() == "stopped\n"


def test_jobs_handed_back_are_told_to_those_who_ask(stopping, start):
    server, place = stopping
    server.client.delete(place)
    wait_until(lambda: server.process.poll() is not None, 10)  # nobody waits any more

    other = start("--shutdown-seconds", "0", model=SLOW)
    running, waiting = start_job(other), other.client.post("/v1/upscale?respond=job", content=picture(1)).json()["id"]
    other.process.send_signal(signal.SIGTERM)
    wait_until(lambda: other.client.get("/readyz").status_code == 503)
    for address in (running, f"/v1/jobs/{waiting}"):
        wait_until(lambda address=address: other.client.get(address).json()["state"] == "failed")
        assert other.client.get(address).json()["problem"]["status"] == 503
    other.process.wait(5)


def test_an_idle_server_stops_at_once(start):
    server = start()
    address = server.client.post("/v1/upscale?respond=job", content=picture(1)).headers["location"]
    wait_until(lambda: server.client.get(address).json()["state"] == "done")
    assert server.client.get(address + "/result").status_code == 200
    began = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - began < 3
