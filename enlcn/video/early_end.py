"""Whether a video ends before it says so: by the number of its pictures where the file gives it, else by its length.

A rate times a length is no number of pictures: where pictures are shown for longer or shorter times, it is far off.
"""

from fractions import Fraction
from pathlib import Path

from enlcn.video.decoding import Clip
from enlcn.video.probe import VideoFacts
from enlcn.video.segments import read_header

_TELLING_SHARE = 0.95  # fewer of the pictures, or less of the length, is told


def early_end(facts: VideoFacts, clip: Clip, frames: int, seconds: Fraction) -> str:
    """A note where a file holds less than it tells of; "" where it does not, or tells of nothing.

    Args:
        facts: what the file tells.
        clip: the part that was wanted; of one with a start or an end, nothing is told.
        frames: how many pictures were there.
        seconds: from the beginning of the file to the end of the last.
    """
    if clip.start is not None or clip.end is not None:
        return ""
    if facts.is_counted:
        told = clip.count(facts)
        if told is not None and frames < _TELLING_SHARE * told - 1:
            return f"the file ends early: it holds {frames} of the {told} pictures it tells of"
    elif (
        facts.seconds is not None and clip.frames is None and seconds < _TELLING_SHARE * facts.seconds - 1 / facts.rate
    ):
        return f"the file ends early: after {float(seconds):.1f} of the {float(facts.seconds):.1f} seconds it tells of"
    return ""


def seconds_shown(segments: list[Path], time_base: Fraction) -> Fraction:
    """From time zero to the end of the last picture."""
    last = read_header(segments[-1])
    return (max(pts for pts, _, _ in last.packets) + last.last_duration) * time_base
