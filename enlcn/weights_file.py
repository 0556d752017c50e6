"""Tensors and what is said of them as the bytes of a safetensors file: the same bytes every time."""

import json
from collections.abc import Mapping

from safetensors.torch import save
from torch import Tensor

_LENGTH_BYTES = 8  # of the header's length, which comes first; the header ends at a multiple of it, too


def weights_bytes(tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """A whole file; the library's own writer puts metadata in an order that changes from call to call.

    >>> import torch
    >>> tensors = {"a": torch.zeros(2)}
    >>> weights_bytes(tensors, {"b": "1", "c": "2"}) == weights_bytes(tensors, {"c": "2", "b": "1"})
    True
    """
    plain = save(dict(tensors))
    length = int.from_bytes(plain[:_LENGTH_BYTES], "little")
    header = json.loads(plain[_LENGTH_BYTES : _LENGTH_BYTES + length])
    told = {"__metadata__": dict(sorted(metadata.items()))} | header
    text = json.dumps(told, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % _LENGTH_BYTES)
    return len(text).to_bytes(_LENGTH_BYTES, "little") + text + plain[_LENGTH_BYTES + length :]
