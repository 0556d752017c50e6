"""The pictures of a reproduction: what is trained on, tested on and looked at, each read once per process."""

from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from enlcn.data.patches import fits_on
from enlcn.data.shards import PackedImages, default_cache, load_packed
from enlcn.data.testsets import KNOWN_SETS, BenchmarkSet, ImagePair, find_testsets, load_pair
from enlcn.errors import UserError
from enlcn.reproduce.preset import SCALE, Preset
from enlcn.reproduce.split import Sources, Split, split
from enlcn.train.validation import HeldOutImage, load_held_out, spread

PAPER_SETS = ("Set5", "Set14", "B100", "Urban100", "Manga109")
HELD_OUT = "held-out"
SEEN = "training pictures"  # instead of held-out ones, where there is but one picture
BUILDINGS = "buildings"  # those of them with repeated structure: what Urban100 is about
# Names of held-out photographs of buildings with repeated structure, where the data set marks them.
_REPEATED = ("facade", "ddh", "urban", "img_")
Progress = Callable[[int, int], None]


class Material:
    """Pictures by need.

    Args:
        sources: where they lie.
        preset: how many of them, and of which size.
        device: where training images go.
        progress: called with (done, total) while training images are decoded.
    """

    def __init__(self, sources: Sources, preset: Preset, device: torch.device, progress: Progress | None = None):
        self.sources, self.preset, self.device = sources, preset, device
        self._progress = progress

    @cached_property
    def split(self) -> Split:
        """Which pictures are trained on and which are not."""
        return split(self.sources, has_testsets=bool(self._named_sets(SCALE)))

    @cached_property
    def training_images(self) -> PackedImages:
        """The decoded training set on the device, where it fits."""
        files = spread(self.split.training, self.preset.train_images)
        cache = self.sources.cache or default_cache()
        images = load_packed(files, SCALE, cache, progress=self._progress)
        if fits_on(images, self.device):
            images = replace(images, lr=images.lr.to(self.device), hr=images.hr.to(self.device))
        return images

    def testsets(self, scale: int = SCALE) -> dict[str, BenchmarkSet]:
        """Every test set at hand by name, the paper's first; without any, the pictures that are not trained on."""
        found = self._named_sets(scale)
        if not found:
            files = [file.path for file in self.split.others if file.path.suffix != ".tar"]
            if not files:
                raise UserError(f"{self.sources.root}: holds no test sets; put some beside it, or give --testset")
            pairs = tuple(ImagePair(path.stem, path, None) for path in files)
            return {self._others_name: BenchmarkSet(self._others_name, scale, self.sources.training, pairs)}
        order = [name for name in PAPER_SETS if name in found]
        return {name: found[name] for name in [*order, *(name for name in found if name not in order)]}

    @cached_property
    def scored_sets(self) -> dict[str, list[HeldOutImage]]:
        """What trained rows are scored on: test sets (or their centres, as the preset says), held-out photographs."""
        wanted = self.preset.testsets
        known = self._named_sets(SCALE) and self.testsets()
        chosen = {name: each for name, each in known.items() if wanted is None or name in wanted} or known
        sets = {
            name: [_cropped(image, self.preset.test_crop) for image in self._pairs(s)] for name, s in chosen.items()
        }
        others = self.split.others
        if others:
            images = load_held_out(others, SCALE, limit=self.preset.test_images, crop=self.preset.test_crop or 128)
            sets[self._others_name] = images
            buildings = [image for image in images if _is_repeated(image.name)]
            if 0 < len(buildings) < len(images):
                sets[BUILDINGS] = buildings
        return sets

    @cached_property
    def photos(self) -> list[HeldOutImage]:
        """Photographs to look at, those with repeated structure first: held-out ones, else those of a test set."""
        return self.large_photos(self.preset.photos, self.preset.photo_side)

    def large_photos(self, count: int, side: int) -> list[HeldOutImage]:
        """As `photos`, in another number and size."""
        files = self.split.others
        repeated = [file for file in files if _is_repeated(file.name)]
        if files:
            return load_held_out(spread(repeated or files, count), SCALE, crop=side)
        first = next(iter(self.testsets().values()))
        return [_cropped(image, side) for image in self._pairs(first, limit=count)]

    def facts(self) -> dict[str, Any]:
        """What a label says of the pictures, fit for JSON."""
        names = self._named_sets(SCALE)
        whole = {name: len(names[name].pairs) for name in self.scored_sets if name in names}
        return {
            "training_images": len(self.training_images.names),
            "training_images_found": len(self.split.training),
            "training_megapixels": round(self.training_images.hr.shape[0] / 1e6, 1),
            "kept_out": len(self.split.others) if self.split.chosen else None,
            "scored": {name: len(images) for name, images in self.scored_sets.items()},
            "scored_of": whole,
            "test_crop": self.preset.test_crop,
            "absent": [name for name in PAPER_SETS if name not in names],
            "photos": [image.name for image in self.photos],
        }

    @property
    def _others_name(self) -> str:
        return SEEN if self.split.are_seen else HELD_OUT

    def _named_sets(self, scale: int) -> dict[str, BenchmarkSet]:
        """Known test sets in the data, and those given."""
        found: dict[str, BenchmarkSet] = {}
        sets = [each for folder in ("benchmarks", ".") for each in _sets_in(self.sources.root / folder, scale)]
        for each in [*sets, *(each for folder in self.sources.testsets for each in find_testsets(folder, scale))]:
            found.setdefault(each.name, each)
        return found

    def _pairs(self, testset: BenchmarkSet, limit: int | None = None) -> list[HeldOutImage]:
        limit = limit or self.preset.test_images
        pairs = spread(list(testset.pairs), limit)
        return [HeldOutImage(pair.name, *load_pair(pair, SCALE)) for pair in pairs]


def _is_repeated(name: str) -> bool:
    return Path(name).name.lower().startswith(_REPEATED)


def _cropped(image: HeldOutImage, side: int | None) -> HeldOutImage:
    """The centre of an LR image, of this side, and of its HR image."""
    if side is None:
        return image
    top, left = (max(0, length - side) // 2 for length in image.lr.shape[-2:])
    hr_side = SCALE * side
    lr = image.lr[..., top : top + side, left : left + side]
    hr = image.hr[..., SCALE * top : SCALE * top + hr_side, SCALE * left : SCALE * left + hr_side]
    return HeldOutImage(image.name, lr, hr)


def _sets_in(folder: Path, scale: int) -> list[BenchmarkSet]:
    """The known sets that lie in a folder, or are it."""
    if not folder.is_dir():
        return []
    known = [each for each in (folder, *sorted(folder.iterdir())) if each.is_dir() and each.name.lower() in KNOWN_SETS]
    return [each for child in known for each in find_testsets(child, scale)]
