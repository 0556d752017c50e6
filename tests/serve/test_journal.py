"""The log of requests and jobs: a line each where it is asked for, and nothing that must not be known."""

import re

from starlette.requests import HTTPConnection

from enlcn.serve.journal import Journal

from .conftest import picture

TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "


def test_a_line_for_each_request_and_job(start):
    server = start("--log", "--client-header", "X-Client")
    who = {"X-Client": "anna"}
    job = server.client.post("/v1/upscale?respond=job&scale=2", content=picture(1), headers=who).json()
    with server.client.stream("GET", f"/v1/jobs/{job['id']}/events", headers=who) as events:
        list(events.iter_lines())
    server.client.post("/v1/attention?x=1&y=2", content=picture(1))
    server.client.get("/nothing%0A%1b[31m")
    server.client.get(f"/v1/jobs/{job['id']}/result")
    server.stop()
    lines = server.process.stderr.read().splitlines()
    short = job["id"][:8] + "…"
    expected = [
        r"anna POST /v1/upscale 202 \d+\.\d{3} s",
        rf"anna job {short} 16x12 untrained:enlcn-tiny \d+\.\d{{3}} s done",
        rf"anna GET /v1/jobs/{short}/events 200 \d+\.\d{{3}} s",
        r"127\.0\.0\.1 job \S{8}… 16x12 untrained:enlcn-tiny \d+\.\d{3} s done",
        r"127\.0\.0\.1 POST /v1/attention 200 \d+\.\d{3} s",
        r"127\.0\.0\.1 GET /nothing%0A%1[bB]\[31m 404 \d+\.\d{3} s",
    ]
    for pattern in expected:
        assert any(re.fullmatch(TIME + pattern, line) for line in lines), (pattern, lines)
    assert not any(job["id"] in line for line in lines)


def test_without_the_option_nothing_is_written(start):
    server = start()
    server.client.post("/v1/upscale", content=picture(1))
    server.stop()
    assert server.process.stderr.read() == "stopped\n"


def test_what_clients_choose_breaks_no_line():
    lines = []
    headers = [(b"x-client", b"a\x1b[31m" + b"x" * 5000)]
    scope = {"type": "http", "method": "GET", "raw_path": b"/a\nb", "headers": headers, "client": None}
    Journal(lines.append).request(HTTPConnection(scope), "X-Client", 200, 0.1)
    (line,) = lines
    assert line.isprintable()
    assert len(line) < 500
