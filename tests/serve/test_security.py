"""Who may come in, and what a hostile client cannot do."""

import os
import socket
import subprocess
import sys

import httpx
import pytest

from enlcn.errors import UserError
from enlcn.serve.config import ServeConfig
from enlcn.serve.info_routes import PAGE

from .conftest import picture

NAN, INFINITY = float("nan"), float("inf")


def test_headers_on_every_answer(server):
    for path in ("/", "/page/app.js", "/v1/models", "/nothing", "/healthz"):
        headers = server.client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert "http" not in policy
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "server" not in headers


def test_the_page_asks_no_other_host(server):
    names = [f"page/{path.name}" for path in PAGE.iterdir()]
    assert len(names) >= 10
    for name in ("", *names):
        answer = server.client.get(f"/{name}")
        assert answer.status_code == 200
        text = answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text
        assert "//cdn" not in text


@pytest.mark.parametrize(
    "path",
    [
        *("/page/../config.py", "/page/..%2fconfig.py", "/page/%2e%2e/config.py", "/page//etc/passwd"),
        *("/page/..%5cconfig.py", "/v1/jobs/../../healthz", "/page/"),
    ],
)
def test_no_path_leads_out_of_the_page(server, path):
    host, port = server.url.removeprefix("http://").split(":")
    import http.client

    connection = http.client.HTTPConnection(host, int(port))  # sends the path as it is
    connection.request("GET", path)
    answer = connection.getresponse()
    assert answer.status == 404
    assert b"dataclass" not in answer.read()


def test_other_hosts_and_origins_are_refused(server):
    assert server.client.get("/healthz", headers={"Host": "evil.example"}).status_code == 403
    assert server.client.get("/healthz", headers={"Origin": "http://evil.example"}).status_code == 403
    assert server.client.get("/healthz", headers={"Origin": "null"}).status_code == 403
    assert server.client.get("/healthz", headers={"Origin": server.url}).status_code == 200
    assert server.client.get("/healthz", headers={"Host": "localhost:1234"}).status_code == 200


def test_settings_from_the_environment_and_no_trace_on_disk(start, tmp_path, monkeypatch, photo):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("ENLCN_SERVE_QUEUE_LENGTH", "7")
    monkeypatch.setenv("ENLCN_SERVE_DIRECT_PIXELS", "1000")
    server = start()
    limits = server.client.get("/v1/limits").json()
    assert (limits["queue_length"], limits["direct_pixels"]) == (7, 1000)
    # Results beyond the limit of direct answers are jobs of themselves.
    assert server.client.post("/v1/upscale", content=photo).status_code == 202
    assert server.client.post("/v1/upscale", params={"respond": "image"}, content=photo).status_code == 200
    for name in ("../../../../evil.png", "/etc/evil.png", "a\0b.png", "evil.png"):
        answer = server.client.post("/v1/upscale", files={"file": (name, picture(1, 200, 300))})
        assert answer.status_code == 202
        assert list(tmp_path.rglob("*")) == [], "uploads and results have no names"


def test_token(start):
    server = start("--token", "open-sesame")
    for path in ("/healthz", "/readyz", "/", "/page/app.js"):
        assert server.client.get(path).status_code == 200
    for path in ("/v1/models", "/metrics", "/v1/jobs/abc", "/v1/limits"):
        refused = server.client.get(path)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"] == "Bearer"
        assert refused.headers["content-type"] == "application/problem+json"
    assert server.client.post("/v1/upscale", content=picture(1)).status_code == 401
    for wrong in ("Bearer", "Bearer wrong", "Basic open-sesame", "Bearer open-sesame2"):
        assert server.client.get("/v1/models", headers={"Authorization": wrong}).status_code == 401
    right = {"Authorization": "Bearer open-sesame"}
    assert server.client.get("/v1/models", headers=right).status_code == 200
    assert server.client.post("/v1/upscale", content=picture(1), headers=right).status_code == 200


def test_bad_settings_are_one_line():
    for settings in (
        {"queue_length": 0},
        {"precision": "fp7"},
        {"token": "with space"},
        {"job_seconds": -1},
        {"port": 99999},
        {"stored_bytes": 10},
        *({name: bad} for name in ("job_seconds", "result_seconds", "shutdown_seconds") for bad in (NAN, INFINITY)),
        *({"allowed_hosts": (host,)} for host in ("http://a.example", "a.example:80", "a/b", "*.example", "a,b", "")),
    ):
        with pytest.raises(UserError) as raised:
            ServeConfig(**settings)
        assert "\n" not in str(raised.value)
    done = subprocess.run(
        [sys.executable, "-m", "enlcn", "serve", "--host", "203.0.113.77"],
        capture_output=True,
        text=True,
        env=os.environ,
    )
    assert done.returncode == 2
    assert "--host" in done.stderr


def test_bad_settings_are_called_by_their_flags():
    with pytest.raises(UserError, match=r"--stored is 10 bytes; it must be at least --max-upload, 67,108,864"):
        ServeConfig(stored_bytes=10)
    with pytest.raises(UserError, match=r"--max-upload is 0; it must be positive"):
        ServeConfig(max_upload_bytes=0)
    with pytest.raises(UserError, match=r"--allowed-host is 'http://a\.example/'; give a name or an address alone"):
        ServeConfig(allowed_hosts=("http://a.example/",))
    for host in ("a.example", "a_b.lan", "localhost", "10.0.0.1", "::1", "fe80::1", "*"):
        ServeConfig(allowed_hosts=(host,))


def test_an_empty_token_opens_no_server(monkeypatch):
    monkeypatch.setenv("ENLCN_SERVE_TOKEN", "")
    command = [sys.executable, "-m", "enlcn", "serve", "--port", "0", "-m", "untrained:enlcn-tiny", "--device", "cpu"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "ENLCN_SERVE_TOKEN is empty" in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "is_told"),
    [
        (("--host", "0.0.0.0"), True),
        (("--host", "0.0.0.0", "--allowed-host", "studio.lan"), True),
        (("--host", "0.0.0.0", "--allowed-host", "studio.lan", "--token", "sesame"), False),
        (("--host", "127.0.0.2", "--allowed-host", "127.0.0.1"), False),
    ],
)
def test_a_server_without_a_token_says_so(start, arguments, is_told):
    server = start(*arguments)
    server.stop()
    assert ("anyone who reaches this address" in server.process.stderr.read()) == is_told


def test_the_client_is_named_by_the_last_line_of_the_header():
    from starlette.requests import HTTPConnection

    from enlcn.serve.clients import client_of

    def client(*lines):
        headers = [(b"x-client", line) for line in lines]
        return client_of(HTTPConnection({"type": "http", "headers": headers, "client": ("10.0.0.9", 5)}), "X-Client")

    assert client(b"198.51.100.7") == "198.51.100.7"
    assert client(b"forged, 198.51.100.7") == "198.51.100.7"
    assert client(b"forged", b"198.51.100.7") == "198.51.100.7"
    assert client(b"forged", b"forged too, 198.51.100.7") == "198.51.100.7"
    assert client() == client(b"") == "10.0.0.9"


def test_hosts_that_are_answered():
    assert ServeConfig().host_names == {"127.0.0.1", "localhost", "::1"}
    assert ServeConfig(host="0.0.0.0").host_names is None
    assert "studio.lan" in ServeConfig(host="0.0.0.0", allowed_hosts=("studio.lan",)).host_names


def test_behind_a_proxy_the_host_must_be_the_browsers(start):
    server = start("--allowed-host", "studio.example.org")
    for host in ("studio.example.org", "studio.example.org:8443"):
        headers = {"Host": host, "Origin": f"https://{host}"}
        assert server.client.post("/v1/upscale", content=picture(1), headers=headers).status_code == 200
    rewritten = server.client.get("/v1/models", headers={"Origin": "https://studio.example.org"})
    assert rewritten.status_code == 403


def test_a_server_for_all_says_how_others_reach_it(start):
    from enlcn.cli.serve import _names_elsewhere

    here = socket.gethostname()
    assert _names_elsewhere("127.0.0.1", ()) == []
    assert _names_elsewhere("0.0.0.0", ()) == [here]
    assert _names_elsewhere("0.0.0.0", ("studio.lan",)) == ["studio.lan"]  # to others it does not answer
    assert _names_elsewhere("::", ("studio.lan", "*")) == ["studio.lan", here]
    server = start("--host", "0.0.0.0")
    assert server.url.startswith("http://127.0.0.1:")
    assert f" and {server.url.replace('127.0.0.1', here)}/ " in server.greeting
    answer = server.client.get("/healthz", headers={"Host": f"{here}:1"})
    assert answer.status_code == 200
    assert ServeConfig(allowed_hosts=("*",)).host_names is None


def test_help_needs_no_torch():
    probe = "import sys, enlcn.cli.serve; sys.exit('torch' in sys.modules or 'fastapi' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", probe]).returncode == 0


def test_connections_survive_nonsense(server):
    import socket

    host, port = server.url.removeprefix("http://").split(":")
    for data in (
        b"\0" * 500,
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /v1/upscale HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
    ):
        with socket.create_connection((host, int(port)), timeout=5) as connection:
            connection.sendall(data)
            connection.recv(1000)
    assert httpx.get(server.url + "/healthz").status_code == 200
