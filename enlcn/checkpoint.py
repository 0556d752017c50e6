"""Networks on disk: our safetensors with the config inside, and the authors' files, read with weights_only."""

import os
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from enlcn import authors_format, recipes
from enlcn.config import ModelConfig
from enlcn.device_names import usable_device
from enlcn.errors import UserError
from enlcn.file_metadata import file_metadata, is_ours, read_config
from enlcn.files import atomic_write
from enlcn.models.backbone import SRNetwork
from enlcn.models.rivals import NLSA
from enlcn.weights_file import weights_bytes
from enlcn.zoo import UNTRAINED_PREFIX, locate, refuse_unknown

TRAINING_FORMAT = "enlcn-training"  # in training checkpoints, under "format"
CONFIG_TENSOR = "enlcn_config"  # the config as bytes, for programs that hand on tensors alone; metadata says the same
_WRAPPERS = ("params_ema", "params", "state_dict", "model")
_PT_SUFFIXES = (".pt", ".pth", ".ckpt")
State = Mapping[str, Tensor]


@dataclass(frozen=True)
class Checkpoint:
    """What a file holds.

    Attributes:
        config: the network it belongs to.
        state: tensors under our names.
        layout: "enlcn" or "authors".
    """

    config: ModelConfig
    state: State
    layout: str


def load(source: str | os.PathLike[str], *, device: str | torch.device = "cpu") -> SRNetwork:
    """Build the network that a file holds, in float32 and evaluation mode.

    Args:
        source: the name of a shipped model (`enlcn models` lists them), a .safetensors file of ours, the folder of a
            finished training run, the authors' .pt, an address (http, https, file, or hf:OWNER/NAME on the Hugging
            Face Hub), or "untrained:NAME" for fresh weights of a named network (always the same ones).
        device: where to put it.

    Returns:
        The network; `network.config` says what it is.
    """
    if not isinstance(source, (str, os.PathLike)):
        raise UserError(f"a network is loaded from a name or a file, not from a {type(source).__name__}")
    name, device = os.fspath(source), usable_device(device)
    if name.startswith(UNTRAINED_PREFIX):
        return _untrained(name.removeprefix(UNTRAINED_PREFIX)).to(device).eval()
    return build(read(locate(name))).to(device).eval()


def build(checkpoint: Checkpoint) -> SRNetwork:
    """The network with the weights it was read with; nothing random is drawn that the file already holds."""
    with torch.device("meta"):
        network = SRNetwork(checkpoint.config)
    network.load_state_dict(checkpoint.state, strict=False, assign=True)
    network.rgb_mean = torch.tensor(checkpoint.config.rgb_mean).view(1, 3, 1, 1)
    generator = torch.Generator().manual_seed(0)
    for attention in network.attentions:  # hashing directions, which the authors' files do not hold
        if isinstance(attention, NLSA) and attention.rotations.is_meta:
            attention.rotations = torch.empty(attention.rotations.shape)
            attention.redraw(generator)
    return network


def save(
    network: SRNetwork, path: str | os.PathLike[str], *, dtype: torch.dtype | None = None, overwrite: bool = False
) -> None:
    """Write weights and config as safetensors, complete or not at all.

    Args:
        network: what to save.
        path: must end in .safetensors.
        dtype: store floating-point tensors so, e.g. torch.float16; None keeps theirs.
        overwrite: replace an existing file.
    """
    path = Path(path)
    if path.suffix != ".safetensors":
        raise UserError(f"{path}: weights are written as .safetensors; choose such a name")
    tensors = {key: _packed(value, dtype) for key, value in network.state_dict().items()}
    with atomic_write(path, overwrite=overwrite) as temporary:
        temporary.write_bytes(weights_bytes(tensors, file_metadata(network.config)))  # a full disk is told as any other


def read(path: str | os.PathLike[str]) -> Checkpoint:
    """Read a file of either layout, or that of a run's folder, and check it against the network it claims to be."""
    path = Path(path)
    refuse_unknown(path)
    if path.is_dir():
        path = _model_of_run(path)
    try:
        if path.suffix == ".safetensors":
            metadata, state = _read_safetensors(path)
        elif path.suffix in _PT_SUFFIXES:
            metadata, state = {}, _read_pickled(path)
        elif path.suffix.lower() == ".onnx":
            raise UserError("an ONNX file, which `enlcn upscale -m` runs; for anything else give the weights")
        elif path.suffix.lower() == ".pt2":
            raise UserError("a torch.export program, for other programs to run; give the weights it was made of")
        else:
            kinds = ", ".join((".safetensors", *_PT_SUFFIXES))
            raise UserError(f"unknown kind of file; expected {kinds}, or .onnx for upscaling")
        if is_ours(metadata):
            return _ours(metadata, state)
        return _authors(state)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def read_config_of(path: str | os.PathLike[str]) -> ModelConfig:
    """What network a file or a run's folder holds; of our own files, the weights are not read for it."""
    path = Path(path)
    file = _model_of_run(path) if path.is_dir() else path
    metadata: dict[str, str] = {}
    if file.suffix == ".safetensors" and file.is_file():
        # What cannot be read at all is explained by reading it whole.
        with suppress(SafetensorError), safe_open(file, framework="pt") as opened:
            metadata = opened.metadata() or {}
    if not is_ours(metadata):
        return read(path).config
    try:
        return read_config(metadata)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None


def _ours(metadata: dict[str, str], state: State) -> Checkpoint:
    config = read_config(metadata)
    _check(state, {key: value.shape for key, value in _shapes(config).items()})
    return Checkpoint(config, state, layout="enlcn")


def _authors(state: State) -> Checkpoint:
    state = _without_prefix(state)
    if not authors_format.is_authors_layout(state):
        first = next(iter(state), None)
        raise UserError(f"unexpected key '{first}': neither our layout nor the authors'" if first else "no tensors")
    config = authors_format.infer_config(state)
    shapes = {key: value for key, value in _shapes(config).items() if not _may_be_absent(key)}
    _check(state, authors_format.expected_keys(config, shapes))
    return Checkpoint(config, authors_format.to_ours(state, config), layout="authors")


def _shapes(config: ModelConfig) -> State:
    """Our state dict without memory behind it."""
    with torch.device("meta"):
        return SRNetwork(config).state_dict()


def _may_be_absent(key: str) -> bool:
    """Whether a file may lack a tensor: NLSA's directions are drawn anew then."""
    return key.endswith(".rotations")


def _check(state: State, expected: Mapping[str, torch.Size]) -> None:
    for key, shape in expected.items():
        if key not in state:
            if _may_be_absent(key):
                continue
            raise UserError(f"missing key '{key}'")
        if state[key].shape != shape:
            raise UserError(f"key '{key}' has shape {tuple(state[key].shape)}, expected {tuple(shape)}")
    for key in state:
        if key not in expected and key != CONFIG_TENSOR:
            raise UserError(f"unexpected key '{key}'")


def _read_safetensors(path: Path) -> tuple[dict[str, str], State]:
    try:
        with safe_open(path, framework="pt") as file:
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a mapping)
            return file.metadata() or {}, {key: _widened(value) for key, value in state.items()}
    except SafetensorError as error:
        raise UserError(f"not a readable safetensors file ({error})") from None


def _read_pickled(path: Path) -> State:
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged pickle can raise nearly anything
        raise UserError(f"cannot be read as weights alone, and nothing else is executed: {why_unread(error)}") from None
    if isinstance(content, dict) and content.get("format") == TRAINING_FORMAT:
        raise UserError("a training checkpoint; `enlcn export-weights` writes its weights as a file to load")
    while isinstance(content, dict) and (inner := next((w for w in _WRAPPERS if _is_wrapper(content, w)), None)):
        content = content[inner]
    if not isinstance(content, dict) or not all(
        isinstance(key, str) and isinstance(value, Tensor) for key, value in content.items()
    ):
        raise UserError(f"holds no state dict, plain or under {', '.join(_WRAPPERS)}")
    return {key: _widened(value) for key, value in content.items()}


def why_unread(error: Exception) -> str:
    """Why torch.load refused a file, in one line and without its advice to trust the file."""
    text = str(error)
    if found := re.search(r"Unsupported global: GLOBAL (\S+)", text):
        return f"it holds a whole module or another Python object ({found[1]}); save the module's state_dict() instead"
    if isinstance(error, EOFError) or "PytorchStreamReader" in text:
        return "it is damaged or cut off"
    return "it is no file of torch.save, or holds more than tensors"


def _model_of_run(folder: Path) -> Path:
    """What a finished training run left in its folder."""
    model, last = folder / "model.safetensors", folder / "checkpoints" / "last.pt"
    if model.is_file():
        return model
    if last.is_file():
        raise UserError(
            f"{folder}: a run that is not finished; `enlcn export-weights {folder} FILE.safetensors` writes the "
            "weights it has reached"
        )
    raise UserError(f"{folder}: a folder without model.safetensors, hence of no finished run; give a file")


def _is_wrapper(content: dict[str, Any], key: str) -> bool:
    return isinstance(content.get(key), dict)


def _without_prefix(state: State) -> State:
    """Drop what wrappers put before every key, such as "module." or "model."."""
    head = next((key for key in state if key.endswith("head.0.weight")), "head.0.weight")
    prefix = head.removesuffix("head.0.weight")
    return {key.removeprefix(prefix): value for key, value in state.items()}


def _widened(tensor: Tensor) -> Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _packed(tensor: Tensor, dtype: torch.dtype | None) -> Tensor:
    return tensor.detach().to("cpu", dtype if tensor.is_floating_point() else None).contiguous()


def _untrained(name: str) -> SRNetwork:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return SRNetwork(recipes.network(name))
