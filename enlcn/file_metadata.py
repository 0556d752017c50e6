"""What our files say of themselves, weights and exported graphs alike: whose they are, and the network's config."""

import json
from collections.abc import Mapping
from pathlib import Path

from enlcn.config import ModelConfig
from enlcn.errors import UserError
from enlcn.plain_config import from_plain, to_plain

FORMAT = "enlcn"
FORMAT_VERSION = "1"
_LENGTH_BYTES = 8  # of the header's length, which comes first
_LONGEST_HEADER = 2**26


def file_metadata(config: ModelConfig) -> dict[str, str]:
    """The entries of a file that holds a network, as text under keys."""
    return {"format": FORMAT, "format_version": FORMAT_VERSION, "config": json.dumps(to_plain(config))}


def metadata_of(path: Path) -> dict[str, str]:
    """The entries of a safetensors file, by its header alone and without torch; none where they cannot be read."""
    try:
        with path.open("rb") as file:
            length = int.from_bytes(file.read(_LENGTH_BYTES), "little")
            entries = json.loads(file.read(min(length, _LONGEST_HEADER))).get("__metadata__", {})
    except (OSError, ValueError, AttributeError):
        return {}
    return entries if isinstance(entries, dict) else {}


def is_ours(metadata: Mapping[str, str]) -> bool:
    """Whether the entries say that this program wrote the file."""
    return metadata.get("format") == FORMAT


def read_config(metadata: Mapping[str, str]) -> ModelConfig:
    """The network's config out of the entries of a file of ours."""
    if metadata.get("format_version") != FORMAT_VERSION:
        raise UserError(f"format version {metadata.get('format_version')}, this program reads {FORMAT_VERSION}")
    try:
        values = json.loads(metadata["config"])
    except (KeyError, ValueError):
        raise UserError("the config in its metadata cannot be read") from None
    return from_plain(ModelConfig, values)
