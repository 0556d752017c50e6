"""Table 2: what ENLA, the amplification k and contrastive learning bring, one by one."""

from enlcn.reproduce import paper
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import ABLATION, RunSpec, specs
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.trained_rows import gain_bars, measure_rows, psnr_table

_PAPER: dict[str, float | None] = {**paper.ABLATION}


def needs(preset: Preset) -> list[RunSpec]:
    """Five rows."""
    return specs(list(ABLATION.values()), preset.seeds)


def measure(context: Context) -> Json:
    """PSNR of the finished runs."""
    return measure_rows(context, ABLATION)


def show(data: Json) -> Section:
    """Rows as the paper has them."""
    table = psnr_table(data, "", paper=_PAPER, paper_set="Set5", reference="base", first="network")
    return Section(
        text=[
            "“base” is the residual network without attention; ENLA has k = 1; k is 6 where it is named. "
            "The seed fixes initial weights, batches and random matrices, so that rows of one seed see the same crops."
        ],
        tables=[table],
        charts={
            "ablation": lambda: gain_bars(
                data, "What each part brings", paper=_PAPER, paper_set="Set5", reference="base"
            )
        },
    )


ITEM = Item("Ablation: ENLA, k, contrastive learning", "Table 2", measure, show, needs, is_quick=True)
