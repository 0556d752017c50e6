"""The command line: every command parses, calls a verb, shows the result.

Command modules import torch inside their functions, so that `enlcn --help` stays instant.
"""

from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from enlcn import freed_memory
from enlcn.cli import (
    attention,
    checkpoint,
    cluster,
    console,
    evaluate,
    export,
    models,
    plot,
    reproduce,
    serve,
    threads,
    train,
    upscale,
)


class _Program(TyperGroup):
    """The program, which says of which command an option lacks its value: the parser does not."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command that the arguments name."""
        try:
            return super().invoke(ctx)
        except Exception as error:  # by its methods, as in `console.run_guarded`
            name = ctx.invoked_subcommand
            if hasattr(error, "format_message") and getattr(error, "ctx", ctx) is None and name in self.commands:
                error.ctx = typer.Context(self.commands[name], parent=ctx, info_name=name)  # type: ignore[attr-defined]
            raise


app = typer.Typer(
    cls=_Program,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Image super-resolution with global attention at linear cost.",
)
app.command("upscale")(upscale.upscale)
app.command("evaluate")(evaluate.evaluate)
app.command("train")(train.train)
app.command("plot")(plot.plot)
app.command("reproduce")(reproduce.reproduce)
app.command("attention")(attention.attention)
app.command("serve")(serve.serve)
app.command("convert")(checkpoint.convert)
app.command("info")(checkpoint.info)
app.add_typer(models.app, name="models")
app.add_typer(cluster.app, name="cluster")
app.command("export")(export.export)
app.command("export-weights")(train.export_weights)
app.command("join-weights")(train.join_weights)


def _print_version(wanted: bool) -> None:
    if wanted:
        from enlcn.version import __version__

        typer.echo(f"enlcn {__version__}")
        raise typer.Exit


@app.callback()
def _global_options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print errors only.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Print what happens in detail.")] = False,
) -> None:
    console.set_verbosity(-1 if quiet else 1 if verbose else 0)


def main() -> None:
    """Entry point of the `enlcn` program."""
    threads.let_threads_sleep()
    freed_memory.keep()
    console.run_guarded(lambda: app(standalone_mode=False))  # errors come to us, not to a box of several lines
