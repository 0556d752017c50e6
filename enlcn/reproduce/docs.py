"""docs/reproduction.md from saved results: every number by this program, the judgement of them by hand.

What stands between the two marks is kept when the file is written again.
"""

import shutil
from dataclasses import replace
from pathlib import Path

from enlcn.errors import UserError
from enlcn.files import atomic_write, check_writable, make_folder
from enlcn.reproduce.items import ITEMS
from enlcn.reproduce.label import command_of, describe_plan, describe_result
from enlcn.reproduce.report import to_markdown, write_all
from enlcn.reproduce.store import Store

TITLE = "# Reproducing the paper"
LEFT_OUT = "Its picture is left out here: it shows photographs of the data."
BEGIN, END = "<!-- judgement: begin -->", "<!-- judgement: end -->"


def write_docs(store: Store, path: Path, *, with_photographs: bool = True) -> list[Path]:
    """Write `path` and the pictures it shows, into a folder beside it named like it.

    Args:
        store: saved results.
        path: a Markdown file; what was written by hand between its marks is kept.
        with_photographs: show pictures made of the data, which their licence may forbid, besides charts.
    """
    check_docs(path)
    write_all(store)
    folder = path.parent / path.stem
    judgement = kept_judgement(path)
    plan = store.plan()
    parts = [TITLE, INTRODUCTION]
    if plan is not None:
        parts.append(f"The figures below were made by\n\n    {command_of(plan)}\n\n{describe_plan(plan)}")
    parts.append(f"{BEGIN}\n\n{judgement}\n\n{END}" if judgement else f"{BEGIN}\n\n{END}")
    written = [path]
    results = dict(store.results())
    for name, item in ITEMS.items():
        if name not in results:
            continue
        section = item.show(results[name]["data"])
        if section.pictures and not with_photographs:
            for picture in section.pictures:  # of an earlier page
                (folder / picture).unlink(missing_ok=True)
            section = replace(section, pictures=[], text=[*section.text, LEFT_OUT])
        parts.append(
            f"## {item.title}\n\n{item.place}, `enlcn reproduce {name}`. {describe_result(results[name]['about'])}"
        )
        parts.append(to_markdown(section, path.stem))
        for picture in [*(f"{chart}.png" for chart in section.charts), *section.pictures]:
            source = store.pictures / picture
            if source.is_file():
                make_folder(folder)
                written.append(Path(shutil.copyfile(source, folder / picture)))
    parts.append(FULL)
    with atomic_write(path, overwrite=True) as temporary:
        temporary.write_text("\n\n".join(parts) + "\n", encoding="utf-8")
    return written


def check_docs(path: Path) -> None:
    """An error if `path` was not written by `write_docs`, or cannot be written; to be asked before the work."""
    if path.is_dir() or (path.is_file() and BEGIN not in path.read_text(encoding="utf-8", errors="replace")):
        raise UserError(f"{path}: exists and was not written by `enlcn reproduce`; give another name to --docs")
    check_writable(path, overwrite=True)


def kept_judgement(path: Path) -> str:
    """What was written by hand between the marks of an earlier version."""
    if not path.is_file():
        return ""
    _, begin, rest = path.read_text(encoding="utf-8").partition(BEGIN)
    text, end, _ = rest.partition(END)
    return text.strip() if begin and end else ""


INTRODUCTION = """\
Every table and figure of the paper is a command: `enlcn reproduce NAME` makes one, `enlcn reproduce all` makes them all
and one HTML page. It trains the rows of a table, measures them, and puts them beside the paper's figures with their
spread over seeds, as Markdown, CSV, PNG and SVG. What time does not allow at full size is a miniature, and says so.

    enlcn reproduce runtime --out results/                            # needs no pictures; nor do efficiency's FLOPs
    enlcn reproduce ablation --data DATA/ --budget 1800 --out results/
    enlcn reproduce all --data DATA/ --budget 3600 --out results/     # the same command goes on after an interruption

DATA is a folder of yours: `train/` with images or tars (the paper: DIV2K), and test sets as
`benchmarks/{Set5,Set14,B100,Urban100,Manga109}/HR`, or beside `train/`; those that are absent are left out and named.
The package brings no data sets; they come from their authors. A folder of plain images will do, too: every fourth is
then kept out of training and scored; a single one is scored although trained on, and labelled “training pictures”.

`enlcn reproduce all --out RESULTS --render-only --docs docs/reproduction.md` writes this page from the JSON that a
reproduction saves: no figure in a table is typed by hand. `--no-photographs` leaves pictures made of the data out."""

FULL = """\
## The paper's protocol

    enlcn reproduce all --preset paper --data DATA --out results/paper   # weeks on one GPU; resumable at any moment

trains every row by the recipe of the same name in `enlcn train --list` (43.58 M parameters, 1,000 epochs): the
ablation's last row is `enlcn train ablation-components-enla-k-cl --data DIV2K/ --out RUN`, the whole network
`enlcn train paper-x4`. DATA holds `train/` (DIV2K's HR images) and the test sets; Urban100 and Manga109 are measured
where they are found there or given with `--testset`. A miniature takes each row's attention and loss into a smaller
network and trains all rows for the same number of steps, found by timing them against `--budget`; rows that several
tables share are trained once. `--time-limit` ends a call early; the same command goes on where it stopped."""
