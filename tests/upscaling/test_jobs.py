"""Which input becomes which output."""

import pytest

from enlcn.errors import UserError
from enlcn.upscaling.jobs import Naming, check_format, plan_jobs, several_folders


@pytest.fixture
def tree(tmp_path, monkeypatch):
    (tmp_path / "in" / "empty").mkdir(parents=True)
    for name in ("in/a.jpg", "in/deep/er/b.PNG", "in/scan.tif", "in/notes.txt", "in/.hidden.png", "lone.webp"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def planned(inputs, output=None, format=None, suffix=None):
    jobs = plan_jobs(inputs, Naming(output, format, suffix, "x4"))
    return {str(job.source): str(job.target) if job.target else None for job in jobs}


def test_beside_the_input_by_default(tree):
    assert planned(["lone.webp"]) == {"lone.webp": "lone_x4.png"}
    assert planned(["lone.webp"], suffix="-big", format="jpeg") == {"lone.webp": "lone-big.jpg"}


def test_folders_are_walked_and_mirrored(tree):
    assert planned(["in"], output="out") == {
        "in/a.jpg": "out/a.png",
        "in/deep/er/b.PNG": "out/deep/er/b.png",
        "in/scan.tif": "out/scan.tif",
    }
    assert planned(["in"])["in/deep/er/b.PNG"] == "in_x4/deep/er/b.png"


def test_this_folder_and_the_one_above(tree, monkeypatch):
    monkeypatch.chdir(tree / "in" / "deep")
    assert planned(["."]) == {"er/b.PNG": str(tree / "in" / "deep_x4" / "er" / "b.png")}
    monkeypatch.chdir(tree / "in" / "deep" / "er")
    assert planned([".."]) == {"../er/b.PNG": str(tree / "in" / "deep_x4" / "er" / "b.png")}


def test_hidden_folders_are_not_entered(tree):
    (tree / "in" / ".thumbs").mkdir()
    (tree / "in" / ".thumbs" / "t.png").write_bytes(b"")
    assert len(planned(["in"])) == 3


def test_several_folders_keep_their_names_in_the_output(tree):
    (tree / "other").mkdir()
    (tree / "other" / "a.jpg").write_bytes(b"")
    (tree / "in" / "out" / "other").mkdir(parents=True)
    (tree / "in" / "out" / "other" / "a.png").write_bytes(b"")  # from an earlier run
    inputs = ["in", "other/", "lone.webp"]
    assert several_folders(inputs)
    jobs = plan_jobs(inputs, Naming("in/out", None, None, "x4", apart=True))
    assert [str(job.target) for job in jobs] == [
        *("in/out/in/a.png", "in/out/in/deep/er/b.png", "in/out/in/scan.tif"),
        *("in/out/other/a.png", "in/out/lone.png"),
    ]
    assert not several_folders(["in", "in/", "lone.webp", "-"])


def test_globs_files_and_folders_together(tree):
    found = planned(["in/*.jpg", "lone.webp", "in/deep/**/*.PNG"], output="out")
    assert sorted(found) == ["in/a.jpg", "in/deep/er/b.PNG", "lone.webp"]


def test_one_file_to_one_file(tree):
    assert planned(["lone.webp"], output="big.tiff") == {"lone.webp": "big.tiff"}


@pytest.mark.parametrize("folder", ["run.v2", "out.2024", "photos.2x", "a.x4", "exp.1", "v1.0", "there.mp4"])
def test_folders_may_have_dots_and_digits(tree, folder):
    (tree / "there.mp4").mkdir()
    assert planned(["lone.webp"], output=folder) == {"lone.webp": f"{folder}/lone.png"}


def test_standard_streams(tree):
    assert planned(["-"]) == {"None": None}
    assert planned(["-"], output="o.png") == {"None": "o.png"}
    assert planned(["lone.webp"], output="-") == {"lone.webp": None}


@pytest.mark.parametrize(
    ("inputs", "output", "message"),
    [
        (["in/deep/er/../../empty"], None, "no pictures found"),
        (["lone.webp"], "big.gif", "cannot write '.gif' files"),
        (["lone.webp"], "big.mp4", "cannot write '.mp4' files; choose from .png"),
        (["lone.webp"], "big.jp2", "cannot write '.jp2' files"),
        (["lone.webp"], "big.J2K", "cannot write '.j2k' files"),
        (["lone.webp"], "big.ts", "cannot write '.ts' files"),
        (["in"], "all.png", "all.png: is a file name, but in is a folder"),
        (["in/a.jpg", "lone.webp"], "one.png", "2 pictures cannot go into one file"),
        (["in/a.jpg", "lone.webp"], "-", "2 pictures cannot go into one file"),
        (["lone.webp"], "lone.webp", "its own result would replace it"),
        (["-"], "folder", "standard input has no name"),
    ],
)
def test_impossible_plans(tree, inputs, output, message):
    with pytest.raises(UserError, match=message):
        planned(inputs, output)


def test_results_that_would_share_a_name_are_told_apart(tree):
    (tree / "in" / "a.png").write_bytes(b"")
    found = planned(["in"], output="out")
    assert found["in/a.jpg"] == "out/a_jpg.png"
    assert found["in/a.png"] == "out/a_png.png"
    assert found["in/scan.tif"] == "out/scan.tif"
    (tree / "in" / "a_jpg.webp").write_bytes(b"")
    with pytest.raises(UserError, match=r"would both go there"):
        planned(["in"], output="out")


def test_results_are_no_inputs(tree):
    """A second run over a folder that holds the first one's output finds the same pictures again."""
    (tree / "in" / "out").mkdir()
    (tree / "in" / "out" / "a.png").write_bytes(b"")
    assert sorted(planned(["in"], output="in/out")) == ["in/a.jpg", "in/deep/er/b.PNG", "in/scan.tif"]
    (tree / "in" / "a_big.png").write_bytes(b"")
    assert "in/a_big.png" not in planned(["in"], output="in", suffix="_big")
    for name in ("a.png", "a_x4_jpg.png", "a_x4_png.png"):
        (tree / "in" / name).write_bytes(b"")
    assert sorted(planned(["in/a*"])) == ["in/a.jpg", "in/a.png", "in/a_big.png"]


def test_pictures_named_twice_are_done_once(tree):
    assert len(plan_jobs(["in/a.jpg", "in/*.jpg"], Naming("out", None, None, "x4"))) == 1


def test_nothing_matched_is_not_passed_over(tree):
    assert "nomatch/*.png" in planned(["nomatch/*.png", "lone.webp"], output="out")
    assert "missing[red].png" in planned(["missing[red].png", "lone.webp"], output="out")


def test_name_and_format_must_agree(tree):
    with pytest.raises(UserError, match="its name says png, --format says jpeg"):
        planned(["lone.webp"], output="big.png", format="jpeg")
    assert planned(["lone.webp"], output="big.new/") == {"lone.webp": "big.new/lone.png"}


def test_formats_by_the_names_people_use():
    assert [check_format(name) for name in ("jpg", "TIF", "auto", None, "png")] == ["jpeg", "tiff", None, None, "png"]
    with pytest.raises(UserError, match="choose from auto, png, jpeg"):
        check_format("gif")
