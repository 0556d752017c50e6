"""What a table or figure is: what it trains, what it measures, and how its measurements are shown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from enlcn.checkpoint import load
from enlcn.models.backbone import SRNetwork
from enlcn.reproduce.material import Material
from enlcn.reproduce.preset import SCALE, Preset
from enlcn.reproduce.rows import RunSpec, config_of, key_of
from enlcn.reproduce.store import Json, Store
from enlcn.reproduce.tables import Table
from enlcn.zoo import DEFAULT_FAMILY, here, resolve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Context:
    """What measuring needs.

    Attributes:
        preset, steps: of the trained rows.
        material: pictures.
        store: where results lie.
        models: checkpoints given by the user; the bundled one where there are none.
        budget: seconds for the whole command.
    """

    preset: Preset
    steps: int
    material: Material
    store: Store
    models: tuple[str, ...]
    budget: float

    @property
    def device(self) -> torch.device:
        """Where to compute."""
        return self.material.device

    def run(self, recipe: str, seed: int) -> Json | None:
        """A finished run."""
        return self.store.run(self.key(recipe, seed))

    def runs(self, recipe: str) -> list[Json]:
        """The finished runs of a recipe, by seed."""
        count = max(self.preset.seeds, self.preset.sweep_seeds, self.preset.grid_seeds)
        return [run for seed in range(count) if (run := self.run(recipe, seed)) is not None]

    def key(self, recipe: str, seed: int = 0) -> str:
        """The name of a run's files."""
        return key_of(config_of(RunSpec(recipe, seed), self.preset, self.steps))

    def trained(self, recipe: str) -> SRNetwork | None:
        """The network of a recipe's first seed, where its weights were kept."""
        path = self.store.weights(self.key(recipe))
        return load(path, device=self.device) if path.exists() else None

    def all_models(self, scale: int = SCALE) -> dict[str, str]:
        """Networks at hand by name: those that come with the package, of this scale, and those given."""
        ours = {name: name for name in here() if name.endswith(f"-x{scale}")}
        if not self.preset.all_models:
            ours = {name: name for name in ours if name.startswith(DEFAULT_FAMILY)}
        return ours | {Path(name).stem if Path(name).suffix else name: name for name in self.models}

    def main_model(self) -> tuple[str, SRNetwork]:
        """The network whose features are looked at: the first one given, else the bundled one."""
        name = self.models[0] if self.models else resolve(None, SCALE)
        return Path(name).name, load(name, device=self.device)


Draw = Callable[[], "Figure"]


@dataclass(frozen=True)
class Section:
    """A table or figure, ready to be shown.

    Attributes:
        text: paragraphs of fact, Markdown.
        tables: in order; the first is the main one.
        charts: name -> a function that draws it.
        pictures: names of files under pictures/.
    """

    text: list[str] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    charts: dict[str, Draw] = field(default_factory=dict)
    pictures: list[str] = field(default_factory=list)


def no_runs(preset: Preset) -> list[RunSpec]:
    """For what needs no training."""
    return []


@dataclass(frozen=True)
class Item:
    """A table or figure of the paper, or one beyond it.

    Attributes:
        title: a heading.
        place: where it is in the paper.
        needs: the runs it shows.
        measure: everything it shows, as JSON; pictures go to the store's folder.
        show: what was measured, as a section.
        is_quick: whether it only gathers what runs have found: done even when the time is up.
        needs_pictures: whether nothing of it can be had without pictures.
    """

    title: str
    place: str
    measure: Callable[[Context], Json]
    show: Callable[[Json], Section]
    needs: Callable[[Preset], Sequence[RunSpec]] = no_runs
    is_quick: bool = False
    needs_pictures: bool = True
