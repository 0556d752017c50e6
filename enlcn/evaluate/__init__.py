"""Test sets -> a table: PSNR and SSIM of networks and of plain bicubic, image by image.

`run` is the loop, `upscalers` what it compares, `results` what it found, `report` and `crops` how that is shown.
"""

from enlcn.evaluate.results import ImageScore, Results, Score, Settings
from enlcn.evaluate.run import Evaluated, evaluate

__all__ = ["Evaluated", "ImageScore", "Results", "Score", "Settings", "evaluate"]
