"""`enlcn reproduce all`, the command that `make reproduce-smoke` runs: every table and figure, one page of all."""

import html
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from enlcn.cli import app
from enlcn.cli.reproduce import NAMES
from enlcn.errors import UserError
from enlcn.reproduce.items import ITEMS

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
        (["ablation", "--data", str(ASSETS), "--seeds", "0"], "seeds must be at least 1"),
        (["ablation", "--data", str(ASSETS), "--jobs", "0"], "--jobs must be at least 1"),
        (["ablation", "--data", str(ASSETS), "--network", "enlcn-huge"], "unknown network 'enlcn-huge"),
    ],
)
def test_bad_input_is_one_line(words, message, tmp_path):
    result = CliRunner().invoke(app, ["reproduce", *words, "--out", str(tmp_path / "out"), "--device", "cpu"])
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)
    assert "\n" not in str(result.exception)
