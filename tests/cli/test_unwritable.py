"""Outputs that cannot be written, by every command: one line, exit code 2, and before work that takes long."""

import signal
import sys
from pathlib import Path

import pytest
from PIL import Image

from enlcn import recipes
from enlcn.checkpoint import save
from enlcn.cli import app, console
from enlcn.file_parts import split_file
from enlcn.models.backbone import SRNetwork

PHOTO = Path(__file__).parents[2] / "enlcn" / "assets" / "palace.png"
TINY = "untrained:enlcn-tiny"
EVALUATE = ("evaluate", "-m", "bicubic", "-d", "photos", "-s", "4")
# {} stands for a folder that cannot be made.
COMMANDS = {
    "upscale": ("upscale", "photos/a.png", "-m", TINY, "--report", "{}/y.json"),
    "evaluate": (*EVALUATE, "--out", "{}/o"),
    "crops": (*EVALUATE, "--crops", "{}/c.png"),
    "save images": (*EVALUATE, "--save-images", "{}/sr"),
    "attention": ("attention", "photos/a.png", "--at", "1,1", "-m", TINY, "-o", "{}/m.png"),
    "spandrel": ("export", TINY, "{}/a.safetensors"),
    "hub": ("export", TINY, "{}/hub"),
    "onnx": ("export", TINY, "{}/a.onnx"),
    "torch.export": ("export", TINY, "{}/a.pt2"),
    "export-weights": ("export-weights", "run", "{}/a.safetensors"),
    "convert": ("convert", "tiny.safetensors", "{}/a.safetensors"),
    "join-weights": ("join-weights", "tiny.safetensors.parts.json", "{}/a.safetensors"),
    "plot": ("plot", "run", "-o", "{}/a.png"),
    "train": ("train", "cpu-x2", "--data", "photos", "--device", "cpu", "--out", "{}/r"),
    "reproduce": ("reproduce", "efficiency", "--device", "cpu", "--out", "{}/r"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("ENLCN_DATA", raising=False)
    monkeypatch.setattr(console.log, "handlers", [])
    Path("text.png").write_text("precious")
    Path("photos").mkdir()
    Image.open(PHOTO).crop((0, 0, 64, 48)).save("photos/a.png")
    save(SRNetwork(recipes.TINY), "tiny.safetensors")
    split_file(Path("tiny.safetensors"), 0.1)
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield tmp_path
    for number, handler in before.items():
        signal.signal(number, handler)


def enlcn(*arguments):
    """The exit code of a command line."""
    with pytest.raises(SystemExit) as ended:
        console.run_guarded(lambda: app(list(arguments), standalone_mode=False))
    return ended.value.code


@pytest.mark.parametrize("place", ["text.png", "/proc/x"])
@pytest.mark.parametrize("command", COMMANDS)
def test_one_line_and_nothing_done(command, place, folder, capsys):
    if place.startswith("/proc") and sys.platform != "linux":
        pytest.skip("needs a folder in which nobody may make files")
    before = sorted(folder.rglob("*"))
    assert enlcn(*(part.format(place) for part in COMMANDS[command])) == 2
    told = capsys.readouterr()
    assert told.out == ""
    why = "text.png is a file, not a folder" if place == "text.png" else "No such file or directory"
    assert told.err.startswith(f"error: {place}/")
    assert told.err.endswith(f": cannot be written ({why})\n")
    assert told.err.count("\n") == 1
    assert sorted(folder.rglob("*")) == before


@pytest.mark.parametrize("command", ["evaluate", "train", "reproduce"])
def test_a_file_is_no_folder_for_results(command, folder, capsys):
    arguments = COMMANDS[command]
    assert enlcn(*arguments[:-1], "text.png") == 2
    told = capsys.readouterr().err
    assert told.startswith("error: text.png")
    assert told.endswith(": cannot be written (text.png is a file, not a folder)\n")
    assert Path("text.png").read_text() == "precious"


def test_what_nobody_looked_at_before_is_one_line_too(capsys):
    with pytest.raises(SystemExit) as ended:
        console.run_guarded(lambda: Path("text.png/absent").read_text())
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: text.png/absent: Not a directory\n"
