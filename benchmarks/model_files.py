"""Where a shipped model's weights go: whole into the package, or into parts beside it, and never both."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from enlcn.file_parts import SplitFile, cut, describe
from enlcn.files import atomic_write
from enlcn.zoo import registry
from enlcn.zoo.manifest import ShippedModel


def store(file: Path, name: str, part_mib: float, folder: Path) -> tuple[SplitFile, Callable[[ShippedModel], None]]:
    """What will be stored, and what stores it once everything is measured.

    Args:
        file: the model's weights; parts are cut beside it.
        name: the model's.
        part_mib: larger files go into parts of this size.
        folder: for them.
    """
    if file.stat().st_size <= part_mib * 2**20:
        whole = SplitFile(replace(describe(file), name=f"{name}.safetensors"))

        def install(row: ShippedModel) -> None:
            with atomic_write(registry.PACKAGE_FOLDER / row.file.whole.name, overwrite=True) as temporary:
                shutil.copyfile(file, temporary)
            shutil.rmtree(folder, ignore_errors=True)  # of larger weights before

        return whole, install
    prepared = file.with_name("parts")
    split = cut(file, part_mib, prepared, lambda number: f"part-{number:02}")
    split = replace(split, whole=replace(split.whole, name=f"{name}.safetensors"))

    def install_parts(row: ShippedModel) -> None:
        for part in row.file.parts:
            with atomic_write(folder / part.name, overwrite=True) as temporary:
                shutil.copyfile(prepared / part.name, temporary)
        for path in set(folder.glob("part-*")) - {folder / part.name for part in row.file.parts}:
            path.unlink()  # of larger weights before
        (registry.PACKAGE_FOLDER / row.file.whole.name).unlink(missing_ok=True)  # of smaller ones

    return split, install_parts
