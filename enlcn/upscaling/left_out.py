"""What input folders hold that is not upscaled though people would expect it: told, so that nothing is missed."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

# Pictures and videos that are not read; all else in a folder, such as notes, goes without a word.
OTHER_SUFFIXES = (
    *(".gif", ".heic", ".heif", ".jxl", ".jp2", ".j2k", ".ppm", ".pgm", ".pbm", ".pnm", ".tga"),
    *(".psd", ".xcf", ".svg", ".exr", ".hdr", ".raw", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".orf", ".rw2", ".raf"),
    *(".pef", ".srw", ".m2v", ".asf", ".rm", ".rmvb", ".divx", ".y4m", ".h264", ".h265"),
)


@dataclass
class LeftOut:
    """Gathered while folders are walked.

    Attributes:
        unreadable: folders that cannot be read.
        broken: links to nothing that are called like pictures or videos.
        others: files of other kinds.
        linked: links to folders, which are not followed.
    """

    unreadable: list[str] = field(default_factory=list)
    broken: list[Path] = field(default_factory=list)
    others: list[Path] = field(default_factory=list)
    linked: list[Path] = field(default_factory=list)

    def add_others(self, files: Iterable[Path]) -> None:
        """Count those that look like pictures or videos, each once however often it is found."""
        new = (file for file in files if file.suffix.lower() in OTHER_SUFFIXES)
        self.others = list(dict.fromkeys([*self.others, *new]))

    def add_link(self, link: Path) -> None:
        """Count a link to a folder, once however often it is found."""
        if link not in self.linked:
            self.linked.append(link)

    def told_others(self) -> str:
        """How many files of which other kinds, and links to folders; "" where there are none.

        >>> LeftOut(others=[Path("a.GIF"), Path("b.cr2")], linked=[Path("a/link")]).told_others()
        '2 files of other kinds (.cr2, .gif), 1 linked folder (a/link)'
        """
        told = []
        if self.others:
            kinds = ", ".join(sorted({file.suffix.lower() for file in self.others}))
            told.append(f"{len(self.others)} file{'s' * (len(self.others) > 1)} of other kinds ({kinds})")
        if self.linked:
            told.append(_counted("linked folder", self.linked))
        return ", ".join(told)

    def told_unread(self) -> str:
        """What should have been read and could not be; "" where there is nothing.

        >>> LeftOut(unreadable=["a/b"], broken=[Path("a/c.png")]).told_unread()
        'a/b, 1 broken link (a/c.png)'
        """
        told = list(self.unreadable)
        if self.broken:
            told.append(_counted("broken link", self.broken))
        return ", ".join(told)

    def told(self) -> str:
        """All of it."""
        return ", ".join(filter(None, (self.told_others(), self.told_unread())))


def _counted(what: str, paths: list[Path]) -> str:
    """How many there are, and which is the first."""
    return f"{len(paths)} {what}{'s' * (len(paths) > 1)} ({paths[0]}{', …' * (len(paths) > 1)})"
