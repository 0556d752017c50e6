"""One setting of the process, changed by threads that leave in any order."""

import threading
from contextlib import contextmanager

import pytest
import torch

from enlcn.shared_scope import SharedScope
from enlcn.upscaling.devices import autocast


def test_the_last_one_out_puts_it_back():
    events = []

    @contextmanager
    def setting():
        events.append("set")
        yield
        events.append("put back")

    scope = SharedScope(setting)
    first_is_in, second_is_in, first_is_out = (threading.Event() for _ in range(3))

    def first():
        with scope:
            first_is_in.set()
            second_is_in.wait(10)
        first_is_out.set()

    thread = threading.Thread(target=first)
    thread.start()
    first_is_in.wait(10)
    with scope:
        second_is_in.set()
        assert first_is_out.wait(10)
        assert events == ["set"]
    thread.join()
    assert events == ["set", "put back"]
    with pytest.raises(ZeroDivisionError), scope:
        raise ZeroDivisionError
    assert events == 2 * ["set", "put back"]


def test_float32_on_gpus_stays_float32_when_another_thread_is_done():
    before = torch.backends.cudnn.allow_tf32
    scopes = [autocast("fp32", torch.device("cuda")) for _ in range(2)]
    for scope in scopes:
        scope.__enter__()
    assert torch.backends.cudnn.allow_tf32 is False
    scopes[0].__exit__(None, None, None)
    assert torch.backends.cudnn.allow_tf32 is False
    scopes[1].__exit__(None, None, None)
    assert torch.backends.cudnn.allow_tf32 is before
