"""A hook of MkDocs: pages that lie outside docs/, cards of models, and links that work here and on the site.

In the repository a link is relative to its file. Pages from outside docs/ get a place on the site, links to them are
turned there, and links to files that have no page (sources, licences) become plain text.
"""

import os
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
# Their place on the site, and in the repository.
OUTSIDE = {
    "CHANGELOG.md": ROOT / "CHANGELOG.md",
    "CONTRIBUTING.md": ROOT / "CONTRIBUTING.md",
    "comfyui.md": ROOT / "integrations" / "comfyui_enlcn" / "README.md",
}
# What MkDocs takes from the head of a file, where the repository would show it as a table.
_META = {
    "index.md": {"hide": ["navigation", "toc"]},
    "models/template.md": {"search": {"exclude": True}},  # linked, but nobody looks for it
}
_CODE = re.compile(r"^```.*?^```$|^    [^\n]*$|`[^`]+`", re.M | re.S)
_LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s#]+)(#[^)]*)?\)")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Every model's card stands in the menu, below the page of all models."""
    cards = sorted(path.name for path in (Path(config.docs_dir) / "models").glob("*-x?.md"))
    _section(config.nav, "Models").extend({card.removesuffix(".md"): f"models/{card}"} for card in cards)
    return config


def _section(nav: list, title: str) -> list:
    """The list under `title`, wherever it lies."""
    for item in nav:
        for name, below in item.items() if isinstance(item, dict) else ():
            if not isinstance(below, list):
                continue
            if name == title:
                return below
            if found := _section(below, title):
                return found
    return []


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages from outside."""
    for place, path in OUTSIDE.items():
        files.append(File.generated(config, place, abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn the links that leave docs/ or come from outside it."""
    place, docs = page.file.src_uri, Path(config.docs_dir)
    page.meta.update(_META.get(place, {}))
    home = OUTSIDE.get(place, docs / place)
    code = [found.span() for found in _CODE.finditer(markdown)]

    def turn(link: re.Match[str]) -> str:
        picture, text, target, anchor = link.groups(default="")
        if re.match(r"[a-z]+:", target) or any(start <= link.start() < end for start, end in code):
            return link[0]
        goal = Path(os.path.normpath(home.parent / target))
        there = _place_of(goal, docs)
        if there is not None and files.get_file_from_path(there) is not None:
            return f"{picture}[{text}]({os.path.relpath(there, Path(place).parent)}{anchor})"
        if goal.exists() and not goal.is_relative_to(docs) and not picture:
            return text
        return link[0]  # broken: MkDocs says so

    return _LINK.sub(turn, markdown)


def _place_of(path: Path, docs: Path) -> str | None:
    """Where a file of the repository lies on the site."""
    if path.is_relative_to(docs):
        return path.relative_to(docs).as_posix()
    return next((place for place, outside in OUTSIDE.items() if outside == path), None)
