"""Files that users name: what cannot be written is told in one line, and nothing is left behind."""

import os
import tempfile
from contextlib import contextmanager
from pathlib import Path

import pytest

from enlcn.errors import UserError
from enlcn.files import atomic_write, check_folder, check_writable, make_folder, new_folder


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("text.png").write_text("precious")
    return tmp_path


def write(path):
    with atomic_write(path) as temporary:
        temporary.write_text("new")


@pytest.mark.parametrize("ask", [write, check_writable, check_folder, make_folder])
@pytest.mark.parametrize("place", ["text.png/a.json", "text.png/deep/er/a.json"])
def test_a_file_in_the_place_of_a_folder_is_named(here, ask, place):
    with pytest.raises(UserError) as told:
        ask(Path(place))
    assert str(told.value) == f"{place}: cannot be written (text.png is a file, not a folder)"
    assert Path("text.png").read_text() == "precious"


@pytest.mark.parametrize("ask", [check_folder, make_folder])
def test_a_file_is_no_folder(here, ask):
    with pytest.raises(UserError, match=r"^text\.png: cannot be written \(text\.png is a file, not a folder\)$"):
        ask(Path("text.png"))


@pytest.mark.parametrize("ask", [check_folder, make_folder])
def test_a_link_to_nothing_is_no_folder(here, ask):
    Path("link").symlink_to("nowhere")
    with pytest.raises(UserError, match=r"^link: cannot be written \(link is a link to nothing, not a folder\)$"):
        ask(Path("link"))


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs a folder in which nobody may make files")
@pytest.mark.parametrize("ask", [write, check_writable, check_folder, make_folder])
def test_a_folder_that_cannot_be_made(ask):
    with pytest.raises(UserError, match=r"^/proc/x/y: cannot be written \(No such file or directory\)$"):
        ask(Path("/proc/x/y"))


@contextmanager
def ordinary_user():
    """Nothing is forbidden to root, so it steps down for a while."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="rights are others here")
@pytest.mark.parametrize("ask", [write, check_writable])
def test_a_folder_without_rights(ask):
    with tempfile.TemporaryDirectory() as name:  # not pytest's, which only its owner may enter
        Path(name).chmod(0o755)
        locked = Path(name, "locked")
        locked.mkdir(mode=0o555)
        with (
            ordinary_user(),
            pytest.raises(UserError, match=r"locked/a\.json: cannot be written \(Permission denied\)"),
        ):
            ask(locked / "a.json")
        assert list(locked.iterdir()) == []


def test_asking_leaves_nothing_behind(here):
    Path("there").mkdir()
    check_writable(Path("new/deep/a.json"))
    check_writable(Path("there/a.json"))
    check_folder(Path("there"))
    assert sorted(str(path) for path in here.rglob("*")) == [str(here / "text.png"), str(here / "there")]


def test_asking_keeps_what_is_there(here):
    with pytest.raises(UserError, match="exists already"):
        check_writable(Path("text.png"))
    check_writable(Path("text.png"), overwrite=True)
    assert Path("text.png").read_text() == "precious"


@pytest.mark.parametrize("stem", ["a" * 251, "写" * 83], ids=["letters", "characters of three bytes"])
def test_names_may_be_as_long_as_the_file_system_takes(here, stem):
    write(Path(f"{stem}.png"))
    assert Path(f"{stem}.png").read_text() == "new"
    folder = new_folder(here, stem)
    assert folder.is_dir()
    with pytest.raises(UserError, match=r"cannot be written \(File name too long\)"):
        write(Path(f"{stem}aaa.png"))
    with pytest.raises(UserError, match=r"cannot be written \(File name too long\)"):
        check_writable(Path(f"{stem}aaa.png"))


def test_errors_of_other_files_are_not_those_of_the_target(here):
    with pytest.raises(FileNotFoundError), atomic_write(Path("a.json")):
        Path("source.json").read_text()
    assert [path.name for path in here.iterdir()] == ["text.png"]
