"""`enlcn models`, in the process for registries of the tests' own, and as users run it."""

import json
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import enlcn
from enlcn.cli import app, console
from enlcn.errors import UserError
from tests.zoo.test_registry import damage, same


def models(*arguments):
    """Exit code and standard output; a UserError is raised, as `main` would catch it."""
    done = CliRunner().invoke(app, ["models", *map(str, arguments)], env={"COLUMNS": "200"})
    if isinstance(done.exception, UserError):
        raise done.exception
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.output


@pytest.fixture(autouse=True)
def consoles(monkeypatch):
    """Consoles that write where CliRunner looks."""
    monkeypatch.setattr(console.out, "_file", None)


@pytest.fixture
def three(zoo):
    scores = {"Set5": (32.0449, 0.8926), "B100": (27.5, 0.73)}
    zoo.add("enlcn-light-x2", scores=scores, cpu_seconds=0.251, steps=58576, recipe="some [recipe]")
    zoo.add("enlcn-light-x3")
    (zoo.package / "enlcn-light-x3.safetensors").unlink()
    zoo.add_parts("enlcn-x4")
    return zoo


def test_the_list_says_what_there_is_and_where(three):
    code, output = models()
    assert code == 0
    lines = {line.split()[0]: line for line in output.splitlines() if line.startswith("enlcn-")}
    assert list(lines) == ["enlcn-light-x2", "enlcn-light-x3", "enlcn-x4"]
    for fact in ("x2", "32.04", "27.50", "0.25 s", "bundled"):
        assert fact in lines["enlcn-light-x2"]
    assert lines["enlcn-light-x3"].rstrip().endswith("not here")
    assert lines["enlcn-x4"].rstrip().endswith("weights/")
    assert str(three.cache) in output
    enlcn.load("enlcn-x4")
    assert next(line for line in models()[1].splitlines() if line.startswith("enlcn-x4")).rstrip().endswith("cache")


def test_as_json(three):
    rows = {row["name"]: row for row in json.loads(models("--json")[1])}
    assert [row["where"] for row in rows.values()] == ["bundled", "not here", "weights"]
    assert rows["enlcn-light-x2"]["scores"]["Set5"] == {"psnr": 32.0449, "ssim": 0.8926}
    assert len(rows["enlcn-x4"]["file"]["parts"]) > 2
    one = json.loads(models("enlcn-light-x2", "--json")[1])
    assert one == rows["enlcn-light-x2"]
    assert json.loads(models("--json", "enlcn-light-x2")[1]) == one
    with pytest.raises(UserError, match="--json means nothing to `pull`"):
        models("--json", "pull", "enlcn-light-x2")


def test_one_model(three):
    code, output = models("enlcn-light-x2")
    assert code == 0
    for fact in ("Set5 32.04 / 0.8926", "58,576", "some [recipe]"):
        assert fact in output
    assert models("show", "enlcn-light-x2")[1] == output
    with pytest.raises(
        UserError, match=r"'enlcn'; did you mean enlcn-x4\? there are enlcn-light-x2, enlcn-light-x3, enlcn-x4"
    ):
        models("enlcn")


def test_verify_finds_damage_and_says_where(three):
    code, output = models("--verify")
    assert code == 0
    assert "enlcn-light-x3: not here" in output
    damage(three.weights / "enlcn-x4" / "part-01")
    code, output = models("--verify")
    assert code == 1
    assert "enlcn-light-x2: intact (1 file)" in output
    assert "enlcn-x4: DAMAGED" in output
    assert "part-01" in output
    rows = {row["name"]: row["intact"] for row in json.loads(models("--verify", "--json")[1])}
    assert rows == {"enlcn-light-x2": True, "enlcn-light-x3": True, "enlcn-x4": False}
    for arguments in (("--verify", "enlcn-x4"), ("enlcn-x4", "--verify")):
        code, output = models(*arguments)
        assert code == 1
        assert "DAMAGED" in output
    code, output = models("enlcn-light-x2", "--verify")
    assert code == 0
    assert "intact (1 file)" in output
    assert json.loads(models("enlcn-light-x2", "--verify", "--json")[1])["intact"] is True
    with pytest.raises(UserError, match="--verify means nothing to `pull`"):
        models("--verify", "pull", "enlcn-x4")


def test_pull_by_name_and_by_address(three, server):
    shutil.move(three.weights / "enlcn-x4", server.folder / "enlcn-x4")
    with pytest.raises(UserError, match="not on this computer"):
        models("pull", "enlcn-x4")
    code, output = models("pull", "enlcn-x4", "--from", server.url(""))
    assert code == 0
    assert "enlcn-x4: checked, in" in output
    assert same(enlcn.load("enlcn-x4"), three.network(4))
    shutil.copy(three.package / "enlcn-light-x2.safetensors", server.folder / "mine.safetensors")
    url = server.url("mine.safetensors")
    assert models("pull", url)[0] == 0
    assert models("pull", url)[0] == 0
    assert server.paths().count("/mine.safetensors") == 1
    assert models("pull", url, "--refresh")[0] == 0
    assert server.paths().count("/mine.safetensors") == 2
    with pytest.raises(UserError, match="--from belongs to a name"):
        models("pull", url, "--from", server.url(""))
    with pytest.raises(UserError, match="no model is called 'nope'"):
        models("pull", "nope")
    with pytest.raises(UserError, match="--refresh belongs to an address"):
        models("pull", "enlcn-x4", "--refresh")


def test_as_users_run_it(tmp_path):
    def run(*arguments):
        command = [sys.executable, "-X", "importtime", "-m", "enlcn", *arguments]
        return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path)

    done = run("models")
    assert done.returncode == 0, done.stderr
    assert "enlcn-light-x4" in done.stdout
    assert "| torch\n" not in done.stderr  # the list needs none
    done = run("models", "nope")
    assert done.returncode == 2
    assert "error: no model is called 'nope'" in done.stderr
    assert "Traceback" not in done.stderr
    (tmp_path / "x.png").touch()
    done = run("upscale", "x.png", "-m", "http://127.0.0.1:1/w.safetensors")
    assert done.returncode == 2
    assert "cannot be reached" in done.stderr
    assert "Traceback" not in done.stderr
