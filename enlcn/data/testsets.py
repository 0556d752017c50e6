"""Test sets: where their images lie, how many there must be, and the LR/HR pairs made of them.

A folder of HR images is enough; LR images are taken from the usual places beside them, or made by `imresize`.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from enlcn.data.image_formats import SUFFIXES
from enlcn.errors import UserError

if TYPE_CHECKING:
    from torch import Tensor

    from enlcn.data.resize import Border

# lower-case folder name -> (name in tables, number of images)
KNOWN_SETS = {
    "set5": ("Set5", 5),
    "set14": ("Set14", 14),
    "b100": ("B100", 100),
    "bsd100": ("B100", 100),
    "bsds100": ("B100", 100),
    "urban100": ("Urban100", 100),
    "manga109": ("Manga109", 109),
    "div2k_valid": ("DIV2K_valid", 100),
}
DATA_VARIABLE = "ENLCN_DATA"


@dataclass(frozen=True)
class ImagePair:
    """One test image; `lr` is None where the LR image is to be made of the HR image."""

    name: str
    hr: Path
    lr: Path | None


@dataclass(frozen=True)
class BenchmarkSet:
    """A test set at one scale, complete and in the order of its names."""

    name: str
    scale: int
    folder: Path
    pairs: tuple[ImagePair, ...]

    @property
    def has_lr_files(self) -> bool:
        """Whether the LR images are files, not made by `imresize`."""
        return all(pair.lr is not None for pair in self.pairs)


@dataclass(frozen=True)
class _Layout:
    """Where HR and LR images lie under a set's folder; `{s}` stands for the scale, `{name}` for the image."""

    hr_folder: str
    lr_folder: str | None
    hr_file: str = "{name}"
    lr_file: str = "{name}x{s}"


_LAYOUTS = (
    _Layout("HR", "LR_bicubic/X{s}"),
    _Layout("DIV2K_valid_HR", "DIV2K_valid_LR_bicubic/X{s}"),
    _Layout("GTmod12", "LRbicx{s}", lr_file="{name}"),
    _Layout("image_SRF_{s}", "image_SRF_{s}", "{name}_SRF_{s}_HR", "{name}_SRF_{s}_LR"),  # SelfExSR
    _Layout(".", ".", "{name}_SRF_{s}_HR", "{name}_SRF_{s}_LR"),
    _Layout(".", None),
)
_SELFEXSR_FILE = re.compile(r".+_SRF_\d+_\w+")


def find_testsets(source: str | os.PathLike[str], scale: int) -> list[BenchmarkSet]:
    """The test sets that `source` means: a set's folder, a folder of known sets, or the name of a known set.

    Names are looked up in the working folder and under the folder that ENLCN_DATA names.

    Raises:
        UserError: nothing is there, or a known set or its LR images are incomplete; says where it looked.
    """
    folder = Path(source)
    if not folder.is_dir():
        folder = _folder_of_known_set(os.fspath(source))
    if re.fullmatch(r"HR|DIV2K_valid_HR|GTmod12|image_SRF_\d", folder.name):
        folder = folder.parent
    found = _read_set(folder, scale)
    if found:
        return [found]
    order = list(KNOWN_SETS)
    known = [child for child in folder.iterdir() if child.name.lower() in KNOWN_SETS]
    nested = [_read_set(child, scale) for child in sorted(known, key=lambda child: order.index(child.name.lower()))]
    if not nested or None in nested:
        looked = ", ".join(dict.fromkeys(layout.hr_folder.format(s=scale) for layout in _LAYOUTS[:-2]))
        raise UserError(
            f"{folder}: no test images found; looked for {', '.join(SUFFIXES)} files there, in {looked}, "
            f"and in folders named {', '.join(sorted({name for name, _ in KNOWN_SETS.values()}))}"
        )
    return [each for each in nested if each]


def load_pair(pair: ImagePair, scale: int, border: "Border" = "mirror") -> tuple["Tensor", "Tensor"]:
    """LR (1, 3, h, w) and HR (1, 3, scale h, scale w) of a pair, uint8.

    HR is cropped at the bottom and right to a multiple of the scale; grey is repeated to RGB, alpha is dropped.
    """
    # Imported here: a test set that is not there is told without torch.
    from enlcn.data.image_io import load_image, to_tensor, to_uint8
    from enlcn.data.resize import imresize_torch

    hr = to_uint8(to_tensor(load_image(pair.hr).as_rgb()))
    height, width = (side - side % scale for side in hr.shape[-2:])
    if min(height, width) == 0:
        raise UserError(f"{pair.hr}: {hr.shape[-1]}x{hr.shape[-2]} pixels are too few for scale {scale}")
    hr = hr[..., :height, :width]
    if pair.lr is None:
        return imresize_torch(hr, 1 / scale, border=border), hr
    lr = to_uint8(to_tensor(load_image(pair.lr).as_rgb()))
    if lr.shape[-2:] != (height // scale, width // scale):
        raise UserError(
            f"{pair.lr}: {lr.shape[-1]}x{lr.shape[-2]} pixels, expected {width // scale}x{height // scale} "
            f"for scale {scale} of {pair.hr}"
        )
    return lr, hr


def _folder_of_known_set(name: str) -> Path:
    if name.lower() not in KNOWN_SETS:
        raise UserError(f"{name}: no such folder, nor the name of a known test set")
    roots = [Path(), Path("benchmarks")]
    if os.environ.get(DATA_VARIABLE):
        data = Path(os.environ[DATA_VARIABLE])
        roots += [data, data / "benchmarks"]
    wanted = KNOWN_SETS[name.lower()][0]
    for root in roots:
        for child in sorted(root.iterdir()) if root.is_dir() else ():
            if child.is_dir() and KNOWN_SETS.get(child.name.lower(), ("",))[0] == wanted:
                return child
    looked = ", ".join(str(root.resolve()) for root in roots)
    raise UserError(f"{name}: test set not found; looked in {looked}; give its folder or set {DATA_VARIABLE}")


def _read_set(folder: Path, scale: int) -> BenchmarkSet | None:
    """The set in this folder by the first layout that finds HR images; None if there are none."""
    for layout in _LAYOUTS:
        hr_files = _by_name(_images(folder, layout.hr_folder, layout.hr_file, scale))
        if hr_files:
            break
    else:
        return None
    if layout.lr_folder is None and any(_SELFEXSR_FILE.fullmatch(stem) for stem in hr_files):
        raise UserError(f"{folder}: no images of scale {scale}; looked for *_SRF_{scale}_HR files")
    name = "DIV2K_valid" if layout.hr_folder == "DIV2K_valid_HR" else folder.resolve().name
    name, count = KNOWN_SETS.get(name.lower(), (name, len(hr_files)))
    hr_folder = folder / layout.hr_folder.format(s=scale)
    if len(hr_files) != count:
        raise UserError(f"{hr_folder}: {name} must have {count} images, there are {len(hr_files)}")
    lr_files = _lr_files(folder, layout, scale, list(hr_files))
    pairs = tuple(ImagePair(stem, path, lr_files.get(stem)) for stem, path in sorted(hr_files.items()))
    return BenchmarkSet(name, scale, folder, pairs)


def _lr_files(folder: Path, layout: _Layout, scale: int, names: list[str]) -> dict[str, Path]:
    """The LR images of all names, or none at all."""
    if layout.lr_folder is None:
        return {}
    found = _by_name(_images(folder, layout.lr_folder, layout.lr_file, scale))
    missing = [name for name in names if name not in found]
    if found and missing:
        place = folder / layout.lr_folder.format(s=scale)
        raise UserError(f"{place}: {len(missing)} of {len(names)} LR images are missing, first that of {missing[0]}")
    return found


def _by_name(images: Iterator[tuple[str, Path]]) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name, path in images:
        if name in found:
            raise UserError(f"{path}: {found[name].name} has the same name but for its ending; rename one of them")
        found[name] = path
    return found


def _images(folder: Path, subfolder: str, pattern: str, scale: int) -> Iterator[tuple[str, Path]]:
    """Image files whose stem fits the pattern, each with the name the pattern gives it."""
    place = folder / subfolder.format(s=scale)
    named = re.compile(re.escape(pattern.format(name="\0", s=scale)).replace("\0", "(.+)"))
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        match = named.fullmatch(path.stem)
        if match and path.suffix.lower() in SUFFIXES and not path.name.startswith("."):
            yield match[1], path
