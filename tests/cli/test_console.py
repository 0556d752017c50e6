"""What goes to pipes and log files: a line for each message, nothing cut, padded or replaced."""

import io
import json
import logging
import subprocess
import sys

import pytest
from rich.console import Console

from enlcn.cli import console

LONG = "a path " + "/very/long" * 20 + "/file.png"


@pytest.fixture(autouse=True)
def handlers_as_before(monkeypatch):
    monkeypatch.setattr(console.log, "handlers", [])
    monkeypatch.setattr(console.out, "quiet", False)
    level = console.log.level
    yield
    console.log.setLevel(level)


@pytest.mark.parametrize(("verbosity", "shown"), [(0, LONG), (1, f"WARNING {LONG}")])
def test_messages_are_one_unpadded_line_each(capsys, verbosity, shown):
    console.set_verbosity(verbosity)
    logging.getLogger("enlcn.anything").warning("%s", LONG)
    assert capsys.readouterr().err == f"{shown}\n"


def test_names_are_not_taken_for_emoji(capsys):
    console.set_verbosity(0)
    console.say("a:car:.png", to=console.err)
    logging.getLogger("enlcn.anything").warning("b:car:[1].png")
    assert capsys.readouterr().err == "a:car:.png\nb:car:[1].png\n"


def test_cards_are_not_cut(capsys):
    console.show_card("a model", [("where", LONG), ("SHA-256", "f" * 64)])
    assert capsys.readouterr().out == f"a model\nwhere    {LONG}\nSHA-256  {'f' * 64}\n"


def test_paths_of_models_are_not_cut(tmp_path):
    def enlcn(*arguments):
        command = [sys.executable, "-m", "enlcn", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=True).stdout

    path = json.loads(enlcn("models", "enlcn-light-x4", "--json"))["path"]
    lines = enlcn("models", "enlcn-light-x4").splitlines()
    assert f"bundled: {path}" in " ".join(lines)
    assert [line for line in lines if line != line.rstrip()] == []


def test_a_terminal_folds_long_values_and_cuts_none(monkeypatch):
    shown = io.StringIO()
    monkeypatch.setattr(console, "out", Console(file=shown, force_terminal=True, width=40, highlight=False))
    console.show_card("a model", [("where", LONG)])
    lines = shown.getvalue().splitlines()
    assert all(len(line) <= 40 for line in lines)
    assert "".join("".join(lines[1:]).removeprefix("where").split()) == LONG.replace(" ", "")


def test_a_program_without_memory_ends_in_one_line(capsys):
    def grow():
        raise MemoryError

    with pytest.raises(SystemExit) as ended:
        console.run_guarded(grow)
    assert ended.value.code == 2
    assert capsys.readouterr().err == "error: out of memory; close other programs, or take less at a time\n"
