"""`save_pretrained`, `push_to_hub` and `from_pretrained` of every network, without importing huggingface_hub for it.

The work is done by `enlcn.export.hub_network`, which is a PyTorchModelHubMixin; it is imported when one is called.
"""

import os
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from enlcn.export.hub_network import HubNetwork
    from enlcn.models.backbone import SRNetwork


class HubMethods:
    """What Hugging Face users expect a model to have."""

    def save_pretrained(self, folder: str | os.PathLike[str], **options: Any) -> Any:
        """Write model.safetensors, config.json and README.md into `folder`; options as PyTorchModelHubMixin's."""
        return self._for_hub().save_pretrained(os.fspath(folder), **options)

    def push_to_hub(self, repo_id: str, **options: Any) -> Any:
        """Upload the same three files to OWNER/NAME on the Hub; options as PyTorchModelHubMixin's."""
        return self._for_hub().push_to_hub(repo_id, **options)

    @classmethod
    def from_pretrained(cls, source: str | os.PathLike[str], **options: Any) -> "HubNetwork":
        """The network in a folder or in OWNER/NAME on the Hub; options as PyTorchModelHubMixin's."""
        from enlcn.export.hub_network import HubNetwork

        return HubNetwork.from_pretrained(os.fspath(source), **options)

    def _for_hub(self) -> "HubNetwork":
        from enlcn.export.hub_network import HubNetwork

        return HubNetwork.sharing(cast("SRNetwork", self))
