"""The shape of the code: imports point one way, files stay small, the README's tree matches the disk."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "enlcn"
SOURCES = sorted(PACKAGE.rglob("*.py"))

# From the bottom up: a part imports what lies in its own layer or below.
LAYERS = [
    ["errors", "version", "interruption", "on_first_use", "shared_scope", "freed_memory"],
    ["files", "cache_folder", "file_parts", "device_names", "config", "plain_config", "recipes"],
    ["ops", "file_metadata", "weights_file"],
    ["models", "hub_methods"],
    ["data", "metrics", "losses", "cost"],
    ["authors_format", "zoo"],
    ["checkpoint"],
    ["train", "upscaling", "video", "evaluate", "reproduce", "export", "attention_map", "attention_picture"],
    ["cli", "serve", "cluster", "demo", "__main__"],
]
APART = ["ops", "models", "data", "metrics", "losses"]  # of one layer or not: only models build on ops, losses too
MAY_USE = {"models": ["ops"], "losses": ["ops"]}
# Imported upwards, when called: methods of networks that hand on to a verb, questions to a file's own kind.
WHEN_CALLED = {
    ("hub_methods", "export"),
    ("zoo", "checkpoint"),
    ("zoo", "export"),
    ("zoo", "upscaling"),
    ("__init__", "checkpoint"),
    ("__init__", "models"),
    ("__init__", "upscaling"),
    ("__init__", "data"),
}


def imported_parts(path):
    """(part, whether it is imported with the file, not when a function is called or for types alone)."""
    tree = ast.parse(path.read_text())
    at_once = {id(node) for node in tree.body}
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        parts = {name.split(".")[1] for name in names if name.startswith("enlcn.")}
        yield from ((part, id(node) in at_once) for part in parts & PARTS)


def part_of(path):
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


PARTS = {part_of(path) for path in SOURCES}
HEIGHT = {part: height for height, layer in enumerate(LAYERS) for part in layer}


def test_every_part_has_its_layer():
    assert set(HEIGHT) == PARTS - {"__init__"}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_one_way(path):
    own = part_of(path)
    for part, at_once in imported_parts(path):
        if part == own or (not at_once and (own, part) in WHEN_CALLED):
            continue
        assert HEIGHT[part] <= HEIGHT.get(own, 0), f"{path.name} imports enlcn.{part}, which lies above it"
        if own in APART and part in APART:
            assert part in MAY_USE.get(own, []), f"{path.name} imports enlcn.{part}"


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
