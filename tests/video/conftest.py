"""A network that takes no time, and videos run through it."""

from dataclasses import replace

import pytest

pytest.importorskip("av", reason="needs the video extra")

from enlcn import recipes
from enlcn.checkpoint import save
from enlcn.models.backbone import SRNetwork
from enlcn.upscaling.batch import Batch
from enlcn.upscaling.batch_options import BatchOptions
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.target import Target
from enlcn.video import EncodeOptions, VideoJob, VideoOptions, upscale_video

CONFIG = replace(
    recipes.with_attention(recipes.TINY, num_features=8), scale=2, channels=8, num_blocks=1, attention_after=(0,)
)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    import torch

    torch.manual_seed(7)
    path = tmp_path_factory.mktemp("model") / "mini-x2.safetensors"
    save(SRNetwork(CONFIG), path)
    return path


@pytest.fixture
def upscaled(model):
    """A function that upscales a video and gives its outcome."""

    def run(source, target, *, scale=2.0, encode=None, self_ensemble=False, precision="fp32", **options):
        engine = EngineOptions(device="cpu", precision=precision, self_ensemble=self_ensemble)
        batch = Batch(BatchOptions(Target(scale=scale), str(model), engine, overwrite=True))
        options.setdefault("segment", 20)
        how = VideoOptions(EncodeOptions(**({"preset": "ultrafast"} if encode is None else encode)), **options)
        return upscale_video(batch, VideoJob(source, target), how)

    return run
