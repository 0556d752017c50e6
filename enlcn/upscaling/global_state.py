"""What one ENLCA knows of the whole image: (kv, z), gathered tile by tile and applied pixel by pixel.

Axes: B = 1, C channels, H rows, W columns, M random features.
"""

import torch
from torch import Tensor

from enlcn.models.attention import ENLCA, flatten
from enlcn.ops.linear_attention import choose


class GlobalState:
    """The running summary of an attention's keys and values over tiles, summed in float64.

    Apple's GPUs have no float64: the sums, a few thousand numbers, lie on the CPU then.
    """

    def __init__(self, attention: ENLCA):
        self.attention = attention
        self._kx: Tensor | None = None
        self._z: Tensor | None = None
        self._shift: Tensor | None = None

    def add(self, x: Tensor) -> None:
        """Take in a tile's features (1, C, H, W); every pixel of the image must be taken in once."""
        attention = self.attention
        k = attention.amplify(attention.key(x))
        ops = choose(attention.fallback, k.shape[1])
        shift = ops.feature_maximum(k, attention.projection, attention.feature_eps) if attention.stable else None
        kx, z = ops.summarise(k, flatten(x), attention.projection, attention.feature_eps, shift)
        kx, z = _exact(kx), _exact(z)
        if self._kx is None or self._z is None:
            self._kx, self._z, self._shift = kx, z, shift
            return
        if shift is not None and self._shift is not None:
            common = torch.maximum(self._shift, shift)
            old, new = _exact(self._shift - common).exp(), _exact(shift - common).exp()
            self._kx, self._z = self._kx * old.unsqueeze(-1), self._z * old
            kx, z = kx * new.unsqueeze(-1), z * new
            self._shift = common
        self._kx, self._z = self._kx + kx, self._z + z

    def apply(self, x: Tensor) -> Tensor:
        """The attention of the whole image at the pixels of a tile. (1, C, H, W) -> (1, C, H, W)."""
        assert self._kx is not None, "the state is gathered before it is applied"
        assert self._z is not None
        attention = self.attention
        kx, z = self._kx, self._z
        scale = z.amax(dim=-1, keepdim=True)  # cancels in the ratio; a gigapixel's sums stay in float32's range
        kx, z = (kx / scale.unsqueeze(-1)).float().to(x.device), (z / scale).float().to(x.device)
        kv = attention.project_summary(kx, z)
        q = attention.amplify(attention.query(x))
        ops = choose(attention.fallback, q.shape[1])
        y = ops.apply(q, kv, z, attention.projection, attention.feature_eps, self._shift)
        return x + attention.res_scale * y.mT.unflatten(2, x.shape[-2:]).to(x.dtype)


def _exact(values: Tensor) -> Tensor:
    """In float64, on the CPU where the device has none."""
    return (values.cpu() if values.device.type == "mps" else values).double()
