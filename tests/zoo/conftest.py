"""Registries of their own for tests, and a real HTTP server that can be told to fail."""

import threading
from collections import defaultdict
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import torch

from enlcn import recipes
from enlcn.checkpoint import save
from enlcn.file_parts import SplitFile, cut, describe
from enlcn.models.backbone import SRNetwork
from enlcn.zoo import download, manifest, registry
from enlcn.zoo.manifest import ShippedModel

KIB = 1 / 1024


class Registry:
    """A package and a checkout without models, and what puts some there."""

    def __init__(self, root):
        self.package = root / "package"
        self.checkout = root / "checkout"
        self.cache = root / "cache"
        self.list = self.package / registry.LIST_NAME
        self.weights = self.checkout / "weights"
        self.package.mkdir()
        self.weights.mkdir(parents=True)
        (self.checkout / "pyproject.toml").touch()
        manifest.write_list(self.list, [])

    def network(self, scale, seed=0):
        torch.manual_seed(seed)
        return SRNetwork(recipes.network(f"enlcn-tiny-x{scale}")).eval()

    def add(self, name, *, seed=0, listed=True, **facts):
        """A tiny network inside the package."""
        scale = int(name[-1])
        path = self.package / f"{name}.safetensors"
        save(self.network(scale, seed), path, dtype=torch.float16)
        return self._list(ShippedModel(name, scale, 1, SplitFile(describe(path)), **facts), listed)

    def add_parts(self, name, *, seed=0, listed=True, folder=None):
        """A tiny network in parts under weights/."""
        scale, folder = int(name[-1]), folder or self.weights / name
        whole = self.checkout / f"{name}.safetensors"
        save(self.network(scale, seed), whole, dtype=torch.float16, overwrite=True)
        split = cut(whole, 8 * KIB, folder, lambda number: f"part-{number:02}", overwrite=True)
        model = ShippedModel(name, scale, 1, split)
        manifest.write_one(folder / registry.MANIFEST_NAME, model)
        return self._list(model, listed)

    def _list(self, model, listed):
        if listed:
            rows = {row.name: row for row in manifest.read(self.list)} | {model.name: model}
            manifest.write_list(self.list, rows.values())
        return model

    def cached(self):
        """Names of all files in the cache."""
        return sorted(path.name for path in self.cache.rglob("*") if path.is_file())


@pytest.fixture
def zoo(tmp_path, monkeypatch):
    made = Registry(tmp_path)
    monkeypatch.setattr(registry, "PACKAGE_FOLDER", made.package)
    monkeypatch.setattr(registry, "_CHECKOUT", made.checkout)
    monkeypatch.setenv("ENLCN_CACHE", str(made.cache))
    monkeypatch.delenv("ENLCN_WEIGHTS", raising=False)
    return made


class Server:
    """Serves `folder`; `faults[path]` is a list of what goes wrong, one for each request that comes.

    A number: so many bytes are sent and the connection is closed; from 400 on: that status; "page": HTML instead.
    """

    def __init__(self, folder, *, ranges=True):
        self.folder, self.ranges = folder, ranges
        self.faults = defaultdict(list)
        self.requests = []  # (path, Range header)
        outer = self

        class Handler(SimpleHTTPRequestHandler):
            def do_GET(self):
                outer.requests.append((self.path, self.headers.get("Range")))
                path = outer.folder / self.path.lstrip("/")
                fault = outer.faults[self.path].pop(0) if outer.faults[self.path] else None
                if isinstance(fault, tuple):
                    self.send_error(fault[0])
                    return
                if not path.is_file():
                    self.send_error(404)
                    return
                content = path.read_bytes() if fault != "page" else b"<html>please log in</html>"
                start = 0
                if outer.ranges and (asked := self.headers.get("Range")):
                    assert self.headers["If-Range"] == '"v1"'
                    start = int(asked.removeprefix("bytes=").removesuffix("-"))
                self.send_response(206 if start else 200)
                self.send_header("Content-Length", str(len(content) - start))
                if start:
                    self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
                if outer.ranges:
                    self.send_header("ETag", '"v1"')
                self.end_headers()
                self.wfile.write(content[start:] if not isinstance(fault, int) else content[start : start + fault])

            def log_message(self, *args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def url(self, path):
        return f"http://127.0.0.1:{self._server.server_address[1]}/{path}"

    def paths(self):
        return [path for path, _ in self.requests]

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setattr(download, "FIRST_PAUSE", 0.01)
    folder = tmp_path / "served"
    folder.mkdir()
    running = Server(folder)
    yield running
    running.close()


@pytest.fixture
def photo():
    return Path(__file__).parents[2] / "enlcn" / "assets" / "palace.png"
