"""The README's pictures are what its own commands draw today."""

import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from enlcn.cli import app

ROOT = Path(__file__).parents[2]
SHOWN = re.compile(r"^!\[[^\]]*\]\((?P<picture>[^)]+)\)\n\n    enlcn (?P<command>.+?) +# draws this picture$", re.M)
DRAWN = {found["picture"]: found["command"] for found in SHOWN.finditer((ROOT / "README.md").read_text())}


@pytest.mark.parametrize("picture", DRAWN)
def test_picture(picture, tmp_path, monkeypatch):
    words = shlex.split(DRAWN[picture])
    name = Path(picture).name
    words[words.index(name)] = str(tmp_path / name)
    monkeypatch.chdir(ROOT)
    done = CliRunner().invoke(app, [*words, "--device", "cpu"])
    assert done.exit_code == 0, done.output
    drawn, shown = (np.asarray(Image.open(path).convert("RGB"), np.float32) for path in (tmp_path / name, picture))
    assert drawn.shape == shown.shape
    # Other machines round otherwise; other weights differ by several levels.
    assert np.abs(drawn - shown).mean() < 0.2


def test_pictures_are_found():
    assert set(DRAWN) == {"docs/comparison.png", "docs/attention.png"}
