"""An SRNetwork laid out for inference on a GPU: the same function, with fewer passes over memory and fewer launches.

Residual scaling lives in the weights; bias, ReLU, residual and pixel shuffle are one pass after each convolution;
EDSR's last three layers are one; tensors are channels_last in 16 bits; small images replay a CUDA graph of their shape.
On a CPU everything but the graphs holds too, so that the folding can be checked against the plain network.

Axes: B batch, C channels, H rows, W columns, s scale.
"""

import copy
import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, pad

from enlcn.models.attention import Attention
from enlcn.models.backbone import SRNetwork, Stage
from enlcn.models.blocks import ResidualBlock, StepwiseUpsampler
from enlcn.ops.epilogues import bias_relu_, bias_residual_, bias_shuffle, shuffled_channels
from enlcn.ops.kernel_support import is_nvidia
from enlcn.ops.shuffle_to_rgb import fold, unfold

# Tensor cores take channels in groups of eight; fewer are filled up with zeros.
_GROUP = 8
# Above this many pixels launches cost nothing beside the work, and a graph would hold gigabytes.
_GRAPH_PIXELS = 1 << 20
_MAX_GRAPHS = 4
# Up to so many pixels cuDNN times its algorithms before a graph is recorded; above, that takes minutes for nothing.
_TIMED_PIXELS = 1 << 18
_WARM_UPS = 3


class FastNetwork:
    """A snapshot of a network that computes lr -> sr as it does, faster. Later changes to the network do not show.

    >>> import torch
    >>> from enlcn import recipes
    >>> from enlcn.models.backbone import SRNetwork
    >>> FastNetwork(SRNetwork(recipes.TINY), dtype=torch.float32)(torch.rand(1, 3, 10, 12)).shape
    torch.Size([1, 3, 40, 48])

    Args:
        network: what to compute; it is copied, to its own device.
        dtype: what to compute in; pixels leave in float32 all the same.
        graphs: replay CUDA graphs for images of up to a million pixels.
        fused_relu: let cuDNN add bias and ReLU within its convolution instead of in a pass of our own.
    """

    def __init__(
        self,
        network: SRNetwork,
        dtype: torch.dtype = torch.bfloat16,
        *,
        graphs: bool = True,
        fused_relu: bool = True,
    ):
        self.dtype = dtype
        self.config = network.config
        self.device = network.rgb_mean.device
        self.fused_relu = fused_relu and is_nvidia(self.device)
        self._mean = network.rgb_mean.detach().to(torch.promote_types(dtype, torch.float32))
        self._head = self._folded(network.head, pad_inputs=True)
        self._stages = [self._folded_stage(stage) for stage in network.stages if isinstance(stage, Stage)]
        self._body_end = self._folded(network.body_end)
        self._steps, self._last = self._folded_upsampler(network.upsampler)
        self._graphs: OrderedDict[tuple[int, ...], _Captured] | None = None
        if graphs and self.device.type == "cuda":
            self._graphs = OrderedDict()
        self._lock = threading.Lock()

    @torch.no_grad()
    def __call__(self, lr: Tensor) -> Tensor:
        """lr (B, 3, H, W) in [0, 1] -> sr (B, 3, sH, sW), not clamped, in float32 (float64 for that dtype)."""
        if self._graphs is None or lr.shape[0] * lr.shape[2] * lr.shape[3] > _GRAPH_PIXELS:
            with torch.cuda.device_of(self._mean):  # Triton launches on the current device
                return self._compute(lr.to(self.device))
        with self._lock, torch.cuda.device_of(self._mean):  # a graph has one set of buffers
            return self._replay(lr)

    @torch.no_grad()
    def features(self, lr: Tensor) -> Tensor:
        """All but the upsampler, as `SRNetwork.features`. (B, 3, H, W) -> (B, C, H, W)."""
        with torch.cuda.device_of(self._mean):  # Triton launches on the current device
            return self._features(lr.to(self.device))

    @torch.no_grad()
    def reconstruct(self, features: Tensor) -> Tensor:
        """(B, C, H, W) -> sr (B, 3, sH, sW), not clamped, in float32 (float64 for that dtype)."""
        with torch.cuda.device_of(self._mean):
            return self._reconstruct(features)

    def _compute(self, lr: Tensor) -> Tensor:
        return self._reconstruct(self._features(lr))

    def _features(self, lr: Tensor) -> Tensor:
        centred = (lr.to(self._mean.dtype) - self._mean).to(self.dtype)
        centred = pad(centred, (0, 0, 0, 0, 0, _GROUP - centred.shape[1])).contiguous(memory_format=torch.channels_last)
        shallow = self._head.with_bias(centred)
        x = shallow
        for attention, blocks in self._stages:
            if attention is not None:
                x = attention(x)
            for block in blocks:
                x = block(x)
        return self._body_end.with_residual(x, shallow)

    def _reconstruct(self, x: Tensor) -> Tensor:
        for convolution, factor in self._steps:
            x = convolution.with_shuffle(x, factor)
        # In bfloat16 a pixel near 1 would be half a grey level off; around 0 it is finer.
        if self._last is None:
            return x.to(self._mean.dtype) + self._mean
        held = self._last.convolution.with_bias(x)[:, : self._last.num_held].to(self._mean.dtype)
        return unfold(held, self._last.factor) + (self._last.bias + self._mean)

    def _replay(self, lr: Tensor) -> Tensor:
        assert self._graphs is not None
        key = tuple(lr.shape)
        captured = self._graphs.pop(key, None)
        if captured is None:
            while len(self._graphs) >= _MAX_GRAPHS:
                self._graphs.popitem(last=False)
            captured = self._capture(lr)
        self._graphs[key] = captured  # the last used is the last to go
        stream = torch.cuda.current_stream(self.device)
        stream.wait_event(captured.free)  # a caller on another stream may still be reading
        captured.lr.copy_(lr)
        captured.graph.replay()
        sr = captured.sr.clone()
        captured.free.record(stream)
        return sr

    def _capture(self, lr: Tensor) -> "_Captured":
        static = torch.empty(lr.shape, dtype=self._mean.dtype, device=self.device).copy_(lr)
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = lr.shape[0] * lr.shape[2] * lr.shape[3] <= _TIMED_PIXELS
        try:
            stream = torch.cuda.Stream(self.device)
            stream.wait_stream(torch.cuda.current_stream(self.device))
            with torch.cuda.stream(stream):
                for _ in range(_WARM_UPS):
                    self._compute(static)
            torch.cuda.current_stream(self.device).wait_stream(stream)
            graph = torch.cuda.CUDAGraph()
            # thread_local: what other threads do on the GPU meanwhile is their business.
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                sr = self._compute(static)
        finally:
            torch.backends.cudnn.benchmark = before
        return _Captured(graph, static, sr, torch.cuda.Event())

    def _folded(
        self, convolution: nn.Module, *, scale: float = 1.0, pad_inputs: bool = False, shuffle: int = 1
    ) -> "_Convolution":
        weight, bias = (scale * values for values in _exact(convolution))
        if shuffle > 1:
            weight, bias = shuffled_channels(weight, shuffle), shuffled_channels(bias, shuffle)
        missing = _GROUP - weight.shape[1] if pad_inputs else 0
        return self._laid_out(pad(weight, (0, 0, 0, 0, 0, missing)), bias)

    def _laid_out(self, weight: Tensor, bias: Tensor) -> "_Convolution":
        weight = weight.to(self.dtype).contiguous(memory_format=torch.channels_last)
        return _Convolution(weight, bias.to(self.dtype))

    def _folded_stage(self, stage: Stage) -> "_Stage":
        blocks = [self._folded_block(block) for block in stage.blocks]
        if stage.attention is None:
            return None, blocks
        attention = copy.deepcopy(stage.attention).eval().requires_grad_(False).to(self.dtype)
        for name, buffer in stage.attention.named_buffers():  # random matrices keep their precision
            setattr(attention, name, buffer.detach().clone())
        return attention, blocks

    def _folded_block(self, block: nn.Module) -> Callable[[Tensor], Tensor]:
        if isinstance(block, ResidualBlock):
            first, second = self._folded(block.conv1), self._folded(block.conv2, scale=block.res_scale)
            return lambda x: second.with_residual(first.with_bias_relu(x, fused=self.fused_relu), x)
        copied = copy.deepcopy(block).eval().requires_grad_(False)
        return copied.to(self.dtype, memory_format=torch.channels_last)  # type: ignore[call-overload]

    def _folded_upsampler(self, upsampler: nn.Module) -> "tuple[list[tuple[_Convolution, int]], _LastStep | None]":
        """Convolutions with the factors of the shuffles after them, and the last step where that gives RGB."""
        layers = list(upsampler.children())
        last = None
        if isinstance(upsampler, StepwiseUpsampler):
            *layers, wide, shuffle, narrow = layers
            assert isinstance(shuffle, nn.PixelShuffle)
            narrow_weight, narrow_bias = _exact(narrow)
            weight, bias = fold(*_exact(wide), narrow_weight, shuffle.upscale_factor)
            num_held = len(bias)
            missing = -num_held % _GROUP
            held = self._laid_out(pad(weight, (0, 0, 0, 0, 0, 0, 0, missing)), pad(bias, (0, missing)))
            narrow_bias = narrow_bias.view(1, -1, 1, 1).to(self._mean.dtype)
            last = _LastStep(held, narrow_bias, shuffle.upscale_factor, num_held)
        steps = []
        for convolution, shuffle in zip(layers[::2], layers[1::2], strict=True):
            assert isinstance(shuffle, nn.PixelShuffle)
            steps.append((self._folded(convolution, shuffle=shuffle.upscale_factor), shuffle.upscale_factor))
        return steps, last


def _exact(convolution: nn.Module) -> tuple[Tensor, Tensor]:
    """Weight and bias in float64: what is folded is rounded once."""
    assert isinstance(convolution, nn.Conv2d)
    assert convolution.bias is not None
    return convolution.weight.detach().double(), convolution.bias.detach().double()


@dataclass(frozen=True)
class _Convolution:
    """A 3x3 convolution whose bias is left to what follows."""

    weight: Tensor
    bias: Tensor

    def with_bias(self, x: Tensor) -> Tensor:
        return conv2d(x, self.weight, self.bias, padding=1)

    def with_bias_relu(self, x: Tensor, *, fused: bool) -> Tensor:
        if fused:
            return torch.cudnn_convolution_relu(x, self.weight, self.bias, (1, 1), (1, 1), (1, 1), 1)
        return bias_relu_(conv2d(x, self.weight, padding=1), self.bias)

    def with_residual(self, x: Tensor, residual: Tensor) -> Tensor:
        return bias_residual_(conv2d(x, self.weight, padding=1), self.bias, residual)

    def with_shuffle(self, x: Tensor, factor: int) -> Tensor:
        return bias_shuffle(conv2d(x, self.weight, padding=1), self.bias, factor)


@dataclass(frozen=True)
class _LastStep:
    """EDSR's last three layers in one: what pixels hold for their neighbours, of which `num_held` are no padding."""

    convolution: _Convolution
    bias: Tensor
    factor: int
    num_held: int


@dataclass(frozen=True)
class _Captured:
    """A graph, the buffers it reads and writes, and when they are free again."""

    graph: torch.cuda.CUDAGraph
    lr: Tensor
    sr: Tensor
    free: torch.cuda.Event


_Stage = tuple[Attention | None, list[Callable[[Tensor], Tensor]]]
