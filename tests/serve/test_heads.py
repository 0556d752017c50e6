"""Connections that send no whole head are closed; those that send a body or wait for an answer are not."""

import socket
import time

import pytest

from .conftest import Server, picture

HEAD = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def address():
    """Of a server that waits one second for a head."""
    started = Server("--head-seconds", "1")
    host, port = started.url.removeprefix("http://").split(":")
    yield host, int(port)
    started.close()


def seconds_until_closed(connection):
    """How long the server keeps a connection on which nothing more is sent."""
    began = time.monotonic()
    connection.settimeout(20)
    while connection.recv(4096):
        pass
    return time.monotonic() - began


@pytest.mark.parametrize("sent", [b"", b"G", HEAD[:-2], HEAD, HEAD + HEAD[:-2], HEAD + HEAD])
def test_without_a_head_a_connection_is_closed(address, sent):
    with socket.create_connection(address) as connection:
        connection.sendall(sent)
        assert 0.8 < seconds_until_closed(connection) < 6


def test_a_head_that_drips_is_no_head(address):
    with socket.create_connection(address) as connection:
        connection.sendall(HEAD)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        time.sleep(0.5)
        began = time.monotonic()

        def drip():
            for byte in HEAD * 5:
                connection.sendall(bytes([byte]))
                time.sleep(0.1)

        with pytest.raises(ConnectionError):
            drip()
        assert 0.8 < time.monotonic() - began < 6


def test_requests_one_after_the_other_keep_a_connection(address):
    with socket.create_connection(address) as connection:
        for _ in range(4):
            connection.sendall(HEAD[:20])
            time.sleep(0.4)
            connection.sendall(HEAD[20:])
            answer = b""
            while not answer.endswith(b"}"):
                answer += connection.recv(4096)
            assert answer.startswith(b"HTTP/1.1 200")
            time.sleep(0.2)


def test_a_body_may_take_longer_than_a_head(address):
    body = picture(1)
    with socket.create_connection(address) as connection:
        head = f"POST /v1/upscale HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode())
        for start in range(0, len(body), len(body) // 5 + 1):
            time.sleep(0.6)
            connection.sendall(body[start : start + len(body) // 5 + 1])
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_idle_connections_do_not_keep_others_out(address):
    """More of them than the server takes in all."""
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2048
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip("the system allows too few open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, wanted), hard))
    idle = []
    try:
        idle = [socket.create_connection(address) for _ in range(1100)]

        def answer():
            with socket.create_connection(address, timeout=20) as connection:
                connection.sendall(HEAD)
                return connection.recv(4096).partition(b"\r\n")[0]

        end = time.monotonic() + 20
        while b"200" not in answer():
            assert time.monotonic() < end
            time.sleep(0.2)
    finally:
        for connection in idle:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
