"""A network as the Hugging Face Hub knows models: PyTorchModelHubMixin with our files and metadata.

Imported only by those who need it: huggingface_hub is an extra.
"""

from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

import torch

from enlcn.checkpoint import build, read, save
from enlcn.config import ModelConfig
from enlcn.errors import MissingExtraError
from enlcn.export.model_card import TEMPLATE, card_body
from enlcn.models.backbone import SRNetwork

try:
    from huggingface_hub import ModelCard, PyTorchModelHubMixin
except ImportError:
    raise MissingExtraError("the Hugging Face Hub", "hub") from None

WEIGHTS = "model.safetensors"
PAPER = "https://arxiv.org/abs/2201.03794"
TAGS = ["super-resolution", "image-super-resolution", "upscaling", "enlcn", "linear-attention", "pytorch"]


def project_url(label: str) -> str | None:
    """The address that the package's own metadata give under `label`, such as "Repository"."""
    try:
        lines = metadata("enlcn").get_all("Project-URL") or []
    except PackageNotFoundError:  # run from a source tree that was never installed
        return None
    return dict(line.split(", ", 1) for line in lines).get(label)


class HubNetwork(  # type: ignore[misc]  # the mixin's methods take the place of HubMethods', on purpose
    PyTorchModelHubMixin,
    SRNetwork,
    library_name="enlcn",
    tags=TAGS,
    pipeline_tag="image-to-image",
    # The code is Apache-2.0; weights inherit whatever their training pictures ask for, which the card says.
    license="other",
    license_name="see-model-card",
    paper_url=PAPER,
    repo_url=project_url("Repository"),
    docs_url=project_url("Documentation"),
    model_card_template=TEMPLATE,
):
    """An SRNetwork with `save_pretrained`, `from_pretrained` and `push_to_hub`.

    Attributes:
        stored_dtype: what weights are stored in; None keeps theirs.
    """

    stored_dtype: torch.dtype | None = None

    def __init__(self, config: ModelConfig | dict[str, Any]):
        assert isinstance(config, ModelConfig)
        super().__init__(config)

    @classmethod
    def sharing(cls, network: SRNetwork) -> "HubNetwork":
        """The same network: same weights in the same memory."""
        if isinstance(network, cls):
            return network
        with torch.device("meta"):
            shared = cls(network.config)
        shared.load_state_dict(network.state_dict(), assign=True)
        shared.rgb_mean = network.rgb_mean
        return shared.train(network.training)

    def generate_model_card(self, *, name: str | None = None, **kwargs: Any) -> ModelCard:
        """README.md: the model's own card under docs/models where there is one, else what its config says."""
        return super().generate_model_card(body=card_body(self, name), **kwargs)

    def _save_pretrained(self, save_directory: Path) -> None:
        save(self, Path(save_directory) / WEIGHTS, dtype=self.stored_dtype, overwrite=True)

    @classmethod
    def _from_pretrained(
        cls,
        *,
        model_id: str,
        revision: str | None,
        cache_dir: str | Path | None,
        force_download: bool,
        local_files_only: bool,
        token: str | bool | None,
        map_location: str = "cpu",
        strict: bool = False,
        **model_kwargs: Any,
    ) -> "HubNetwork":
        # The config inside the weights is the one they were checked with; config.json repeats it for the Hub.
        from enlcn.export.hub import fetch

        if Path(model_id).is_dir():
            file = Path(model_id) / WEIGHTS
        else:
            file = fetch(
                model_id,
                revision=revision,
                cache_dir=cache_dir,
                force_download=force_download,
                local_files_only=local_files_only,
                token=token,
            )
        return cls.sharing(build(read(file)).to(map_location).eval())
