"""Networks that export in seconds, each with attention, and one without for what needs none."""

from dataclasses import replace

import pytest
import torch

from enlcn import recipes
from enlcn.models.backbone import SRNetwork

ATTENTIVE = replace(recipes.TINY, scale=2, num_blocks=1, attention_after=(0, 1))
PLAIN = replace(recipes.NETWORKS["edsr-small"], scale=3, channels=8, num_blocks=1)


def make(config):
    torch.manual_seed(0)
    return SRNetwork(config).eval()


@pytest.fixture(scope="session")
def attentive():
    return make(ATTENTIVE)


@pytest.fixture(scope="session")
def plain():
    return make(PLAIN)
