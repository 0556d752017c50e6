"""Where each attention of a network looks from one pixel, beside its rivals on the same features.

Axes: N = H W positions, D query/key width, M features.
"""

import base64
import hashlib
import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import normalize

from enlcn.attention_map import NUM_FEATURES, AttentionMap, hashing_of
from enlcn.data.image import Image
from enlcn.data.image_io import ImageError, to_tensor
from enlcn.errors import UserError
from enlcn.models.attention import ENLCA, Attention
from enlcn.models.backbone import SRNetwork
from enlcn.ops.attention_rows import criss_cross_row, exact_row, features_row, hashed_order, hashed_row
from enlcn.ops.projection import draw_projection
from enlcn.serve.catalogue import Model, describe
from enlcn.serve.decoding import decode
from enlcn.serve.jobs import Result, Watch
from enlcn.serve.problems import Problem, of_image
from enlcn.serve.storage import Blob
from enlcn.serve.toolbox import Toolbox
from enlcn.upscaling.memory import is_out_of_memory
from enlcn.upscaling.planes import MemoryPlane
from enlcn.upscaling.resizing import resize_plane

WEIGHINGS = ("features", "exact", "hashed", "criss-cross")


@dataclass(frozen=True)
class AttentionOptions:
    """What is asked about one picture.

    Attributes:
        model: whose weights.
        point: (x, y) in pixels of the picture.
        modules: which attentions, from 1; None for all.
        weighings: names from WEIGHINGS.
        amplification: k, in place of the network's.
        num_features: m, in place of the network's; another F is drawn then.
        seed: of another F.
    """

    model: Model
    point: tuple[int, int]
    modules: tuple[int, ...] | None
    weighings: tuple[str, ...]
    amplification: float | None
    num_features: int | None
    seed: int | None


@dataclass(frozen=True)
class Explored:
    """What is kept of a picture between clicks.

    Attributes:
        original, size: (height, width) of the picture, and at which it is looked at.
        pairs: queries and keys of every attention, (N, D) each, as the network has them.
        orders: positions sorted by hash, by module, as far as they have been needed.
    """

    original: tuple[int, int]
    size: tuple[int, int]
    pairs: list[tuple[Tensor, Tensor]]
    orders: dict[int, Tensor] = field(default_factory=dict)


@dataclass
class AttentionWork:
    """An upload and what is asked about it."""

    upload: Blob
    options: AttentionOptions
    max_pixels: int
    attention_pixels: int
    cost: float

    def __call__(self, toolbox: Toolbox, watch: Watch) -> Result:
        """The maps, as plain data."""
        try:
            return Result(facts=self._run(toolbox, watch))
        except ImageError as error:
            raise of_image(error) from None
        except UserError as error:
            raise Problem("invalid-parameters", str(error)) from None
        except Exception as error:
            if not is_out_of_memory(error):
                raise
            raise Problem("out-of-memory", "the picture's features do not fit in the server's memory") from None

    def _run(self, toolbox: Toolbox, watch: Watch) -> dict[str, Any]:
        options = self.options
        checkpoint = options.model.checkpoint(options.model.largest_scale)
        network = toolbox.engine(checkpoint, "fp32", False).network
        modules = _chosen(network, options.modules)
        data = self.upload.read()
        key = (hashlib.sha256(data).digest(), checkpoint)
        explored = toolbox.explored.get(key, lambda: self._explore(network, data, watch))
        assert isinstance(explored, Explored)
        x, y = _within(options.point, explored)
        drawn = []
        with torch.no_grad():
            for number in modules:
                watch.report(number / (len(modules) + 1), f"attention {number}")
                attention = network.attentions[number - 1]
                drawn.append(_module(number, attention, explored, y * explored.size[1] + x, options))
        facts = describe(checkpoint)
        return {
            "checkpoint": facts,
            "input": {"width": explored.original[1], "height": explored.original[0]},
            "size": {"width": explored.size[1], "height": explored.size[0]},
            "point": {"x": x, "y": y},
            "k": options.amplification or facts["attention"]["k"],
            "m": options.num_features or facts["attention"]["m"] or NUM_FEATURES,
            "modules": drawn,
        }

    def _explore(self, network: SRNetwork, data: bytes, watch: Watch) -> Explored:
        watch.report(0.0, "decoding")
        image = decode(data, self.max_pixels)
        shrunk = _fitted(image, self.attention_pixels)
        like = next(network.parameters())
        pairs = []
        with torch.no_grad():
            x = network.head(to_tensor(shrunk).to(like.device).expand(-1, 3, -1, -1) - network.rgb_mean)
            for stage in network.stages:
                watch.check()
                if isinstance(stage.attention, Attention):
                    q, k = stage.attention.queries_keys(x)
                    pairs.append((q[0].contiguous(), k[0].contiguous()))
                    if len(pairs) == len(network.attentions):
                        break  # nothing deeper is looked at
                x = stage(x)
        return Explored((image.height, image.width), (shrunk.height, shrunk.width), pairs)

    def discard(self) -> None:
        """The upload is needed no more."""
        self.upload.close()


def _chosen(network: SRNetwork, modules: tuple[int, ...] | None) -> list[int]:
    count = len(network.attentions)
    if not count:
        raise UserError("this network has no attention to show")
    for number in modules or ():
        if not 1 <= number <= count:
            raise UserError(f"no attention {number}: this network has {count}, counted from 1")
    return sorted(set(modules)) if modules else list(range(1, count + 1))


def _within(point: tuple[int, int], explored: Explored) -> tuple[int, int]:
    """The pixel of the shrunk picture that shows the point of the original."""
    (height, width), (x, y) = explored.original, point
    if not (0 <= x < width and 0 <= y < height):
        raise UserError(f"point {x},{y} lies outside the picture of {width}x{height} pixels")
    return int((x + 0.5) * explored.size[1] / width), int((y + 0.5) * explored.size[0] / height)


def _fitted(image: Image, max_pixels: int) -> Image:
    """The picture as 8-bit RGB or grey without alpha, shrunk to at most so many pixels."""
    factor = min(1.0, math.sqrt(max_pixels / (image.height * image.width)))
    height, width = max(1, int(image.height * factor)), max(1, int(image.width * factor))
    if (height, width) == (image.height, image.width):
        return Image(image.pixels)
    target = MemoryPlane(np.empty((height, width, image.pixels.shape[2]), np.uint8))
    resize_plane(MemoryPlane(image.pixels), target, np.dtype(np.uint8))
    return Image(target.array)


def _module(
    number: int, attention: Attention, explored: Explored, index: int, options: AttentionOptions
) -> dict[str, Any]:
    q, k = (_amplified(tokens, attention, options.amplification) for tokens in explored.pairs[number - 1])
    rows: dict[str, Tensor] = {}
    for name in dict.fromkeys(options.weighings):
        if name == "exact":
            rows[name] = exact_row(q, k, index)
        elif name == "features":
            proj, eps = _projection(number, attention, q, options)
            rows[name] = features_row(q, k, index, proj, eps)
        elif name == "hashed":
            rotations, bucket_size = hashing_of(attention, q.shape[1])
            if number not in explored.orders:  # hashing all keys takes longer than all the rest
                explored.orders[number] = hashed_order(k, rotations.to(k.device), bucket_size)
            rows[name] = hashed_row(q, k, index, explored.orders[number], bucket_size)
        else:
            rows[name] = criss_cross_row(q, k, index, explored.size)
    described: dict[str, Any] = {"module": number, "kind": type(attention).__name__}
    described["maps"] = [_drawn(AttentionMap(number, name, row.view(explored.size))) for name, row in rows.items()]
    if "exact" in rows and "features" in rows:
        difference = rows["features"] - rows["exact"]
        described["relative_error"] = float(difference.norm() / rows["exact"].norm())
        described["misplaced"] = float(difference.abs().sum() / 2)
    return described


def _amplified(tokens: Tensor, attention: Attention, amplification: float | None) -> Tensor:
    """Queries or keys (N, D) with another k."""
    if amplification is None or amplification == attention.amplification:
        return tokens
    return normalize(tokens, dim=-1) * math.sqrt(amplification)


def _projection(number: int, attention: Attention, q: Tensor, options: AttentionOptions) -> tuple[Tensor, float]:
    """F (M, D) and eps: the network's own unless another m or seed is asked for."""
    own = attention if isinstance(attention, ENLCA) else None
    if own is not None and options.seed is None and options.num_features in (None, own.num_features):
        return own.projection, own.feature_eps
    count = options.num_features or (own.num_features if own is not None else NUM_FEATURES)
    generator = torch.Generator().manual_seed((options.seed or 0) * 64 + number)
    kind = own.projection_kind if own is not None else "orthogonal"
    drawn = draw_projection(count, q.shape[1], kind=kind, generator=generator)
    return drawn.to(q.device), own.feature_eps if own is not None else 0.0


def _drawn(drawn: AttentionMap) -> dict[str, Any]:
    """A map as bytes: 255 sqrt(w / peak), row by row. The root keeps the many small weights apart."""
    peak = float(drawn.weights.max())
    level = (drawn.weights / max(peak, 1e-30)).sqrt().mul(255).round().to(torch.uint8)
    return {
        "weighing": drawn.weighing,
        "peak": peak,
        "focus": drawn.focus,
        "levels": base64.b64encode(level.cpu().numpy().tobytes()).decode(),
    }
