"""`enlcn reproduce all`, the command that `make reproduce-smoke` runs: every table and figure, one page of all."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from enlcn.cli import app, console
from enlcn.cli.reproduce import NAMES, _show_on
from enlcn.errors import UserError
from enlcn.reproduce.items import ITEMS
from enlcn.reproduce.preset import BUDGETS, DEFAULT_BUDGET
from enlcn.reproduce.run import Left

ROOT = Path(__file__).parents[2]
ASSETS = ROOT / "enlcn" / "assets"


def test_the_names_are_those_of_the_items():
    assert tuple(ITEMS) == NAMES


def test_make_reproduce_smoke_makes_everything(tmp_path):
    """The Makefile's own command, on the data there is: the bundled photo where there is no other."""
    recipe = re.search(r"^reproduce-smoke:.*\n\t(.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE)[1]
    data = os.environ.get("ENLCN_DATA")
    data = data if data and Path(data).is_dir() else str(ASSETS)
    words = recipe.replace("$(or $(ENLCN_DATA),enlcn/assets)", data).split()
    out = tmp_path / "out"
    words[words.index("--out") + 1] = str(out)
    assert words[0].endswith("enlcn")
    command = [sys.executable, "-m", "enlcn", *words[1:], "--cache", str(tmp_path / "cache")]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    assert result.returncode == 0, result.stderr + result.stdout
    check_files(out, result.stdout)
    check_page((out / "report.html").read_text())
    begun = CliRunner().invoke(app, ["reproduce", "ablation", "--out", str(out), "--no-resume", "--data", "."])
    assert "holds a reproduction already" in str(begun.exception)


def check_files(out, said):
    for name in NAMES:
        assert f"written: {out / f'{name}.md'}" in said
        assert (out / f"{name}.csv").stat().st_size > 0
        assert (out / "results" / f"{name}.json").is_file()
    for picture in ("correlation", "sparsity", "visual", "receptive"):
        assert (out / "pictures" / f"{picture}.png").read_bytes().startswith(b"\x89PNG")
    for chart in ("ablation", "n1n2", "amplification", "efficiency", "runtime", "crisscross", "estimators"):
        assert b"<svg" in (out / "pictures" / f"{chart}.svg").read_bytes()
        assert (out / "pictures" / f"{chart}.png").read_bytes().startswith(b"\x89PNG")


def check_page(page):
    """One page with every section and nothing from elsewhere."""
    assert re.findall(r'<h2 id="(\w+)">', page) == list(NAMES)
    sources = re.findall(r'src="([^"]{1,30})', page)
    assert len(sources) >= 12
    assert all(source.startswith("data:image/") for source in sources)
    assert not re.search(r'(?:href|src)="(?!#|data:)', page)
    assert "A miniature, not the paper's protocol" in html.unescape(page)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "which table or figure"),
        (["table9"], "unknown table or figure 'table9'"),
        (["ablation", "--data", "no/such/folder"], "no such folder of pictures"),
        (["ablation", "--data", str(ASSETS), "--preset", "huge"], "unknown preset 'huge'"),
        (["ablation", "--data", str(ASSETS), "--budget", "-1"], "must be positive"),
        (["ablation", "--data", str(ASSETS), "--budget", "nan"], "must be positive numbers of seconds"),
        (["ablation", "--data", str(ASSETS), "--time-limit", "inf"], "must be positive numbers of seconds"),
        (["ablation", "--data", str(ASSETS), "--seeds", "0"], "seeds must be at least 1"),
        (["ablation", "--data", str(ASSETS), "--jobs", "0"], "--jobs must be at least 1"),
        (["ablation", "--data", str(ASSETS), "--network", "enlcn-huge"], "unknown network 'enlcn-huge"),
        (["runtime", "--docs", f"{__file__}/page.md"], "is a file, not a folder"),
    ],
)
def test_bad_input_is_one_line(words, message, tmp_path):
    result = CliRunner().invoke(app, ["reproduce", *words, "--out", str(tmp_path / "out"), "--device", "cpu"])
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path, monkeypatch):
    monkeypatch.delenv("ENLCN_DATA", raising=False)
    (tmp_path / "file").touch()
    words = ["reproduce", "runtime", "--preset", "smoke", "--device", "cpu", "--out", str(tmp_path / "file" / "out")]
    result = CliRunner().invoke(app, words)
    assert isinstance(result.exception, UserError)
    assert "is a file, not a folder" in str(result.exception)


@pytest.mark.parametrize(
    ("words", "budget"),
    [
        (["--preset", "smoke"], BUDGETS["smoke"]),
        (["--preset", "smoke", "--budget", "90"], 90),
        (["--preset", "cpu"], DEFAULT_BUDGET),
        ([], DEFAULT_BUDGET),
    ],
)
def test_smoke_takes_seconds_unless_told_otherwise(words, budget, tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr("enlcn.reproduce.run.reproduce", lambda request, show: asked.append(request) or Left(0, ()))
    result = CliRunner().invoke(app, ["reproduce", "ablation", "--data", str(ASSETS), "--out", str(tmp_path), *words])
    assert result.exit_code == 0, result.output
    assert asked[0].budget == budget


def test_results_without_a_plan_are_not_measured_over(tmp_path, monkeypatch):
    """`runtime` trains nothing and plans nothing."""
    monkeypatch.delenv("ENLCN_DATA", raising=False)
    words = ["reproduce", "runtime", "--preset", "smoke", "--device", "cpu", "--out", str(tmp_path), "--no-resume"]
    assert CliRunner().invoke(app, words).exit_code == 0
    before = (tmp_path / "results" / "runtime.json").read_bytes()
    again = CliRunner().invoke(app, words)
    assert "holds a reproduction already" in str(again.exception)
    assert (tmp_path / "results" / "runtime.json").read_bytes() == before
    assert CliRunner().invoke(app, [*words, "--overwrite"]).exit_code == 0


def test_lines_for_nobody_say_what_is_left(monkeypatch, capsys):
    now = [100.0]
    monkeypatch.setattr("enlcn.cli.reproduce.time.monotonic", lambda: now[0])
    monkeypatch.setattr(console, "err", Console(file=sys.stderr, soft_wrap=True))
    show = _show_on(console.progress_bar())
    for seconds, done in ((0, 1000), (4, 1200), (12, 1600), (16, 1800), (40, 3000)):
        now[0] = 100.0 + seconds
        show("training steps", done, 3000)
    assert capsys.readouterr().err.splitlines() == [
        "training steps: 1,000 of 3,000",
        "training steps: 1,600 of 3,000, about 28 s left",
        "training steps: 3,000 of 3,000",
    ]
