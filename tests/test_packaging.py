"""The wheel, built and installed into a clean environment, is what users get."""

import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]


def run(*command, **options):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=600, **options)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    source = tmp_path_factory.mktemp("source")
    shutil.copytree(ROOT / "enlcn", source / "enlcn", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", source / "dist", source)
    return next((source / "dist").glob("*.whl"))


def test_wheel_holds_the_package_and_nothing_else(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].split("-")[0] for name in names} == {"enlcn"}
    for needed in (
        "enlcn/py.typed",
        "enlcn/assets/palace.png",
        "enlcn/weights/models.json",
        *(f"enlcn/weights/enlcn-light-x{scale}.safetensors" for scale in (2, 3, 4)),
        "enlcn/serve/page/index.html",
        "enlcn/ops/linear_attention/naive.py",
    ):
        assert needed in names
    assert wheel.stat().st_size < 20e6


def test_a_source_archive_holds_what_a_clone_needs(tmp_path):
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", tmp_path, ROOT)
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        names = {name.partition("/")[2] for name in opened.getnames()}
    tracked = (
        run("git", "ls-files", cwd=ROOT).split("\n") if (ROOT / ".git").exists() else ["Makefile", "tests/conftest.py"]
    )
    kept_out = ("weights/", ".gitignore", "MANIFEST.in")
    assert [name for name in tracked if name and name not in names and not name.startswith(kept_out)] == []
    assert archive.stat().st_size < 40e6


def test_wheel_runs_in_a_clean_environment(wheel, tmp_path):
    venv.create(tmp_path / "venv", with_pip=True)
    python = tmp_path / "venv" / "bin" / "python"
    version = torch.__version__.partition("+")[0]
    run(python, "-m", "pip", "install", "--quiet", f"torch=={version}")  # the same build, before anything asks for it
    run(python, "-m", "pip", "install", "--quiet", wheel)
    program = tmp_path / "venv" / "bin" / "enlcn"
    assert run(program, "--version", cwd=tmp_path).startswith("enlcn ")
    assert "43,583,363" in run(program, "info", "untrained:enlcn-x4", cwd=tmp_path)
    probe = "import enlcn, torch; print(enlcn.load('untrained:enlcn-tiny-x2')(torch.rand(1, 3, 5, 6)).shape)"
    assert "10, 12" in run(python, "-c", probe, cwd=tmp_path)
