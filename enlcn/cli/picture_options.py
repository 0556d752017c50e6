"""What every command that upscales pictures takes: their size, how they are computed, how they are written."""

from typing import Annotated

import typer

Width = Annotated[int | None, typer.Option(help="Output width in pixels, instead of a scale.")]
Height = Annotated[int | None, typer.Option(help="Output height in pixels, instead of a scale.")]
Precision = Annotated[str, typer.Option(help="auto, fp32, bf16 or fp16.")]
SelfEnsemble = Annotated[
    bool, typer.Option("--self-ensemble", help="Average over 8 orientations: a little better, 8 times slower.")
]
Format = Annotated[
    str | None,
    typer.Option("--format", "-f", help="png, jpeg, webp, avif or tiff. Default: TIFF for .tif files, else PNG."),
]
Quality = Annotated[int | None, typer.Option("--quality", help="1 to 100, for lossy formats. Default: 95, of AVIF 90.")]
Lossless = Annotated[bool, typer.Option("--lossless", help="Lossless WebP or AVIF.")]
Background = Annotated[
    str | None,
    typer.Option(
        metavar="COLOUR",
        help="Put transparent pictures on white, black, grey or #rrggbb, as JPEG needs it. Default: alpha stays.",
    ),
]
MaxPixels = Annotated[
    int | None,
    typer.Option(help="Refuse inputs with more pixels. Default: 134,217,728 where a picture cannot be streamed."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
