"""Which pictures are trained on and which are kept out of training, so that no row is scored on what it saw."""

from dataclasses import dataclass
from pathlib import Path

from enlcn.data.shards import ImageFile, find_images
from enlcn.data.testsets import KNOWN_SETS
from enlcn.errors import UserError

_EVERY = 4  # of pictures without any set apart, this one is kept out of training


@dataclass(frozen=True)
class Sources:
    """Where pictures lie.

    Attributes:
        data: a folder with train/ and test sets (benchmarks/ or the sets themselves), or plain images; None for what
            needs no pictures.
        testsets: further folders of test sets.
        cache: for decoded training images; None for the user's.
    """

    data: Path | None
    testsets: tuple[Path, ...] = ()
    cache: Path | None = None

    def __post_init__(self) -> None:
        for folder in (self.data, *self.testsets):
            if folder is not None and not folder.exists():
                raise UserError(f"{folder}: no such folder of pictures; give another with --data or --testset")

    @property
    def root(self) -> Path:
        """The folder of pictures."""
        if self.data is None:
            raise UserError("give the pictures with --data DIR, or name their folder in ENLCN_DATA")
        return self.data

    @property
    def training(self) -> Path:
        """Where pictures to train on are looked for."""
        return self.root / "train" if (self.root / "train").is_dir() else self.root


@dataclass(frozen=True)
class Split:
    """Training pictures and others.

    Attributes:
        training: what is trained on.
        others: what is not, or the training pictures again where there are no others.
        chosen: whether the others were chosen here, because the data set sets none apart.
        are_seen: whether the others are the training pictures.
    """

    training: list[ImageFile]
    others: list[ImageFile]
    chosen: bool = False
    are_seen: bool = False


def split(sources: Sources, *, has_testsets: bool) -> Split:
    """The pictures to train on, without those of test sets, and the pictures kept out of training.

    Where there are neither test sets nor a folder of validation pictures, every fourth picture is kept out, or the last
    of fewer than four; a single one must serve for both.
    """
    source = sources.training
    files = [file for file in find_images(source) if not _is_tested(file, source, sources.testsets)]
    if not files:
        raise UserError(
            f"{source}: holds no pictures to train on (those of test sets are never trained on); put some into "
            f"{sources.root / 'train'}"
        )
    apart = find_images(source, "held-out") if source.is_dir() else []
    if apart or has_testsets:
        return Split(files, apart)
    if len(files) == 1:
        return Split(files, files, are_seen=True)
    kept_out = files[_EVERY - 1 :: _EVERY] or files[-1:]
    names = {file.name for file in kept_out}
    return Split([file for file in files if file.name not in names], kept_out, chosen=True)


def _is_tested(file: ImageFile, source: Path, testsets: tuple[Path, ...]) -> bool:
    """Whether a picture lies in a test set, and so is not to be trained on."""
    folders = Path(file.name).parts[:-1]
    if "benchmarks" in folders or any(folder.lower() in KNOWN_SETS for folder in (source.name, *folders)):
        return True
    path = file.path.resolve()
    return any(path.is_relative_to(each.resolve()) for each in testsets)
