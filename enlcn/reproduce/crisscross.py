"""The supplement's comparison: no attention, exact, criss-cross, hashed and ENLCA in one backbone."""

from enlcn.reproduce import paper
from enlcn.reproduce.preset import Preset
from enlcn.reproduce.rows import CRISSCROSS, RunSpec, specs
from enlcn.reproduce.section import Context, Item, Section
from enlcn.reproduce.store import Json
from enlcn.reproduce.trained_rows import gain_bars, measure_rows, psnr_table

_PAPER: dict[str, float | None] = {**paper.CRISSCROSS}


def needs(preset: Preset) -> list[RunSpec]:
    """Five attentions."""
    return specs(list(CRISSCROSS.values()), preset.seeds)


def measure(context: Context) -> Json:
    """PSNR of the finished runs."""
    return measure_rows(context, CRISSCROSS)


def show(data: Json) -> Section:
    """Rows as the paper has them."""
    table = psnr_table(data, "", paper=_PAPER, paper_set="Urban100", reference="baseline", first="attention")
    return Section(
        text=["Only the attention differs; ENLCA alone is trained with the contrastive loss, as in the paper."],
        tables=[table],
        charts={
            "crisscross": lambda: gain_bars(
                data, "Attentions in one backbone", paper=_PAPER, paper_set="Urban100", reference="baseline"
            )
        },
    )


ITEM = Item("Attentions in one backbone", "Table 6 (supplement D)", measure, show, needs, is_quick=True)
