"""One half of the channels, spread by large depthwise kernels, multiplies the other: by kernels or by PyTorch.

Axes: B batch, J channels of each half, H rows, W columns, K side of the kernel.
"""

import torch
from torch import Tensor
from torch.nn.functional import conv2d

from enlcn.ops.kernel_support import kernels_run_on

BACKENDS = ("auto", "naive", "triton")
MAX_SIDE = 9  # what eight neighbouring outputs hear of a line must fit into 16 numbers
_DTYPES = (torch.float32, torch.bfloat16, torch.float16)


def gate(expanded: Tensor, offset: Tensor | None, weight: Tensor, bias: Tensor, *, backend: str = "auto") -> Tensor:
    """(said + offset) * (spread(heard) + bias), (said, heard) = expanded; spread: each channel convolved by itself.

    >>> import torch
    >>> gate(torch.rand(1, 16, 5, 6), torch.zeros(8), torch.rand(8, 1, 7, 7), torch.zeros(8)).shape
    torch.Size([1, 8, 5, 6])

    Args:
        expanded: (B, 2J, H, W), what is said before what is heard. The kernels take it, and give the result, with each
            channel of all images in one piece, as the rows of a matrix product are; otherwise they copy it first.
        offset: (J,); None adds nothing.
        weight: (J, 1, K, K), K odd; there are zeros beyond the edges. The kernels round it to the type of `expanded`,
            and spread a value that is not finite to 16 columns.
        bias: (J,).
        backend: "auto", "naive" or "triton".

    Returns:
        (B, J, H, W) in the type of `expanded`.
    """
    if backend not in BACKENDS:
        raise ValueError(f"unknown backend {backend!r}; choose from {', '.join(BACKENDS)}")
    _check_shapes(expanded, offset, weight, bias)
    takes_kernels = backend != "naive" and can_run(expanded, weight)
    if backend == "triton" and not takes_kernels:
        what = f"{tuple(expanded.shape)} in {expanded.dtype} on {expanded.device.type}, K = {weight.shape[-1]}"
        raise ValueError(f"the kernels take float32 and 16 bits, K up to {MAX_SIDE}, on NVIDIA GPUs; not {what}")
    if takes_kernels:
        from enlcn.ops.gate.operators import gate_operator

        offset = torch.zeros_like(bias) if offset is None else offset
        learns = any(tensor.requires_grad for tensor in (expanded, offset, weight, bias))
        out: Tensor = gate_operator(expanded, offset, weight, bias, learns and torch.is_grad_enabled())[0]
        return out
    return naive(expanded, offset, weight, bias)


def naive(expanded: Tensor, offset: Tensor | None, weight: Tensor, bias: Tensor) -> Tensor:
    """As `gate`, by PyTorch's convolution."""
    said, heard = expanded.chunk(2, dim=1)
    if offset is not None:
        said = said + offset.to(said.dtype).view(1, -1, 1, 1)
    return said * conv2d(heard, weight, bias, padding=weight.shape[-1] // 2, groups=heard.shape[1])


def can_run(expanded: Tensor, weight: Tensor) -> bool:
    """Whether the kernels take this input: on a CUDA device, or in Triton's interpreter."""
    if expanded.dtype not in _DTYPES or expanded.numel() == 0 or weight.shape[-1] > MAX_SIDE:
        return False
    return kernels_run_on(expanded.device)


def _check_shapes(expanded: Tensor, offset: Tensor | None, weight: Tensor, bias: Tensor) -> None:
    """A ValueError where sizes do not belong together: kernels would read beyond the ends."""
    channels, side = weight.shape[0], weight.shape[-1]
    right = expanded.ndim == 4 and expanded.shape[1] == 2 * channels
    right = right and weight.shape == (channels, 1, side, side) and side % 2 == 1
    if not (right and bias.shape == (channels,) and (offset is None or offset.shape == (channels,))):
        shapes = ", ".join("None" if each is None else str(tuple(each.shape)) for each in (offset, weight, bias))
        raise ValueError(
            "expanded, offset, weight and bias must be (B, 2J, H, W), (J,), (J, 1, K, K) with K odd, and (J,); "
            f"got {tuple(expanded.shape)}, {shapes}"
        )


__all__ = ["BACKENDS", "MAX_SIDE", "can_run", "gate", "naive"]
