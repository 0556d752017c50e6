"""Video to video: every frame through the network, everything else of the file kept.

Frames are decoded, upscaled and encoded in segments, each of which is on disk complete or not at all: a run that was
killed goes on where it was. The segments and the untouched audio and subtitle packets then become one file.
"""

from typing import TYPE_CHECKING

from enlcn.on_first_use import on_first_use

if TYPE_CHECKING:
    from enlcn.video.encoding import EncodeOptions
    from enlcn.video.jobs import VIDEO_SUFFIXES, VideoJob, split_videos
    from enlcn.video.run import VideoOptions, upscale_video

__all__ = ["VIDEO_SUFFIXES", "EncodeOptions", "VideoJob", "VideoOptions", "split_videos", "upscale_video"]

# Which inputs are videos is asked of pictures, too, before torch is imported.
__getattr__, __dir__ = on_first_use(
    __name__,
    {
        "VIDEO_SUFFIXES": "enlcn.video.jobs",
        "EncodeOptions": "enlcn.video.encoding",
        "VideoJob": "enlcn.video.jobs",
        "VideoOptions": "enlcn.video.run",
        "split_videos": "enlcn.video.jobs",
        "upscale_video": "enlcn.video.run",
    },
)
