"""Every table and figure by name, in the report's order."""

from enlcn.reproduce import (
    ablation,
    amplification,
    correlation,
    crisscross,
    efficiency,
    estimators,
    n1n2,
    receptive,
    runtime,
    sparsity,
    table1,
    visual,
)
from enlcn.reproduce.section import Item

ITEMS: dict[str, Item] = {
    "table1": table1.ITEM,
    "ablation": ablation.ITEM,
    "n1n2": n1n2.ITEM,
    "amplification": amplification.ITEM,
    "efficiency": efficiency.ITEM,
    "runtime": runtime.ITEM,
    "crisscross": crisscross.ITEM,
    "correlation": correlation.ITEM,
    "sparsity": sparsity.ITEM,
    "visual": visual.ITEM,
    "estimators": estimators.ITEM,
    "receptive": receptive.ITEM,
}
# Where time is short, the first of these are trained and measured first.
PRIORITY = (
    "ablation",
    "crisscross",
    "amplification",
    "efficiency",
    "runtime",
    "estimators",
    "sparsity",
    "correlation",
    "receptive",
    "visual",
    "n1n2",
    "table1",
)
