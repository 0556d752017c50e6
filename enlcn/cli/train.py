"""`enlcn train`, and what becomes of its result: `export-weights` and `join-weights`."""

import os
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from enlcn.cli import console
from enlcn.errors import UserError
from enlcn.files import refuse_absent

if TYPE_CHECKING:
    from enlcn.train.config import TrainConfig
    from enlcn.train.loop import Outcome

_DTYPES = ("fp32", "fp16", "bf16")
_NARROWEST = 30  # columns of explanations


def train(
    recipe: Annotated[str | None, typer.Argument(help="A named run; --list shows them all.")] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a setting, e.g. data.batch_size=32; repeatable."),
    ] = None,
    data: Annotated[
        Path | None,
        typer.Option(help="Images to train on: a folder (DIV2K's too), a tar, or a folder of tars."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="The run's folder; a run there is gone on with.")
    ] = None,
    budget: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Train as long as this; the schedule ends with it.")
    ] = None,
    steps: Annotated[int | None, typer.Option(help="Train so many steps; a budget then only cuts them off.")] = None,
    val: Annotated[
        Path | None, typer.Option(help="Images to validate on. Default: what is called val… below --data.")
    ] = None,
    init: Annotated[
        Path | None,
        typer.Option(
            help="Start from these weights: a model's name, a file, a run's folder, untrained:NAME. Of another scale: "
            "all but the upsampler. Of a narrower or shallower network: this one begins by computing what that does, "
            "where F is not drawn anew (--set cadence.redraw=0). For one without attention: all but that."
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1 …")] = "auto",
    seed: Annotated[int | None, typer.Option(help="Of weights, batches and random matrices.")] = None,
    cache: Annotated[Path | None, typer.Option(help="Where decoded images are kept. Default: ~/.cache/enlcn.")] = None,
    resume: Annotated[
        bool, typer.Option("--resume/--no-resume", help="Go on with a run found in --out, or refuse to.")
    ] = True,
    tensorboard: Annotated[
        bool | None,
        typer.Option("--tensorboard/--no-tensorboard", help="Write RUN/tensorboard. Default: where it is installed."),
    ] = None,
    list_recipes: Annotated[bool, typer.Option("--list", help="List the recipes and exit.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Print every setting of the run, explained, and exit.")] = False,
) -> None:
    """Train a network by a recipe: resumable at any moment, within a time budget, on one process or torchrun's many."""
    if int(os.environ.get("RANK", "0")) > 0:
        console.set_verbosity(-1)  # of torchrun's processes one speaks; what is wrong with another is told all the same
    if list_recipes:
        _print_recipes()
        return
    if recipe is None:
        raise UserError("which recipe? `enlcn train --list` shows them")
    from dataclasses import replace

    from enlcn.train.recipes import recipe as recipe_named
    from enlcn.train.settings import apply_settings

    config = apply_settings(recipe_named(recipe), settings or [])
    if steps is not None:
        # Both given: the steps are the plan, the budget is where it is cut off.
        config = replace(config, total_steps=steps, schedule=replace(config.schedule, clock="steps"))
    if seed is not None:
        config = replace(config, seed=seed)
    if show:
        _print_settings(config)
        return
    if data is None or out is None:
        raise UserError("give the images with --data and the run's folder with --out")

    if recipe.startswith("polish-") and init is None and not out.exists():
        console.log.warning("%s is a last stage, for trained weights: name them with --init", recipe)
    if config.schedule.warmup_steps >= config.total_steps:
        told = f"schedule.warmup_steps={config.schedule.warmup_steps}"
        console.log.warning("%s leaves nothing of %d steps but the warm-up; set it lower", told, config.total_steps)

    if not out.exists():  # a run that is finished needs no images
        refuse_absent(data, "folder or tar of training images")
        if val is not None:
            refuse_absent(val, "folder or tar of validation images; give another with --val")

    from enlcn.train.start import Job
    from enlcn.train.start import train as run_training

    job = Job(
        config=config,
        data=data,
        out=out,
        budget=budget,
        validation=val,
        init=init,
        device=device,
        cache=cache,
        resume=resume,
        tensorboard=tensorboard,
    )
    live = None if console.out.quiet else console.err
    outcome = _with_decoding_bar(lambda progress: run_training(job, console=live, progress=progress))
    if outcome.was_finished:
        best = f", best PSNR {outcome.best_psnr:.2f} dB" if outcome.best_psnr is not None else ""
        more = "--budget" if budget is not None and steps is None else "--steps or --budget"
        console.say(f"{out}: this run is finished ({outcome.step:,} steps{best}); a larger {more} goes on with it")
        return
    psnr = f", PSNR {outcome.psnr:.2f} dB (best {outcome.best_psnr:.2f})" if outcome.psnr is not None else ""
    if outcome.stopped_by is None and outcome.step <= config.schedule.warmup_steps < config.total_steps:
        told = f"schedule.warmup_steps={config.schedule.warmup_steps}"
        console.log.warning("all %d steps were warm-up (%s); set it lower or train longer", outcome.step, told)
    skipped = f", {outcome.skipped} of them skipped" if outcome.skipped else ""
    console.say(f"{outcome.step:,} steps{skipped} in {outcome.elapsed:.0f} s{psnr}")
    if outcome.stopped_by is not None:
        console.say(f"stopped; run the same command to go on from step {outcome.step}")
        raise typer.Exit(128 + outcome.stopped_by)
    console.say(f"written: {out / 'model.safetensors'}")


def export_weights(
    source: Annotated[Path, typer.Argument(help="A run's folder, or one of its checkpoints.")],
    target: Annotated[Path, typer.Argument(help="Where to write, ending in .safetensors.")],
    dtype: Annotated[str, typer.Option(help="Store weights as fp32, fp16 or bf16.")] = "fp16",
    best: Annotated[
        bool, typer.Option("--best", help="Of a folder, the checkpoint with the highest PSNR on held-out images.")
    ] = False,
    split: Annotated[
        float | None, typer.Option(metavar="MIB", help="Cut the file into parts of at most so many MiB, too.")
    ] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace existing files.")] = False,
) -> None:
    """Write the weights of a run alone, small; a folder gives its last checkpoint, or its best with --best."""
    if dtype not in _DTYPES:
        raise UserError(f"--dtype is '{dtype}'; choose from {', '.join(_DTYPES)}")
    import torch

    from enlcn.checkpoint import save
    from enlcn.file_parts import split_file
    from enlcn.files import check_writable
    from enlcn.train.snapshot import RunFolder
    from enlcn.train.warm_start import network_of

    check_writable(target, overwrite=overwrite)
    if source.is_dir():
        folder = RunFolder(source)
        if best and not folder.best.exists():
            raise UserError(f"{source}: has no best checkpoint: it was never validated; leave out --best")
        source = folder.best if best else folder.last
    elif best:
        raise UserError("--best chooses among the checkpoints of a run: give its folder")
    network = network_of(source)
    stored = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[dtype]
    save(network, target, dtype=stored, overwrite=overwrite)
    console.say(f"{target}: {target.stat().st_size / 2**20:.1f} MiB written")
    if split is not None:
        console.say(f"{split_file(target, split, overwrite=overwrite)}: lists its parts")


def join_weights(
    manifest: Annotated[Path, typer.Argument(help="The .parts.json that lies beside the parts.")],
    target: Annotated[Path | None, typer.Argument(help="Where to write. Default: the old name.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace an existing file.")] = False,
) -> None:
    """Put a split file together again, checking every part."""
    from enlcn.file_parts import join_parts

    console.say(f"{join_parts(manifest, target, overwrite=overwrite)}: joined and checked")


def _with_decoding_bar(run: Callable[[Callable[[int, int], None]], "Outcome"]) -> "Outcome":
    """`run` with a bar that is gone when the last image is decoded: a terminal shows one live line at a time."""
    bar = console.progress_bar()
    task = bar.add_task("decoding images", total=None)

    def show(done: int, total: int) -> None:
        bar.start()
        bar.update(task, completed=done, total=total)
        if done == total:
            bar.stop()

    try:
        return run(show)
    finally:
        bar.stop()


def _print_settings(config: "TrainConfig") -> None:
    """A line for each as --set takes it, its explanation after a #; a terminal shows long ones beneath each other."""
    from enlcn.train.explain import explanations
    from enlcn.train.settings import setting_names

    told = explanations(type(config))
    lines = {name: f"{name}={value}" for name, value in setting_names(config).items()}
    width = max(map(len, lines.values()))
    room = max(_NARROWEST, console.out.width - width - len("  # ")) if console.out.is_terminal else sys.maxsize
    for name, line in lines.items():
        for part in textwrap.wrap(told.get(name, ""), room) or [""]:
            typer.echo(f"{line:{width}}  {typer.style(f'# {part}', dim=True)}" if part else line)
            line = ""


def _print_recipes() -> None:
    from enlcn.train.recipes import RECIPES, describe

    width = max(map(len, RECIPES))
    for name, config in RECIPES.items():
        typer.echo(f"{name:{width}}  {describe(config)}")
