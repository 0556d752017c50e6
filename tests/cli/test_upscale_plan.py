"""What `enlcn upscale` says of a folder before and after: the reason of everything that is not done."""

from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from enlcn.cli import app
from enlcn.data.image_io import MAX_PIXELS
from enlcn.errors import UserError

TINY = ["-m", "untrained:enlcn-tiny", "--device", "cpu"]


@pytest.fixture
def photos(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "d"
    folder.mkdir()
    Image.new("RGB", (8, 6), "red").save(folder / "a.png")
    for name in ("b.CR2", "c.gif", "notes.txt", ".hidden.gif"):
        (folder / name).write_bytes(b"x")
    return folder


def upscale(*arguments):
    return CliRunner().invoke(app, ["upscale", *map(str, arguments), *TINY])


def test_files_of_other_kinds_are_told_in_one_line(photos):
    for more in (["--dry-run"], []):
        done = upscale("d", "d/*", "-o", "out", *more)
        assert done.exit_code == 0, done.output
        assert [line for line in done.stderr.splitlines() if "left out" in line] == [
            "left out: 2 files of other kinds (.cr2, .gif)"
        ]
    (photos / "a.png").unlink()
    assert "d: no pictures found, but 2 files of other kinds (.cr2, .gif); known" in str(upscale("d").exception)


def test_broken_links_to_pictures_count_as_unread(photos):
    (photos / "gone.txt").symlink_to("nowhere.txt")
    assert upscale("d", "--dry-run").exit_code == 0
    (photos / "gone.png").symlink_to("nowhere.png")
    (photos / "gone.mp4").symlink_to("nowhere.mp4")
    for more in (["--dry-run"], []):
        done = upscale("d", *more)
        assert done.exit_code == 1
        assert "not read: 2 broken links (d/gone.mp4, …)" in done.stderr.splitlines()


@pytest.mark.parametrize("given", [["d"], ["d/**/*.png", "d"], ["./d/**"]])
def test_linked_folders_are_told_and_not_followed(photos, given):
    (photos / "round").symlink_to(".")
    for more in (["--dry-run"], []):
        done = upscale(*given, "-o", "out", *more)
        assert done.exit_code == 0, done.output
        assert next(line for line in done.stderr.splitlines() if "linked" in line).endswith("1 linked folder (d/round)")
    assert [path.name for path in Path("out").rglob("*.png")] == ["a.png"]


@pytest.mark.parametrize("name", ["a.jfif", "b.JPE"])
def test_jpegs_by_their_rarer_names(photos, name):
    Image.new("RGB", (8, 6)).save(photos / name, "jpeg")
    for given in ("d", "d/*"):
        done = upscale(given, "-o", "out", "--dry-run")
        assert f"d/{name} -> out/" in done.stdout
    assert upscale(f"d/{name}", "-o", "x.jfif").exit_code == 0
    assert Image.open("x.jfif").format == "JPEG"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["d/empty.png"], "(the file is empty)"),
        (["d/text.png"], "(not an image, or in a format other than PNG,"),
        (["d/denied.png"], "(cannot be read (Permission denied))"),
        (["d/a.png", "--max-pixels", "40"], "(8x6 is 48 pixels, more than the limit of 40; --max-pixels sets"),
        (["d/no*.png"], "(no picture or video matches)"),
        (["d/none.png"], "(no such file)"),
    ],
)
def test_a_dry_run_gives_the_reason(photos, arguments, told, monkeypatch):
    (photos / "empty.png").touch()
    (photos / "text.png").write_bytes(b"text")
    (photos / "denied.png").write_bytes(b"x")

    opened = Path.open

    def refusing(path, *args, **options):
        if path.name == "denied.png":  # root may read everything
            raise PermissionError(13, "Permission denied")
        return opened(path, *args, **options)

    monkeypatch.setattr(Path, "open", refusing)
    done = upscale(*arguments, "--dry-run")
    assert done.exit_code == 1
    assert told in done.stdout


def test_a_glob_without_match_is_told_as_such(photos):
    done = upscale("d/no*.png")
    assert isinstance(done.exception, UserError)
    assert str(done.exception) == "d/no*.png: no picture or video matches"


@pytest.mark.parametrize("streamed", [False, True])
def test_the_limit_of_pixels_is_named(photos, streamed, monkeypatch):
    monkeypatch.setattr("enlcn.upscaling.batch.is_large", lambda path, options: streamed)
    told = str(upscale("d/a.png", "--max-pixels", "40").exception)
    assert told == "d/a.png: 8x6 is 48 pixels, more than the limit of 40; --max-pixels sets another limit"


def test_the_help_gives_the_limit_of_pixels():
    from enlcn.cli.picture_options import MaxPixels

    assert f"{MAX_PIXELS:,}" in MaxPixels.__metadata__[0].help


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_too_little_memory_is_told_in_words(photos, error, monkeypatch):
    def load_image(*arguments, **options):
        raise error

    monkeypatch.setattr("enlcn.upscaling.batch.load_image", load_image)
    assert str(upscale("d/a.png").exception).startswith("d/a.png: does not fit in memory; try --mode streaming")


def test_advice_for_existing_outputs_is_given_once(photos):
    Image.new("RGB", (8, 6)).save(photos / "b.png")
    assert upscale("d").exit_code == 0
    again = upscale("d")
    assert again.exit_code == 1
    assert again.stderr.splitlines()[-4:-1] == [
        "failed: d_x4/b.png: exists already",
        "2 failed",
        "2 exist already; pass --overwrite to replace them, or --skip-existing to leave them",
    ]


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ([], "note: --quality means nothing for PNG"),
        (["-f", "tiff"], "note: --quality means nothing for TIFF"),
        (["-f", "webp", "--lossless"], "note: --quality means nothing with --lossless"),
        (["-f", "webp"], ""),
    ],
)
def test_a_quality_that_means_nothing_is_told_once(photos, more, told):
    Image.new("RGB", (8, 6)).save(photos / "b.png")
    (photos / "c.gif").unlink()
    (photos / "b.CR2").unlink()
    assert upscale("d", "--quality", "80", "--dry-run", *more).stderr.strip() == told
