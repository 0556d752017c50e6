"""Results as files for people: Markdown, CSV, PNG and SVG of each table and figure, and one HTML page of all."""

import base64
import html
import re
from pathlib import Path

from enlcn.errors import UserError
from enlcn.files import atomic_write
from enlcn.reproduce import charts
from enlcn.reproduce.items import ITEMS
from enlcn.reproduce.label import describe_plan, describe_result
from enlcn.reproduce.section import Section
from enlcn.reproduce.store import Json, Store

TITLE = "Efficient Non-Local Contrastive Attention, reproduced"
_MIME = {".png": "image/png", ".svg": "image/svg+xml"}
_CSS = """
:root { color-scheme: light dark; --line: #d0d0d0; --soft: #666; --back: #fff; --text: #1a1a1a; --shade: #f5f5f5 }
@media (prefers-color-scheme: dark) {
  :root { --line: #444; --soft: #aaa; --back: #16181c; --text: #e8e8e8; --shade: #22252b } }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 75rem; margin: 2rem auto; padding: 0 1.2rem;
       background: var(--back); color: var(--text) }
h1 { font-size: 1.7rem } h2 { margin-top: 3rem; border-bottom: 2px solid var(--line); padding-bottom: .25rem }
.place, .note { color: var(--soft); font-size: .9rem }
.plan { background: var(--shade); padding: .8rem 1rem; border-radius: .4rem }
.wide { overflow-x: auto }
table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem; font-variant-numeric: tabular-nums }
caption { text-align: left; font-weight: 600; padding-bottom: .3rem }
th, td { padding: .25rem .6rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap }
th { white-space: normal; vertical-align: bottom } th:first-child, td:first-child { text-align: left }
tr.break td { border-top: 2px solid var(--soft) }
img { max-width: 100%; background: #fff; border-radius: .3rem; margin: .8rem 0 }
nav a { margin-right: .9rem } code { background: var(--shade); padding: 0 .25em }
"""


def write_all(store: Store) -> list[Path]:
    """Every file for people that the results in `store` give; existing ones are replaced."""
    results = {name: values for name, values in store.results() if name in ITEMS}
    if not results:
        raise UserError(f"{store.path}: holds no results of `enlcn reproduce`")
    plan = store.plan()
    written: list[Path] = []
    parts: list[str] = []
    for name in ITEMS:
        if name not in results:
            continue
        section = ITEMS[name].show(results[name]["data"])
        images = _write_images(store, section)
        written += images
        written += _write_texts(store, name, section, results[name]["about"], plan)
        parts.append(_as_html(store, name, section, results[name]["about"]))
    page = store.path / "report.html"
    _write(page, _page(parts, [name for name in ITEMS if name in results], plan))
    return [page, *written]


def _write_images(store: Store, section: Section) -> list[Path]:
    written = []
    for name, draw in section.charts.items():
        with charts.style():
            figure = draw()
        for suffix in (".png", ".svg"):
            path = store.pictures / f"{name}{suffix}"
            with atomic_write(path, overwrite=True) as temporary, charts.style():
                figure.savefig(temporary, dpi=130, metadata={"Date": None} if suffix == ".svg" else None)
            figure.set_layout_engine("none")  # found while the first was drawn, which takes most of the time
            written.append(path)
    return written


def _write_texts(store: Store, name: str, section: Section, about: Json, plan: Json | None) -> list[Path]:
    text = [f"# {ITEMS[name].title}", "", f"{ITEMS[name].place}. {describe_result(about)}", ""]
    if plan is not None and about["runs_needed"]:
        text += [describe_plan(plan), ""]
    markdown = store.path / f"{name}.md"
    _write(markdown, "\n".join([*text, to_markdown(section, "pictures")]) + "\n")
    written = [markdown]
    for index, table in enumerate(section.tables, start=1):
        path = store.path / (f"{name}.csv" if index == 1 else f"{name}-{index}.csv")
        _write(path, table.to_csv())
        written.append(path)
    return written


def to_markdown(section: Section, pictures: str) -> str:
    """Text, pictures and tables of a section; `pictures` is the folder that links point to."""
    parts = list(section.text)
    parts += [f"![{name}]({pictures}/{name}.png)" for name in section.charts]
    parts += [f"![{Path(name).stem}]({pictures}/{name})" for name in section.pictures]
    parts += [table.to_markdown() for table in section.tables]
    return "\n\n".join(parts)


def _as_html(store: Store, name: str, section: Section, about: Json) -> str:
    item = ITEMS[name]
    parts = [f'<h2 id="{name}">{html.escape(item.title)}</h2>']
    parts.append(f'<p class="place">{html.escape(item.place)}. {html.escape(describe_result(about))}</p>')
    parts += [f"<p>{_inline(text)}</p>" for text in section.text]
    # Charts as vectors, all else as it is.
    files = [store.pictures / f"{chart}.svg" for chart in section.charts]
    files += [store.pictures / picture for picture in section.pictures]
    for path in files:
        if path.is_file():
            data = base64.b64encode(path.read_bytes()).decode()
            parts.append(f'<img alt="{html.escape(path.stem)}" src="data:{_MIME[path.suffix]};base64,{data}">')
    parts += [f'<div class="wide">{table.to_html()}</div>' for table in section.tables]
    return "\n".join(parts)


def _inline(text: str) -> str:
    """Markdown's `code` as HTML; the rest as it is."""
    return re.sub(r"`([^`]+)`", r"<code>\1</code>", html.escape(text))


def _page(parts: list[str], names: list[str], plan: Json | None) -> str:
    links = " ".join(f'<a href="#{name}">{name}</a>' for name in names)
    label = f'<p class="plan">{html.escape(describe_plan(plan))}</p>' if plan else ""
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{TITLE}</title>'
        f'<meta name="viewport" content="width=device-width"><style>{_CSS}</style></head><body><h1>{TITLE}</h1>'
        f"{label}<nav>{links}</nav>{''.join(parts)}</body></html>\n"
    )


def _write(path: Path, text: str) -> None:
    with atomic_write(path, overwrite=True) as temporary:
        temporary.write_text(text, encoding="utf-8")
