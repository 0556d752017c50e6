"""README.md of a model on the Hugging Face Hub: its card under docs/models, or what its config says."""

from pathlib import Path

from enlcn.config import ModelConfig, describe_body
from enlcn.errors import pip_install
from enlcn.export.graph import is_shipped, weights_digest
from enlcn.models.backbone import SRNetwork

TEMPLATE = """---
{{ card_data }}
---

{{ body }}
"""
CARDS = Path(__file__).parents[2] / "docs" / "models"

_USE = """## Use

    {install}

```python
import enlcn

big = enlcn.upscale("photo.jpg", model="hf:OWNER/NAME")  # this repository's owner and name
enlcn.save_image(big, "photo_large.png")
network = enlcn.load("hf:OWNER/NAME")  # an nn.Module: (B, 3, H, W) in [0, 1] to (B, 3, {scale} H, {scale} W)
```

On the command line: `enlcn upscale photo.jpg -m hf:OWNER/NAME`. Pictures of any size are streamed exactly: the result
does not depend on the tiles.

## Method

*Efficient Non-Local Contrastive Attention for Image Super-Resolution* (AAAI 2022, https://arxiv.org/abs/2201.03794):
every pixel attends to every other at a cost that grows only with the number of pixels.
"""


def card_body(network: SRNetwork, name: str | None = None) -> str:
    """Markdown without the Hub's header.

    Args:
        network: what is described.
        name: a card docs/models/NAME.md is taken where this package lies in its source tree, and the weights are
            those that the card speaks of.
    """
    card = CARDS / f"{name}.md"
    is_its_own = name is not None and card.is_file() and is_shipped(name, weights_digest(network))
    about = card.read_text().strip() if is_its_own else _from_config(network, name)
    use = _USE.format(install=pip_install("hub"), scale=network.config.scale)
    return f"{about}\n\n{use}"


def _from_config(network: SRNetwork, name: str | None) -> str:
    config = network.config
    parameters = sum(parameter.numel() for parameter in network.parameters())
    return (
        f"# {name or f'Image super-resolution x{config.scale}'}\n\n"
        f"Upscales pictures {config.scale} times: {describe_body(config)}, "
        f"{_attentions(config)}; {parameters:,} parameters.\n\n"
        "How it was trained, on which pictures, and under which licence its weights may be used is for its author to "
        "say here."
    )


def _attentions(config: ModelConfig) -> str:
    if not config.num_attentions:
        return "no attention"
    return f"{config.num_attentions} attention modules ({config.attention.kind})"
