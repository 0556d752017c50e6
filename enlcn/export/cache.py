"""ONNX files of models that were asked for by name with `--engine onnxruntime`: exported once, kept in the cache."""

import hashlib
import json
import logging
from pathlib import Path

from enlcn.cache_folder import cache_folder
from enlcn.checkpoint import load
from enlcn.export.graph import weights_digest
from enlcn.export.onnx import export_onnx, require_packages
from enlcn.plain_config import to_plain
from enlcn.version import __version__
from enlcn.zoo.cache import with_folder

log = logging.getLogger(__name__)


def cached_onnx(name: str, *, precision: str = "auto") -> Path:
    """The ONNX file of a model, written where it is missing; other weights or another version have another file.

    Args:
        name: what `enlcn.load` takes.
        precision: "auto" is fp32.
    """
    precision = "fp32" if precision == "auto" else precision
    network = load(name)
    whole = json.dumps([weights_digest(network), to_plain(network.config)])  # amplification and the like are no weights
    key = hashlib.sha256(whole.encode()).hexdigest()[:16]
    path = with_folder(cache_folder() / "onnx" / f"{key}-{precision}-{__version__}.onnx")
    if not path.exists():
        require_packages()
        log.info("writing %s as ONNX, once; it is kept in %s", name, path)
        # Another process may write the same file meanwhile: either is whole, and the last one stays.
        export_onnx(network, path, name=Path(name).stem, precision=precision, overwrite=True)
    return path
