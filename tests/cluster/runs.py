"""What the tests on a real Ray share: pictures, a network that takes no time, the commands."""

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

from PIL import Image

from enlcn import recipes
from enlcn.checkpoint import save
from enlcn.models.backbone import SRNetwork

PHOTO = Path(__file__).parents[2] / "enlcn" / "assets" / "palace.png"
CONFIG = replace(
    recipes.with_attention(recipes.TINY, num_features=8), scale=2, channels=8, num_blocks=1, attention_after=(0,)
)
# One thread here and there: sums in another order may round another way.
ONE_THREAD = os.environ | {"OMP_NUM_THREADS": "1"}


def command(*arguments):
    return [sys.executable, "-m", "enlcn", *map(str, arguments)]


def write_model(path):
    save(SRNetwork(CONFIG), path)
    return path


def write_pictures(folder, count):
    (folder / "sub").mkdir(parents=True)
    with Image.open(PHOTO) as photo:
        for index in range(count):
            crop = photo.crop((index, index // 2, index + 200, index // 2 + 140))
            crop.save(folder / ("sub" if index % 3 == 0 else ".") / f"p{index:02d}.png", compress_level=1)
    return folder


def rows_so_far(out):
    """Rows of a run that goes on; files under way to their name begin with a dot."""
    parts = out.glob(".enlcn-cluster/[!.]*.jsonl")
    return [json.loads(line) for path in parts for line in path.read_text().splitlines()]


def manifest(out):
    """Rows of a run that ended."""
    return [json.loads(line) for line in (out / "manifest.jsonl").read_text().splitlines()]


def process_of(row):
    return int(row["worker"].rpartition(":")[2])
