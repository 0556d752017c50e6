"""Every limit, enforced before the work: bytes, pixels, queues, seconds, lifetimes, storage."""

import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import zlib
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from .conftest import TINY, picture

SLOW = "untrained:enlcn-small-x2"
CANCELLED = 'enlcn_jobs_total{kind="upscale",state="cancelled"}'
ENDS = ("done", "failed", "cancelled")


def claiming(width, height):
    """A PNG of a hundred bytes whose header promises a great many pixels."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"\0" * 50)) + chunk(b"IEND", b"")
    )


def kind_of(answer):
    return answer.json()["type"].partition("#")[2]


def wait_until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)


def gauge(server, name, missing=None):
    """A number of /metrics; `missing` where it is not there yet."""
    lines = server.client.get("/metrics").text.splitlines()
    values = [float(line.split()[1]) for line in lines if line.startswith(name)]
    return values[0] if values or missing is None else missing


@pytest.fixture(scope="module")
def tight():
    """A server with small limits and a slow network."""
    from .conftest import Server

    started = Server(
        *("--max-upload", "300K", "--max-pixels", "70000", "--queue-length", "3", "--queue-per-client", "2"),
        *("--upload-seconds", "1.5", "--stored", "1M", "--client-header", "X-Client"),
        model=SLOW,
    )
    yield started
    started.close()


@pytest.fixture(scope="module")
def hasty():
    """A server that waits for nothing long, neither for its network nor for clients."""
    from .conftest import Server

    started = Server("--job-seconds", "8", "--result-seconds", "3", "--abandon-seconds", "3", model=SLOW)
    yield started
    started.close()


def test_bytes(tight):
    announced = tight.client.post("/v1/upscale", content=b"x" * 400_000)
    assert (announced.status_code, kind_of(announced)) == (413, "upload-too-large")

    def unannounced():
        for _ in range(40):
            yield b"x" * 10_000

    counted = tight.client.post("/v1/upscale", content=unannounced())
    assert (counted.status_code, kind_of(counted)) == (413, "upload-too-large")
    form = tight.client.post("/v1/upscale", files={"file": b"x" * 330_000})
    assert (form.status_code, kind_of(form)) == (413, "upload-too-large")


def test_pixels_are_counted_in_the_header(tight):
    answer = tight.client.post("/v1/upscale", content=claiming(60_000, 60_000))
    assert (answer.status_code, kind_of(answer)) == (413, "too-many-pixels")
    assert tight.client.post("/v1/attention?x=0&y=0", content=claiming(60_000, 60_000)).status_code == 413


def test_seconds_of_a_job(hasty):
    answer = hasty.client.post("/v1/upscale?self_ensemble=true", content=picture(0, 500, 500))
    assert (answer.status_code, kind_of(answer)) == (504, "too-slow")


def test_seconds_of_an_upload(tight):
    host, port = tight.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"POST /v1/upscale HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nabc")
        assert b" 408 " in connection.recv(4096).partition(b"\r\n")[0]
    wait_until(lambda: gauge(tight, "enlcn_queue_length") == 0)


def test_queues_and_retry_after(tight):
    lasting, data = "/v1/upscale?respond=job&self_ensemble=true", picture(1, 150, 150)

    def post(client):
        return tight.client.post(lasting, content=data, headers={"X-Client": client})

    answers = [post("greedy")]
    wait_until(lambda: gauge(tight, "enlcn_jobs_running") == 1)
    answers += [post("greedy") for _ in range(3)]  # one runs, two wait, one is refused
    assert [a.status_code for a in answers[:3]] == [202] * 3
    assert (answers[3].status_code, kind_of(answers[3])) == (429, "client-queue-full")
    modest = post("modest")
    assert modest.status_code == 202
    full = post("late")
    assert (full.status_code, kind_of(full)) == (429, "queue-full")
    for refused in (answers[3], full):
        assert 1 <= int(refused.headers["Retry-After"]) <= 30
    # The modest client came last, yet its one picture goes before the greedy one's second that waits.
    waiting = [answers[1], modest, answers[2]]
    jobs = [tight.client.get(answer.headers["location"]).json() for answer in waiting]
    assert [job["state"] for job in jobs] == ["queued"] * 3
    assert sorted(job["position"] for job in jobs) == [0, 1, 2]
    assert jobs[1]["position"] < jobs[2]["position"]
    for answer in (answers[0], *waiting):
        tight.client.delete(answer.headers["location"])
    wait_until(lambda: gauge(tight, "enlcn_jobs_running") == 0)
    assert gauge(tight, "enlcn_queue_length") == 0


def test_results_expire_and_jobs_that_nobody_asks_about_are_cancelled(hasty):
    wait_until(lambda: gauge(hasty, "enlcn_jobs_kept") == 0)
    done = hasty.client.post("/v1/upscale?respond=job", content=picture(2)).headers["location"]
    wait_until(lambda: hasty.client.get(done).json().get("state") == "done")
    expires = hasty.client.get(done).json()["expires"]
    assert hasty.client.get(done + "/result").status_code == 200
    wait_until(lambda: hasty.client.get(done).status_code == 404)
    assert time.time() >= expires
    gone = hasty.client.get(done + "/result")
    assert (gone.status_code, kind_of(gone)) == (404, "no-such-job")

    cancelled = gauge(hasty, CANCELLED, missing=0)
    lasting = "/v1/upscale?respond=job&self_ensemble=true"  # far longer than the seconds for which nobody need ask
    asked = hasty.client.post(lasting, content=picture(0, 500, 500)).json()["id"]
    states = []

    def state():
        states.append(hasty.client.get(f"/v1/jobs/{asked}").json()["state"])
        return states[-1]

    wait_until(lambda: state() == "running")  # which leaves the queue to the others
    unasked = [hasty.client.post(lasting, content=picture(n, 500, 500)).json()["id"] for n in (1, 2)]
    wait_until(lambda: state() in ENDS)
    assert states[-1] in ("done", "failed"), "whoever asks keeps a job alive, here until its time is over"
    wait_until(lambda: gauge(hasty, "enlcn_jobs_kept") == 0)
    assert gauge(hasty, CANCELLED) == cancelled + len(unasked)
    assert gauge(hasty, "enlcn_stored_bytes") == 0


def test_storage_is_limited_and_the_oldest_results_make_room(tight):
    places = []
    for number in range(6):
        answer = tight.client.post("/v1/upscale?respond=job", content=picture(number, 150, 150))
        assert answer.status_code == 202, answer.text
        place = answer.headers["location"]
        wait_until(lambda place=place: tight.client.get(place).json().get("state") in ("done", "failed", None))
        places.append(place)
        assert gauge(tight, "enlcn_stored_bytes") <= 2**20
    assert tight.client.get(places[-1]).json()["state"] == "done"
    assert tight.client.get(places[0]).status_code == 404


def test_forms_count_while_they_arrive(start):
    server = start("--stored", "600K", "--max-upload", "300K")
    host, port = server.url.removeprefix("http://").split(":")
    head = b'--BOUND\r\nContent-Disposition: form-data; name="file"; filename="a.png"\r\n\r\n'

    def send_all_but_the_end():
        connection = socket.create_connection((host, int(port)), timeout=20)
        connection.sendall(
            b"POST /v1/upscale HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 300000\r\n"
            b"Content-Type: multipart/form-data; boundary=BOUND\r\n\r\n" + head + b"x" * 280_000
        )
        return connection

    with send_all_but_the_end(), send_all_but_the_end():
        wait_until(lambda: gauge(server, "enlcn_stored_bytes") > 550_000)
        with send_all_but_the_end() as third:
            assert b" 503 " in third.recv(4096).partition(b"\r\n")[0]
        assert gauge(server, "enlcn_stored_bytes") < 600 * 2**10
    wait_until(lambda: gauge(server, "enlcn_stored_bytes") == 0)


def test_a_client_that_leaves_frees_its_place(start):
    server = start("--queue-length", "3", model=SLOW)

    def leave(seconds):
        with httpx.Client(base_url=server.url) as one, pytest.raises(httpx.ReadTimeout):
            one.post(
                "/v1/upscale?self_ensemble=true&respond=image",
                content=picture(3, 500, 500),
                timeout=httpx.Timeout(60, read=seconds),
            )

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(leave, [3, 3, 3]))
    wait_until(lambda: gauge(server, "enlcn_queue_length") == 0 and gauge(server, "enlcn_jobs_running") == 0)
    assert server.client.post("/v1/upscale", content=picture(4)).status_code == 200
    assert 'enlcn_jobs_total{kind="upscale",state="cancelled"} 3' in server.client.get("/metrics").text


def test_a_second_signal_stops_what_runs(start):
    server = start("--shutdown-seconds", "600", model=SLOW)
    answers = []

    def post():
        with httpx.Client(base_url=server.url, timeout=120) as one:
            answers.append(one.post("/v1/upscale?self_ensemble=true&respond=image", content=picture(5, 250, 250)))

    thread = threading.Thread(target=post)
    thread.start()
    wait_until(lambda: gauge(server, "enlcn_jobs_running") == 1)
    server.process.send_signal(signal.SIGTERM)
    assert server.process.stderr.readline().startswith("stopping: what runs has up to 600 s to finish; Ctrl-C again")
    server.process.send_signal(signal.SIGTERM)
    thread.join()
    _, said = server.process.communicate(timeout=120)
    assert server.process.returncode == 0
    assert said == "stopped\n"
    assert answers[0].status_code == 503
    assert kind_of(answers[0]) == "shutting-down"


@pytest.mark.parametrize(
    ("option", "told"), [(("--device", "meta"), "device 'meta'"), (("--memory-limit", "10M"), "at least 512 MiB")]
)
def test_a_server_that_could_do_nothing_does_not_start(option, told):
    command = [sys.executable, "-m", "enlcn", "serve", "--port", "0", "--model", TINY, *option]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert told in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_stopping_finishes_what_runs_and_hands_back_what_waits(start):
    server = start("--shutdown-seconds", "30", model=SLOW)
    answers = {}

    def post(name):
        with httpx.Client(base_url=server.url, timeout=60) as one:
            answers[name] = one.post("/v1/upscale?respond=image", content=picture(5, 230, 230))

    threads = [threading.Thread(target=post, args=(name,)) for name in ("runs", "waits")]
    threads[0].start()
    wait_until(lambda: gauge(server, "enlcn_jobs_running") == 1)
    threads[1].start()
    wait_until(lambda: gauge(server, "enlcn_queue_length") == 1)
    assert server.stop() == 0
    for thread in threads:
        thread.join()
    assert answers["runs"].status_code == 200
    assert answers["waits"].status_code == 503
    assert kind_of(answers["waits"]) == "shutting-down"
    assert answers["waits"].headers["Retry-After"]
