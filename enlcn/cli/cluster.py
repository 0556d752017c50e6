"""`enlcn cluster`: pictures over the workers of a Ray cluster."""

import json
from typing import Annotated, Any

import typer

from enlcn.cli import console, picture_options
from enlcn.errors import UserError

app = typer.Typer(no_args_is_help=True, help="Work on more than one machine, with Ray.")


@app.callback()
def _group() -> None:
    """Work on more than one machine, with Ray."""


@app.command("upscale")
def upscale(
    inputs: Annotated[list[str], typer.Argument(help="Folders, files or globs: paths, s3://…, gs://…, file://…")],
    out: Annotated[
        str, typer.Option("--out", "-o", help="Folder of the results: a path or a URL, seen by all workers.")
    ],
    address: Annotated[
        str | None,
        typer.Option(help="Of the cluster: ray://head:10001, host:6379 or auto. Default: a Ray on this machine."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that hold the network. Default: as many as there is room for.")
    ] = None,
    cpus_per_worker: Annotated[float, typer.Option(help="CPU cores of each worker.")] = 1.0,
    gpus_per_worker: Annotated[
        float | None, typer.Option(help="GPUs of each; 0.5 lets two share one. Default: 1 where there are GPUs.")
    ] = None,
    scale: Annotated[
        float | None, typer.Option("--scale", "-s", help="How much larger, up to 4. Default: the model's own.")
    ] = None,
    width: picture_options.Width = None,
    height: picture_options.Height = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model", "-m", help="A model's name, a file or an address; what is not bundled is sent to the workers."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto (the worker's GPU, or else the CPU), cpu or cuda.")] = "auto",
    precision: picture_options.Precision = "auto",
    self_ensemble: picture_options.SelfEnsemble = False,
    memory_limit: Annotated[
        str | None, typer.Option(help="Memory of each worker to stay under, such as 2G; larger pictures are streamed.")
    ] = None,
    format: picture_options.Format = None,
    quality: picture_options.Quality = None,
    lossless: picture_options.Lossless = False,
    background: picture_options.Background = None,
    suffix: Annotated[str, typer.Option(help="Put before the extension.")] = "",
    max_pixels: picture_options.MaxPixels = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Do everything again. Default: go on where the manifest ends.")
    ] = False,
    retries: Annotated[
        int, typer.Option(help="Try again so often: reading, writing, and pictures whose worker died.")
    ] = 3,
    chunk: Annotated[
        int | None, typer.Option(help="Pictures handed to a worker at a time. Default: 1 to 8, by their number.")
    ] = None,
    runtime_env: Annotated[
        str | None, typer.Option(help='Ray\'s runtime environment as JSON, such as {"pip": \\["enlcn\\[cluster]"]}.')
    ] = None,
    dry_run: picture_options.DryRun = False,
) -> None:
    """Upscale pictures on a cluster; every picture arrives once, and a manifest has a row for each.

    Run it again to go on: what the manifest says is done is skipped. A bad picture does not stop the others.
    Exit codes: 0 all done, 1 some failed (the manifest says why), 2 bad input, 130 interrupted.
    """
    from enlcn.cluster.plan import plan_cluster
    from enlcn.upscaling.jobs import check_format
    from enlcn.zoo import native_scale

    if scale is None and width is None and height is None:
        scale = float(native_scale(model))
    tasks = plan_cluster(inputs, out, format=check_format(format), suffix=suffix)
    if dry_run:
        for task in tasks:
            console.say(f"{task.source} -> {task.target}")
        return
    from enlcn.cluster.options import ClusterOptions
    from enlcn.cluster.run import run_cluster
    from enlcn.upscaling.background import parse_colour
    from enlcn.upscaling.engine_options import EngineOptions
    from enlcn.upscaling.target import Target

    options = ClusterOptions(
        target=Target(scale, width, height),
        model=model,
        engine=EngineOptions(device, precision, self_ensemble=self_ensemble, memory_limit=memory_limit),
        quality=quality,
        lossless=lossless,
        max_pixels=max_pixels,
        background=None if background is None else parse_colour(background),
        overwrite=overwrite,
        address=address,
        workers=workers,
        cpus_per_worker=cpus_per_worker,
        gpus_per_worker=gpus_per_worker,
        chunk=chunk,
        retries=retries,
        runtime_env=_parse_environment(runtime_env),
    )
    with console.progress_bar() as bar:
        bar_task = bar.add_task("pictures", total=None)

        def progress(row: Any, total: int) -> None:
            if row is None:
                bar.update(bar_task, total=total)
                return
            bar.advance(bar_task)
            if row.status == "failed":
                console.err.print(f"[bold red]failed:[/] {console.escape(row.error)}")

        try:
            summary = run_cluster(tasks, out, options, progress)
        except KeyboardInterrupt:
            console.err.print("interrupted: run it again to go on")
            raise typer.Exit(130) from None
    counts = {"done": summary.done, "skipped": summary.skipped, "failed": summary.failed}
    console.say(", ".join(f"{count} {name}" for name, count in counts.items() if count), to=console.err)
    console.say(f"manifest: {summary.manifest}", to=console.err)
    if summary.failed:
        raise typer.Exit(1)


def _parse_environment(text: str | None) -> dict[str, object] | None:
    if text is None:
        return None
    try:
        environment = json.loads(text)
    except ValueError as error:
        raise UserError(f"--runtime-env is no JSON ({error})") from None
    if not isinstance(environment, dict):
        raise UserError("--runtime-env must be a JSON object")
    return environment
