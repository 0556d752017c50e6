"""`enlcn upscale`: pictures in, larger pictures out."""

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from enlcn.cli import console
from enlcn.errors import UserError

_UNITS = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def upscale(
    inputs: Annotated[list[str], typer.Argument(help="Files, folders, globs, or - for standard input.")],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", help="A file, a folder, or - for standard output. Default: beside the input."),
    ] = None,
    scale: Annotated[
        float | None, typer.Option("--scale", "-s", help="How much larger, up to 4; 3.5 works too. Default: 4.")
    ] = None,
    width: Annotated[int | None, typer.Option(help="Output width in pixels, instead of a scale.")] = None,
    height: Annotated[int | None, typer.Option(help="Output height in pixels, instead of a scale.")] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="A model's name or a checkpoint. Default: the bundled one.")
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps …")] = "auto",
    precision: Annotated[str, typer.Option(help="auto, fp32, bf16 or fp16.")] = "auto",
    self_ensemble: Annotated[
        bool, typer.Option("--self-ensemble", help="Average over 8 orientations: a little better, 8 times slower.")
    ] = False,
    format: Annotated[
        str | None,
        typer.Option("--format", "-f", help="png, jpeg, webp, avif or tiff. Default: TIFF for TIFF, else PNG."),
    ] = None,
    quality: Annotated[int | None, typer.Option("--quality", help="1 to 100, for lossy formats.")] = None,
    lossless: Annotated[bool, typer.Option("--lossless", help="Lossless WebP or AVIF.")] = False,
    suffix: Annotated[
        str | None, typer.Option(help="Put before the extension. Default: _x4 beside the input, nothing elsewhere.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing outputs.")] = False,
    skip_existing: Annotated[
        bool, typer.Option("--skip-existing", help="Leave existing outputs: go on with an interrupted run.")
    ] = False,
    mode: Annotated[str, typer.Option(help="whole, streaming (exact, in bounded memory) or auto.")] = "auto",
    memory_limit: Annotated[
        str | None, typer.Option(help="Memory to stay under, such as 2G. Default: 60 % of what is free.")
    ] = None,
    tile: Annotated[
        int | None, typer.Option(help="Side of streamed tiles in input pixels; changes speed only.")
    ] = None,
    scratch: Annotated[
        Path | None, typer.Option(help="Folder for scratch files of very large pictures.", file_okay=False, exists=True)
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", help="Pictures at a time.")] = 1,
    max_pixels: Annotated[int | None, typer.Option(help="Refuse inputs with more pixels.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")] = False,
    report: Annotated[Path | None, typer.Option(help="Write what was done as JSON.")] = None,
) -> None:
    """Upscale pictures. Large ones are streamed: the result is the same whatever the tile size, without seams."""
    limit = _parse_bytes(memory_limit) if memory_limit else None
    if scale is None and width is None and height is None:
        scale = 4.0
    from enlcn.upscaling.jobs import STREAM, Naming, check_format, plan_jobs

    label = f"x{scale:g}" if scale is not None else f"{width or ''}x{height or ''}".strip("x")
    planned = plan_jobs(inputs, Naming(output, check_format(format), suffix, label))
    if report is not None:
        from enlcn.files import refuse_to_overwrite

        refuse_to_overwrite(report, overwrite)
    if dry_run:
        for job in planned:
            exists = job.target is not None and job.target.exists()
            note = " (exists: skipped)" if exists and skip_existing else " (exists)" if exists else ""
            console.out.print(f"{job.source or STREAM} -> {job.target or STREAM}{note}")
        return

    from enlcn.upscaling.batch import Batch, BatchOptions
    from enlcn.upscaling.engine import EngineOptions
    from enlcn.upscaling.picture import Target

    engine = EngineOptions(device, precision, mode, self_ensemble, limit, tile, scratch)
    options = BatchOptions(
        Target(scale, width, height),
        model,
        engine,
        quality,
        lossless,
        overwrite,
        skip_existing,
        jobs,
        max_pixels,
    )
    outcomes = _run(Batch(options), planned)
    if report is not None:
        _write_report(report, outcomes, overwrite)
    failed = [outcome for outcome in outcomes if outcome.status == "failed"]
    if failed and len(planned) == 1:
        raise UserError(failed[0].message)
    if len(planned) > 1:
        counts = {status: sum(o.status == status for o in outcomes) for status in ("done", "skipped", "failed")}
        console.err.print(", ".join(f"{count} {status}" for status, count in counts.items() if count))
    if failed:
        raise typer.Exit(1)


def _run(batch: Any, planned: list[Any]) -> list[Any]:
    outcomes = []
    with console.progress_bar() as bar:
        whole = bar.add_task("pictures", total=len(planned), visible=len(planned) > 1)

        def watch(job: Any) -> Any:
            task = bar.add_task(job.source.name if job.source else "standard input", total=None, start=False)

            def progress(done: int, total: int) -> None:
                bar.start_task(task)
                bar.update(task, completed=done, total=total, visible=done < total)

            return progress

        for outcome in batch.run(planned, watch):
            bar.advance(whole)
            outcomes.append(outcome)
            _say(outcome, alone=len(planned) == 1)
    return outcomes


def _say(outcome: Any, *, alone: bool) -> None:
    # Standard output may carry the picture.
    if outcome.status == "failed":
        if not alone:
            console.err.print(f"[bold red]failed:[/] {console.escape(outcome.message)}")
        return
    if console.out.quiet:
        return
    if outcome.status == "skipped":
        console.err.print(f"{outcome.target}: exists, skipped")
        return
    sizes = " -> ".join(f"{w}x{h}" for w, h in (outcome.lr_size, outcome.sr_size))
    how = f"{outcome.mode}, {outcome.precision}" + (f", {outcome.disk / 2**30:.1f} GiB scratch" if outcome.disk else "")
    console.err.print(f"{outcome.target}: {sizes} in {outcome.seconds:.1f} s ({how})")
    for note in outcome.notes:
        console.err.print(f"  note: {note}")


def _write_report(path: Path, outcomes: list[Any], overwrite: bool) -> None:
    import json

    from enlcn.files import atomic_write

    with atomic_write(path, overwrite=overwrite) as temporary:
        temporary.write_text(json.dumps([outcome.as_dict() for outcome in outcomes], indent=2))


def _parse_bytes(text: str) -> int:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if not match:
        raise UserError(f"--memory-limit is '{text}'; give it as 800M or 2G")
    return int(float(match[1]) * _UNITS[match[2]])
