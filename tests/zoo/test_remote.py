"""Weights at an address, from a real HTTP server that fails in the ways that servers do."""

import shutil
import threading
import urllib.request
from email.message import Message

import pytest
import torch

import enlcn
from enlcn.errors import UserError
from enlcn.file_parts import describe
from enlcn.zoo import download, locate, native_scale, remote
from enlcn.zoo.locate import pull_named
from tests.zoo.conftest import Server
from tests.zoo.test_registry import damage, same

NAME = "w.safetensors"


@pytest.fixture
def weights(zoo, server):
    """A tiny network's file as it is served."""
    path = server.folder / NAME
    enlcn.save(zoo.network(3), path, dtype=torch.float16)
    return path


@pytest.fixture
def parts(zoo, server):
    """A model in parts, served, and known to nobody."""
    return zoo.add_parts("big-x3", listed=False, folder=server.folder / "big-x3")


def test_downloaded_once_then_found_without_a_network(zoo, server, weights):
    url = server.url(NAME)
    assert same(enlcn.load(url), zoo.network(3))
    assert server.paths() == [f"/{NAME}"]
    server.close()
    assert same(enlcn.load(url), zoo.network(3))
    assert native_scale(url) == 3
    damage(locate(url))
    with pytest.raises(UserError, match=r"cannot be reached .* without a network give a file"):
        enlcn.load(url)


def test_a_digest_is_checked_before_anything_is_kept(zoo, server, weights):
    right = f"{server.url(NAME)}#sha256={describe(weights).sha256}"
    wrong = f"{server.url(NAME)}#sha256={'0' * 64}"
    with pytest.raises(UserError, match=r"SHA-256 is \w{12}\.\.\., expected 000000000000\.\.\.: damaged"):
        enlcn.load(wrong)
    assert zoo.cached() == []
    assert same(enlcn.load(right), zoo.network(3))
    with pytest.raises(UserError, match="expected 000000000000"):  # although the address is in the cache
        enlcn.load(wrong)
    with pytest.raises(UserError, match="64 hexadecimal digits"):
        enlcn.load(f"{server.url(NAME)}#md5=12")


def test_a_broken_download_goes_on_where_it_stopped(zoo, server, weights):
    server.faults[f"/{NAME}"] = [1000, 2000]
    assert same(enlcn.load(server.url(NAME)), zoo.network(3))
    assert [asked for _, asked in server.requests] == [None, "bytes=1000-", "bytes=3000-"]


def test_a_server_without_ranges_is_asked_again_from_the_start(zoo, weights, server):
    plain = Server(server.folder, ranges=False)
    try:
        plain.faults[f"/{NAME}"] = [1000]
        assert same(enlcn.load(plain.url(NAME)), zoo.network(3))
        assert [asked for _, asked in plain.requests] == [None, None]
    finally:
        plain.close()


def test_a_download_that_never_ends_well_leaves_nothing(zoo, server, weights):
    server.faults[f"/{NAME}"] = [10] * download.ATTEMPTS
    with pytest.raises(UserError, match=rf"broke off {download.ATTEMPTS} times .* try again later"):
        enlcn.load(server.url(NAME))
    assert zoo.cached() == []


def test_busy_servers_are_asked_again_others_are_not(zoo, server, weights):
    server.faults[f"/{NAME}"] = [(503,), (429,)]
    assert same(enlcn.load(server.url(NAME)), zoo.network(3))
    assert len(server.requests) == 3
    with pytest.raises(UserError, match=r"404 .* there is no such file; check the address"):
        enlcn.load(server.url("absent.safetensors"))
    server.faults["/other.safetensors"] = [(403,)]
    with pytest.raises(UserError, match=r"403 .* the server refuses"):
        enlcn.load(server.url("other.safetensors"))
    assert len(server.requests) == 5


def test_what_is_no_weights_is_not_kept(zoo, server, weights, monkeypatch):
    server.faults[f"/{NAME}"] = ["page"]
    with pytest.raises(UserError, match="is no safetensors file"):
        enlcn.load(server.url(NAME))
    monkeypatch.setattr(remote, "MAX_BYTES", 1000)
    with pytest.raises(UserError, match=r"more than the 1,000 that are taken; refused"):
        enlcn.load(server.url(NAME))
    assert zoo.cached() == []


def test_pickles_are_not_even_asked_for(zoo, server):
    for name in ("w.pt", "w.pth", "w.ckpt", "w.bin"):
        with pytest.raises(UserError, match="can hold programs"):
            enlcn.load(server.url(name))
    assert server.requests == []


def test_addresses_that_cannot_be_meant(zoo, server):
    for url, message in (
        ("http://[::1/w.safetensors", "not an address that can be opened"),
        ("file://w.safetensors", "after file:// comes a full path"),
        ("file:///absent/w.safetensors", "^/absent/w.safetensors: no such file"),
        ("https://me:secret@example.org/w.safetensors", r"^https://\.\.\.@example\.org: .* is not taken"),
    ):
        with pytest.raises(UserError, match=message):
            enlcn.load(url)
    assert server.requests == []


def test_the_cache_takes_long_names_and_keeps_no_keys(zoo, server, weights):
    name = "a" * 240 + "?key=secret"
    shutil.copy(weights, server.folder / name)  # the test's server takes the whole address for a name
    assert same(enlcn.load(server.url(name)), zoo.network(3))
    (record,) = (zoo.cache / "addresses").iterdir()
    assert "secret" not in record.read_text()


def test_no_way_back_from_https():
    request = urllib.request.Request("https://example.org/a")
    for target, message in (("http://example.org/b", "not encrypted"), ("file:///etc/passwd", "not encrypted")):
        with pytest.raises(UserError, match=message):
            download._NoDowngrade().redirect_request(request, None, 302, "Found", Message(), target)
    plain = urllib.request.Request("http://example.org/a")
    with pytest.raises(UserError, match="not on the web"):
        download._NoDowngrade().redirect_request(plain, None, 302, "Found", Message(), "ftp://example.org/b")
    assert download._NoDowngrade().redirect_request(plain, None, 302, "Found", Message(), "https://example.org/b")


def test_a_manifest_at_an_address(zoo, server, parts):
    url = server.url("big-x3/manifest.json")
    assert same(enlcn.load(url), zoo.network(3))
    assert server.paths() == ["/big-x3/manifest.json", *(f"/big-x3/{part.name}" for part in parts.file.parts)]
    server.close()
    assert same(enlcn.load(url), zoo.network(3))
    assert native_scale(url) == 3
    assert [name for name in zoo.cached() if name.endswith(".part")] == []


def test_a_corrupted_part_is_named_and_the_others_are_not_fetched_twice(zoo, server, parts):
    url, part = server.url("big-x3/manifest.json"), server.folder / "big-x3" / "part-02"
    good = part.read_bytes()
    damage(part)
    with pytest.raises(UserError, match=r"big-x3/part-02: its SHA-256 is .* nothing was kept"):
        enlcn.load(url)
    assert len(zoo.cached()) == 2  # the two parts before it
    part.write_bytes(good[:-1])
    with pytest.raises(UserError, match=r"part-02: has .* bytes, expected"):
        enlcn.load(url)
    part.write_bytes(good)
    server.requests.clear()
    assert same(enlcn.load(url), zoo.network(3))
    assert "/big-x3/part-00" not in server.paths()
    assert "/big-x3/part-02" in server.paths()


def test_a_manifest_with_a_digest_and_one_that_promises_too_much(zoo, server, parts, monkeypatch):
    file = server.folder / "big-x3" / "manifest.json"
    with pytest.raises(UserError, match=r"manifest\.json: its SHA-256"):
        enlcn.load(f"{server.url('big-x3/manifest.json')}#sha256={'0' * 64}")
    right = f"{server.url('big-x3/manifest.json')}#sha256={describe(file).sha256}"
    monkeypatch.setattr(remote, "MAX_BYTES", 1000)
    with pytest.raises(UserError, match=r"describes .* refused"):
        enlcn.load(right)
    monkeypatch.setattr(remote, "MAX_BYTES", 10**6)
    assert same(enlcn.load(right), zoo.network(3))


def test_a_known_model_is_pulled_by_name_and_must_be_the_same(zoo, server, tmp_path):
    model = zoo.add_parts("enlcn-x4", seed=1)
    shutil.move(zoo.weights / "enlcn-x4", server.folder / "enlcn-x4")
    for base in (server.url(""), server.url("enlcn-x4"), server.url("enlcn-x4/manifest.json")):
        path = pull_named(model, base)
        assert same(enlcn.load("enlcn-x4"), zoo.network(4, seed=1))
        path.unlink()
    path = pull_named(model, str(server.folder))
    assert same(enlcn.load("enlcn-x4"), zoo.network(4, seed=1))
    path.unlink()
    zoo.add_parts("enlcn-x4", seed=2, listed=False, folder=server.folder / "enlcn-x4")
    with pytest.raises(UserError, match=r"describes other weights .* load the address itself"):
        pull_named(model, server.url(""))
    with pytest.raises(UserError, match="holds neither"):
        pull_named(model, str(tmp_path))


def test_an_address_as_the_place_of_all_weights(zoo, server, monkeypatch):
    zoo.add_parts("enlcn-x4")
    shutil.move(zoo.weights / "enlcn-x4", server.folder / "enlcn-x4")
    with pytest.raises(UserError, match=r"enlcn-x4: not on this computer; .*enlcn models pull enlcn-x4 --from"):
        enlcn.load("enlcn-x4")
    monkeypatch.setenv("ENLCN_WEIGHTS", server.url(""))
    assert same(enlcn.load("enlcn-x4"), zoo.network(4))


@pytest.mark.parametrize("path", [NAME, "big-x3/manifest.json"])
def test_several_at_a_time(zoo, server, weights, parts, path):
    found = []
    threads = [threading.Thread(target=lambda: found.append(locate(server.url(path)))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert len(set(found)) == 1
    assert same(enlcn.load(found[0]), zoo.network(3))


def test_progress_reaches_the_end(zoo, server, weights, parts):
    told = []
    remote.from_url(server.url(NAME), lambda done, total: told.append((done, total)))
    assert told[-1] == (weights.stat().st_size,) * 2
    told.clear()
    remote.from_url(server.url("big-x3/manifest.json"), lambda done, total: told.append((done, total)))
    assert told[-1] == (parts.size, parts.size)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_refresh_downloads_what_changed(zoo, server, weights):
    url = server.url(NAME)
    first = locate(url)
    enlcn.save(zoo.network(3, seed=7), weights, dtype=torch.float16, overwrite=True)
    assert locate(url) == first
    assert same(enlcn.load(remote.from_url(url, refresh=True)), zoo.network(3, seed=7))
    assert same(enlcn.load(url), zoo.network(3, seed=7))
