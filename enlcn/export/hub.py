"""To and from the Hugging Face Hub: `enlcn.load("hf:owner/name")`, and folders as the Hub wants them."""

import logging
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from enlcn.errors import MissingExtraError, UserError
from enlcn.files import check_folder, make_folder
from enlcn.models.backbone import SRNetwork
from enlcn.version import __version__

PREFIX = "hf:"
_ADDRESS = re.compile(r"([\w.-]+/[\w.-]+)(?:@([\w./-]+))?")


def download(address: str) -> Path:
    """The weights that "hf:owner/name" or "hf:owner/name@revision" means, from the Hub or its cache here."""
    match = _ADDRESS.fullmatch(address.removeprefix(PREFIX))
    if match is None:
        raise UserError(f"{address}: an address on the Hugging Face Hub is hf:OWNER/NAME or hf:OWNER/NAME@REVISION")
    return fetch(match[1], revision=match[2])


def fetch(repo_id: str, **options: Any) -> Path:
    """model.safetensors of a repository on the Hub; options as huggingface_hub.hf_hub_download's.

    Raises:
        UserError: it cannot be had; says why in one line.
    """
    try:
        from huggingface_hub import constants, errors, hf_hub_download
        from huggingface_hub.utils import disable_progress_bars
    except ImportError:
        raise MissingExtraError("the Hugging Face Hub", "hub") from None
    from enlcn.export.hub_network import WEIGHTS

    if logging.getLogger("enlcn").getEffectiveLevel() >= logging.ERROR:  # what -q sets
        disable_progress_bars()
    name = f"{PREFIX}{repo_id}"
    try:
        with _silent_retries():
            file = hf_hub_download(repo_id, WEIGHTS, library_name="enlcn", library_version=__version__, **options)
        return Path(file)
    except errors.GatedRepoError:
        raise UserError(
            f"{name}: its owner lets in only who has asked; do so on its page, then `hf auth login`"
        ) from None
    except errors.RepositoryNotFoundError:
        raise UserError(f"{name}: no such repository, or a private one; check the name, or `hf auth login`") from None
    except errors.RevisionNotFoundError:
        raise UserError(f"{name}: has no revision '{options.get('revision')}'") from None
    except errors.LocalEntryNotFoundError:
        why = "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else f"{constants.ENDPOINT} cannot be reached"
        raise UserError(f"{name}: not in the cache, and {why}; connect once, or give a file") from None
    except errors.EntryNotFoundError:
        raise UserError(f"{name}: holds no {WEIGHTS}; it was not written by save_pretrained of this package") from None
    except (errors.HFValidationError, errors.HfHubHTTPError, OSError) as error:
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise UserError(f"{name}: cannot be downloaded ({told})") from None


@contextmanager
def _silent_retries() -> Iterator[None]:
    """huggingface_hub tells of each attempt to connect; the last one's outcome is enough."""
    logger = logging.getLogger("huggingface_hub")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


def save_folder(
    network: SRNetwork, folder: str | os.PathLike[str], *, name: str, half: bool = False, overwrite: bool = False
) -> None:
    """Write what the Hub wants (model.safetensors, config.json, README.md), each file complete or not at all.

    Args:
        network: what to save.
        folder: made; where it exists, the three files are replaced if `overwrite`.
        name: of the model; its card docs/models/NAME.md becomes README.md where there is one.
        half: store weights as float16.
        overwrite: replace files in an existing folder.
    """
    from enlcn.export.hub_network import HubNetwork

    folder = Path(folder)
    if folder.is_file():
        raise UserError(f"{folder}: is a file; give a folder")
    if folder.is_dir() and any(folder.iterdir()) and not overwrite:
        raise UserError(f"{folder}: is a folder with files in it; pass --overwrite to replace them")
    check_folder(folder)
    model = HubNetwork.sharing(network)
    make_folder(folder.parent)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as temporary:
        before = model.stored_dtype  # it may be the caller's own network
        model.stored_dtype = torch.float16 if half else None
        try:
            model.save_pretrained(temporary, model_card_kwargs={"name": name})
        finally:
            model.stored_dtype = before
        folder.mkdir(exist_ok=True)
        for file in Path(temporary).iterdir():
            shutil.move(file, folder / file.name)
