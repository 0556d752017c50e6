"""docs/cookbook.md: every block runs, section by section, and prints what its comments say."""

import ast
import contextlib
import importlib.util
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

COOKBOOK = Path(__file__).parents[2] / "docs" / "cookbook.md"
BLOCK = re.compile(r"^(?:<!-- needs: (?P<needs>[\w ]+) -->\n)?```(?P<language>\w+)\n(?P<code>.*?)^```$", re.M | re.S)


@dataclass(frozen=True)
class Block:
    """A fenced block: what it is written in, its line in the page, and the modules of an extra that it needs."""

    language: str
    code: str
    line: int
    needs: tuple[str, ...]


def sections() -> dict[str, list[Block]]:
    """The blocks under each heading; a block stands on its own, but finds the files of those before it."""
    text = COOKBOOK.read_text()
    starts = list(re.finditer(r"^## (.+)$", text, re.M))
    ends = [*(start.start() for start in starts[1:]), len(text)]
    return {
        start[1]: [
            Block(
                found["language"],
                found["code"],
                text.count("\n", 0, found.start("code")),
                tuple((found["needs"] or "").split()),
            )
            for found in BLOCK.finditer(text, start.end(), end)
        ]
        for start, end in zip(starts, ends, strict=True)
    }


SECTIONS = sections()
PICTURES, *RECIPES = SECTIONS


def said_by_comments(code: str) -> list[str]:
    """What the comments behind `print` promise, in order; a block prints each line once."""
    lines = code.splitlines()
    calls = [node for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
    prints = {call.end_lineno for call in calls if isinstance(call.func, ast.Name) and call.func.id == "print"}
    return [lines[line - 1].partition("  # ")[2] for line in sorted(prints)]


def agrees(promised: str, said: str) -> bool:
    """Whether a line is what a comment promises, where … stands for anything."""
    return re.fullmatch(".*".join(map(re.escape, promised.split("…"))), said) is not None


def run_python(block: Block) -> None:
    # Empty lines before it: a traceback names the line of the page.
    program = compile("\n" * block.line + block.code, str(COOKBOOK), "exec")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(program, {"__name__": "__main__"})
    promised, said = said_by_comments(block.code), out.getvalue().splitlines()
    assert len(promised) == len(said), said
    for expected, line in zip(promised, said, strict=True):
        assert agrees(expected, line), f"printed {line!r}, the page says {expected!r}"


def run_shell(block: Block) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", block.code],
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{COOKBOOK}:{block.line + 1}\n{done.stdout}{done.stderr}"


RUNNERS = {"python": run_python, "sh": run_shell}


def run(block: Block) -> None:
    missing = [name for name in block.needs if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"line {block.line} of the page needs {', '.join(missing)}")
    RUNNERS[block.language](block)


@pytest.mark.parametrize("title", RECIPES)
def test_recipe(title, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ENLCN_CACHE", str(tmp_path / "cache"))
    assert SECTIONS[title], "a recipe without a program"
    for block in SECTIONS[PICTURES] + SECTIONS[title]:
        run(block)


def test_no_block_is_left_out():
    """A fence of another language, or one outside a section, would never run."""
    fences = len(re.findall(r"^```", COOKBOOK.read_text(), re.M))
    assert fences == 2 * sum(map(len, SECTIONS.values()))
    assert {block.language for blocks in SECTIONS.values() for block in blocks} <= set(RUNNERS)


def test_comments_are_compared():
    assert said_by_comments("print(1 + 1)  # 2\nif True:\n    print(3)  # 3\n") == ["2", "3"]
    assert agrees("PSNR … dB", "PSNR 31.2 dB")
    assert not agrees("True", "False")
    with pytest.raises(AssertionError, match="the page says '3'"):
        run_python(Block("python", "print(1 + 1)  # 3\n", 0, ()))
