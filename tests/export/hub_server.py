"""A Hugging Face Hub on this computer: the routes through which huggingface_hub downloads a file."""

import hashlib
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class _Handler(BaseHTTPRequestHandler):
    repositories: dict[str, Path]
    requests: list[str]

    def do_HEAD(self):
        self._answer(with_body=False)

    def do_GET(self):
        self._answer(with_body=True)

    def _answer(self, *, with_body):
        self.requests.append(f"{self.command} {self.path}")
        owner, name, action, revision, *rest = (*self.path.strip("/").split("/"), "", "", "")
        folder = self.repositories.get(f"{owner}/{name}")
        if folder is None:
            return self._refuse(404, "RepoNotFound")
        if action != "resolve" or revision not in ("main", "v1", COMMIT):
            return self._refuse(404, "RevisionNotFound")
        file = folder / "/".join(part for part in rest if part)
        if not file.is_file():
            return self._refuse(404, "EntryNotFound")
        data = file.read_bytes()
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha256(data).hexdigest()}"')
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if with_body:
            self.wfile.write(data)
        return None

    def _refuse(self, status, code):
        body = json.dumps({"error": code}).encode()
        self.send_response(status)
        self.send_header("X-Error-Code", code)
        self.send_header("X-Error-Message", code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *args):
        pass


@contextmanager
def serve(repositories: dict[str, Path]):
    """The address of a Hub that has these repositories, and the list of requests it gets."""
    requests: list[str] = []
    handler = type("Handler", (_Handler,), {"repositories": repositories, "requests": requests})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", requests
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
