"""The shape of the code: imports point one way, files stay small, the README's tree matches the disk."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "enlcn"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# What a folder or file may not import.
VERBS = ["train", "upscaling", "video", "evaluate", "reproduce", "export", "attention_map", "attention_picture"]
FRONTS = ["cli", "serve", "cluster"]
FORBIDDEN = {
    "ops": ["models", "data", "metrics", "losses", "checkpoint", *VERBS, *FRONTS],
    "models": ["data", "metrics", "losses", "checkpoint", *VERBS, *FRONTS],
    "data": ["ops", "models", "losses", "checkpoint", *VERBS, *FRONTS],
    "metrics": ["ops", "models", "losses", "checkpoint", *VERBS, *FRONTS],
    "losses": ["models", "data", "checkpoint", *VERBS, *FRONTS],
    "config": ["ops", "models", "data", "metrics", "losses", "checkpoint", *VERBS, *FRONTS],
    **dict.fromkeys(VERBS, FRONTS),
}


def imported_modules(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path):
    forbidden = {f"enlcn.{name}" for name in FORBIDDEN.get(part_of(path), [])}
    for module in imported_modules(path):
        assert ".".join(module.split(".")[:2]) not in forbidden, f"{path.name} imports {module}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_are_small_and_say_what_they_are(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 300
    assert ast.get_docstring(ast.parse(text)), "the first line says what the file is"
    assert path.name != "utils.py"


def test_readme_tree_matches_the_disk():
    tree = re.search(r"```text\nenlcn/\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL).group(1)
    named = set(re.findall(r"^  (\w+(?:/|\.py))", tree, re.MULTILINE))
    on_disk = {f"{p.name}/" for p in PACKAGE.iterdir() if p.is_dir() and list(p.glob("*.py"))}
    on_disk |= {p.name for p in PACKAGE.glob("*.py") if not p.name.startswith("__")}
    assert named - {"assets/", "weights/"} == on_disk


def test_every_row_of_the_method_table_exists():
    """docs/method.md: equation -> function -> test. Functions and tests named there must be there."""
    rows = re.findall(
        r"^\|[^|]+\| `([\w.]+)` \|[^|]*`(tests/[\w/]+\.py)::(\w+)`", (ROOT / "docs/method.md").read_text(), re.M
    )
    assert len(rows) >= 12
    for function, test_file, test in rows:
        module, _, name = function.rpartition(".")
        path = PACKAGE / (module.replace(".", "/") + ".py")
        path = path if path.exists() else PACKAGE / module.replace(".", "/") / "__init__.py"
        assert re.search(rf"^(?:    )?(?:def|class) {name}\b", path.read_text(), re.M), function
        assert f"def {test}(" in (ROOT / test_file).read_text(), test
