"""Devices that are not there."""

import pytest
import torch

from enlcn.device_names import usable_device
from enlcn.errors import UserError


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="needs a machine without it")
def test_a_kind_of_device_that_is_not_here_is_one_short_line():
    with pytest.raises(UserError) as refused:
        usable_device("mps")
    told = "there is no mps on this machine, or not in this build of PyTorch"
    assert str(refused.value) == f"device 'mps' cannot be used ({told}); cpu always can"
