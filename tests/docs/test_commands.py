"""Every `enlcn` command that the pages show exists, with the options shown."""

import re
import shlex
from pathlib import Path

import pytest
import typer.main

from enlcn.cli import app

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
SHOWN = re.compile(r"^(?:    )?(?:\S+=\S+ |\S+ \S+ \| |torchrun .*-m )?(enlcn (?:[^\n]*\\\n)*[^\n]*)", re.M)
PROGRAM = typer.main.get_command(app)


def commands(path: Path) -> list[str]:
    """Commands in blocks of code, fenced or indented, without comments."""
    text = path.read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.M | re.S)
    blocks += re.findall(r"(?:^    .*\n)+", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S), re.M)
    return [found[1].replace("\\\n", " ") for block in blocks for found in SHOWN.finditer(block)]


def options_of(words: list[str]) -> tuple[list[str], set[str]]:
    """The options among `words`, and those that the command which they name has."""
    command, rest = PROGRAM, list(words)
    known = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    while hasattr(command, "commands"):
        named = next((word for word in rest if word in command.commands), None)
        if named is None:
            break
        rest = rest[rest.index(named) + 1 :]
        command = command.commands[named]
        known |= {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    assert command is not PROGRAM or not [word for word in words if not word.startswith("-")], f"no command {words}"
    return [word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)], known | {"--help"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_exist(path):
    for line in commands(path):
        words = shlex.split(line, comments=True)[1:]
        words = words[: next((i for i, word in enumerate(words) if word in (">", "|", ";", "&&")), len(words))]
        shown, known = options_of(words)
        assert set(shown) <= known, f"{line}: {set(shown) - known}"


def test_commands_are_found():
    assert len(commands(ROOT / "README.md")) > 15
    assert len(commands(ROOT / "docs" / "guide" / "researcher.md")) > 8
    with pytest.raises(AssertionError, match="no command"):
        options_of(["upscal", "photo.jpg"])
    shown, known = options_of(["upscale", "photo.jpg", "--tiles", "4"])
    assert set(shown) - known == {"--tiles"}
