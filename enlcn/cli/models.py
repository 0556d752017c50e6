"""`enlcn models`: which models there are, where they lie, whether they are intact; and fetching others."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from enlcn.cli import console
from enlcn.errors import UserError, did_you_mean

if TYPE_CHECKING:
    from enlcn.zoo.manifest import Scores, ShippedModel

_JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
_VerifyOption = Annotated[bool, typer.Option("--verify", help="Read what is here and compare its SHA-256.")]


class _NamesToo(TyperGroup):
    """`enlcn models NAME` is `enlcn models show NAME`."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] not in self.commands:
            args = ["show", *args]
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=_NamesToo,
    invoke_without_command=True,
    help="List the shipped models; `models NAME` shows one, `models pull` fetches one.",
    subcommand_metavar="[NAME | COMMAND [ARGS]...]",
)


@app.callback()
def models(
    context: typer.Context,
    json_output: _JsonOption = False,
    verify: _VerifyOption = False,
) -> None:
    """List the shipped models: scale, size, scores (PSNR on Y, dB), time on a CPU, and where they lie."""
    if context.invoked_subcommand is not None:
        for option, is_given in {"--verify": verify, "--json": json_output}.items():
            if is_given and context.invoked_subcommand != "show":
                raise UserError(f"{option} means nothing to `{context.invoked_subcommand}`; leave it out")
        context.obj = json_output, verify
        return
    from enlcn.zoo import known

    rows = list(known().values())
    checks = _verify(rows) if verify else {}
    if json_output:
        typer.echo(json.dumps([_facts(row) | checks.get(row.name, {}) for row in rows], indent=2, ensure_ascii=False))
    else:
        _print_list(rows)
        for name, check in checks.items():
            console.say(f"{name}: {check['verified']}")
    if any(not check["intact"] for check in checks.values()):
        raise typer.Exit(1)


@app.command("show")
def show(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A shipped model.")],
    json_output: _JsonOption = False,
    verify: _VerifyOption = False,
) -> None:
    """Show what is known of one model: size, training, scores with their command, digests."""
    row = _named(name)
    before = context.obj  # `models --json NAME` is as good as `models NAME --json`
    checks = _verify([row])[row.name] if verify or before[1] else {}
    if json_output or before[0]:
        typer.echo(json.dumps(_facts(row) | checks, indent=2, ensure_ascii=False))
    else:
        console.show_card(row.name, [*_card(row), *([("verified", checks["verified"])] if checks else [])])
    if not checks.get("intact", True):
        raise typer.Exit(1)


@app.command("pull")
def pull(
    source: Annotated[str, typer.Argument(help="A shipped model's name, or the address of a file or manifest.json.")],
    origin: Annotated[
        str | None,
        typer.Option("--from", metavar="FOLDER_OR_URL", help="Where a named model lies; default: weights/ or cache."),
    ] = None,
    refresh: Annotated[bool, typer.Option("--refresh", help="Download an address again.")] = False,
) -> None:
    """Bring a model into the cache, checked, so that it loads without a network from then on."""
    from enlcn.zoo.locate import is_remote, locate, obtain, pull_named
    from enlcn.zoo.progress import shown
    from enlcn.zoo.remote import from_url

    if refresh and not source.startswith(("http://", "https://")):
        raise UserError("--refresh belongs to an address on the web; all else is read as it is now")
    if is_remote(source):
        if origin is not None:
            raise UserError("--from belongs to a name; an address says itself where it lies")
        if refresh:
            with shown(None, source) as told:
                path = from_url(source, told, refresh=True)
        else:
            path = locate(source)
    else:
        row = _named(source)
        path = obtain(row) if origin is None else pull_named(row, origin)
    console.say(f"{source}: checked, in {path}")


def _named(name: str) -> "ShippedModel":
    from enlcn.zoo import known

    rows = known()
    if name not in rows:
        meant = did_you_mean(name, rows, most=1)
        raise UserError(f"no model is called '{name}'; {meant}there are {', '.join(rows) or 'none'}")
    return rows[name]


def _verify(rows: list["ShippedModel"]) -> dict[str, dict[str, Any]]:
    """What reading all files of each model found; those that are not here have nothing to check."""
    from enlcn.zoo.verify import Finding, check

    findings: dict[str, Finding] = {}
    with console.progress_bar() as bar:
        for row in bar.track(rows, description="reading"):
            findings[row.name] = check(row)
    return {name: {"intact": each.intact, "verified": each.message} for name, each in findings.items()}


def _facts(row: "ShippedModel") -> dict[str, Any]:
    from enlcn.zoo.manifest import to_plain
    from enlcn.zoo.registry import find

    place = find(row)
    where = {"where": place.kind if place else "not here", "path": str(place.path) if place else None}
    return to_plain(row) | where


def _print_list(rows: list["ShippedModel"]) -> None:
    from rich.table import Table

    from enlcn.cache_folder import cache_folder

    testsets = list(dict.fromkeys(name for row in rows for name in row.scores))
    table = Table(box=None, pad_edge=False)
    table.add_column("model", no_wrap=True)
    for heading in ("scale", "params", "size", *testsets, "CPU"):
        table.add_column(heading, justify="right")
    table.add_column("where")
    for row in rows:
        cells = [f"{row.scores[name][0]:.2f}" if name in row.scores else "–" for name in testsets]
        seconds = "–" if row.cpu_seconds is None else f"{row.cpu_seconds:.2f} s"
        facts = (f"x{row.scale}", f"{row.parameters / 1e6:.2f} M", f"{row.size / 2**20:.1f} MiB")
        table.add_row(row.name, *facts, *cells, seconds, _where(row))
    console.out.print(table)
    console.say("test sets: PSNR on Y in dB, of clean images; CPU: 128x128 upscaled on two threads, fp32")
    console.say(f"cache: {cache_folder()}")


def _where(row: "ShippedModel") -> str:
    from enlcn.zoo.registry import find

    place = find(row)
    if place is None:
        return "not here"
    return {"bundled": "bundled", "cache": "cache", "weights": "weights/"}[place.kind]


def _card(row: "ShippedModel") -> list[tuple[str, str]]:
    """What is said of one model, line by line; what is not known is left out."""
    from enlcn.zoo.registry import find

    place = find(row)
    parts = f" in {len(row.file.parts)} parts" if row.file.parts else ""
    lines = [
        ("description", row.description),
        ("network", row.network),
        ("scale", f"x{row.scale}"),
        ("parameters", f"{row.parameters:,}"),
        ("file", f"{row.file.whole.name}, {row.size / 2**20:.1f} MiB{parts}"),
        ("where", f"{_where(row)}: {_short(place.path)}" if place else "not here"),
        ("SHA-256", row.sha256),
        ("scores", _scores(row.scores)),
        ("bicubic", _scores(row.bicubic)),
        ("measured by", row.scores_command),
        ("measured on", row.scores_from),
        ("CPU time", "" if row.cpu_seconds is None else f"{row.cpu_seconds:.2f} s for 128x128, two threads, fp32"),
        ("recipe", row.recipe),
        ("steps", "" if row.steps is None else f"{row.steps:,}"),
        ("seed", "" if row.seed is None else str(row.seed)),
        ("trained on", row.hardware),
        ("licence", row.licence),
    ]
    return [(label, value) for label, value in lines if value]


def _scores(scores: "Scores") -> str:
    return ", ".join(f"{name} {psnr:.2f} / {ssim:.4f}" for name, (psnr, ssim) in scores.items())


def _short(path: Path) -> str:
    """Relative to the working folder where it lies below."""
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)
