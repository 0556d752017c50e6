"""Register trained weights as a shipped model: export, evaluate, time, list, and refresh the documents.

    python benchmarks/ship_model.py RUN_OR_CHECKPOINT --name enlcn-light-x4 --recipe modern-enlcn-light-x4 \\
        --hardware "one NVIDIA H200, 538 s" --description "for CPUs; the default"
    python benchmarks/ship_model.py --name enlcn-light-x4    # measure a shipped model again, weights untouched
    python benchmarks/ship_model.py --tables                 # rewrite the documents from what is listed
    python benchmarks/ship_model.py --check                  # ... or only say whether they are up to date

RUN_OR_CHECKPOINT is a run's folder, one of its checkpoints, or a .safetensors file. Weights are stored as fp16: up to
16 MiB inside the package (enlcn/weights/), larger ones in parts of at most 16 MiB under weights/NAME/. What is
evaluated is the stored file, on Set5, Set14 and B100, in fp32; the time is that of 128x128 on two threads.

The evaluation of a large network may be done elsewhere: `enlcn evaluate -m FILE -m bicubic -d Set5 -d Set14 -d B100
-s 4 --out FOLDER` writes the results.json that --scores takes, and the row says so. What is not given is kept from the
row that is there, except what belongs to other weights. Nothing is replaced before all of it is measured.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from model_docs import refresh, stale
from model_files import store
from rich.console import Console
from torch import Tensor

from enlcn.checkpoint import load, save
from enlcn.config import ModelConfig, describe_body
from enlcn.cost import num_parameters
from enlcn.errors import UserError
from enlcn.evaluate import evaluate
from enlcn.models.backbone import SRNetwork
from enlcn.train.snapshot import RunFolder, is_snapshot, load_snapshot
from enlcn.train.warm_start import network_of
from enlcn.upscaling.devices import torch_threads
from enlcn.upscaling.engine import Engine
from enlcn.upscaling.engine_options import EngineOptions
from enlcn.upscaling.tiling import Tile
from enlcn.version import __version__
from enlcn.zoo import locate, manifest, registry
from enlcn.zoo.manifest import Scores, ShippedModel

ROOT = Path(__file__).parents[1]
TESTSETS = ("Set5", "Set14", "B100")
PART_MIB = 16
LICENCE = "that of the training photographs, which differ; some are for research or non-commercial use only"
SIDE, THREADS, SECONDS = 128, 2, 10.0  # what is timed, and for how long at least


def describe_network(config: ModelConfig) -> str:
    """A network in one line."""
    attention = "no attention"
    if config.num_attentions:
        places = ", ".join(map(str, config.attention_after))
        kind = config.attention.kind.upper()
        settings = [f"k = {config.attention.amplification:g}"] if config.attention.amplification else []
        settings += [f"m = {config.attention.num_features}"] if kind == "ENLCA" else []
        details = f" ({', '.join(settings)})" if settings else ""
        attention = f"{config.num_attentions} {kind}{details} after blocks {places}"
    body = describe_body(config)
    return f"{body}, {attention}, {config.upsampler} upsampler"


def read_source(source: Path) -> tuple[SRNetwork, dict[str, Any]]:
    """The network, and what its run says of the training."""
    if source.is_dir() and RunFolder(source).last.is_file():
        source = RunFolder(source).last
    if not is_snapshot(source):
        return load(source), {}
    snapshot = load_snapshot(source)
    return network_of(source), {"steps": snapshot.step, "seed": snapshot.config.seed}


def measure_scores(name: str, file: Path, scale: int) -> dict[str, Any]:
    """PSNR and SSIM of the stored file and of bicubic, with the command that gives them."""
    with Console(stderr=True).status("evaluating") as status:
        results = evaluate(
            {name: file, "bicubic": "bicubic"},
            TESTSETS,
            scale,
            device="cpu",
            border="clamp",  # the rule by which the LR files of these sets were made, for scales that have none
            on_image=lambda each: status.update(f"evaluating {each.testset}/{each.image}"),
        )

    def scores(model: str) -> Scores:
        means = {testset: results.mean(model, testset) for testset in TESTSETS}
        return {testset: _rounded(mean.psnr_y, mean.ssim_y) for testset, mean in means.items()}

    return {
        "scores": scores(name),
        "bicubic": scores("bicubic"),
        "scores_command": _command(name, scale, results.settings.border, "fp32"),
        "scores_from": f"CPU, fp32, enlcn {__version__}, torch {torch.__version__.partition('+')[0]}",
    }


def read_scores(path: Path, name: str, network: SRNetwork) -> dict[str, Any]:
    """The same from the results.json of `enlcn evaluate`."""
    scale = network.config.scale
    try:
        document = json.loads(path.read_text())
        settings, models = document["settings"], {each["name"]: each for each in document["models"]}
        means = {(row["model"], row["testset"]): _rounded(row["psnr_y"], row["ssim_y"]) for row in document["means"]}
        made_by = f"enlcn {document['enlcn']}, torch {document['torch'].partition('+')[0]}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: not a results.json of `enlcn evaluate` ({error})") from None
    others = [model for model in models if model != "bicubic"]
    ours = name if name in models else others[0] if len(others) == 1 else None
    if ours is None:
        raise UserError(f"{path}: which of {', '.join(others)} is {name}? Evaluate it alone")
    if settings["scale"] != scale:
        raise UserError(f"{path}: an evaluation of x{settings['scale']}, the network is x{scale}")
    if settings["self_ensemble"]:
        raise UserError(f"{path}: an evaluation with self-ensemble; the tables are without")
    if settings.get("noise") or settings.get("jpeg_quality"):
        raise UserError(f"{path}: an evaluation on noisy or compressed images; the tables are of clean ones")
    if models[ours]["parameters"] != sum(p.numel() for p in network.parameters()):
        raise UserError(f"{path}: {ours} has {models[ours]['parameters']:,} parameters, the network has others")
    if missing := [testset for testset in TESTSETS if (ours, testset) not in means]:
        raise UserError(f"{path}: {', '.join(missing)} missing")
    return {
        "scores": {testset: means[ours, testset] for testset in TESTSETS},
        "bicubic": {testset: means["bicubic", testset] for testset in TESTSETS if ("bicubic", testset) in means},
        "scores_command": _command(name, scale, settings["border"], settings["precision"]),
        "scores_from": f"{settings['device']}, {settings['precision']}, {made_by}, evaluated before it was listed",
    }


def measure_seconds(network: SRNetwork) -> float:
    """The best time of 128x128 on two threads, warm, fp32: what other programs take away is not the network's."""
    lr = torch.rand(1, 3, SIDE, SIDE, generator=torch.Generator().manual_seed(0))
    engine = Engine(network, EngineOptions(device="cpu", precision="fp32", mode="whole"))
    sr = torch.empty(1, 3, SIDE * engine.scale, SIDE * engine.scale)

    def emit(tile: Tile, part: Tensor) -> None:
        s = engine.scale
        sr[..., s * tile.top : s * tile.bottom, s * tile.left : s * tile.right] = part

    def once() -> float:
        began = time.perf_counter()
        engine.upscale(SIDE, SIDE, lambda t: lr[..., t.top : t.bottom, t.left : t.right], emit)
        return time.perf_counter() - began

    times: list[float] = []
    with torch_threads(THREADS), Console(stderr=True).status("timing"):
        once()
        while len(times) < 3 or sum(times) < SECONDS:
            times.append(once())
    if os.getloadavg()[0] > 2:
        print(
            "note: other programs keep this machine busy; time it again (--no-scores) when it is idle", file=sys.stderr
        )
    return round(min(times), 4)


def listed() -> list[ShippedModel]:
    """The rows of the package's list; not what ENLCN_WEIGHTS may add to them."""
    return manifest.read(registry.PACKAGE_FOLDER / registry.LIST_NAME)


def ship(options: argparse.Namespace) -> ShippedModel:
    """All of it; the row that is listed now."""
    try:
        manifest.check_name(options.name)
    except ValueError as error:
        raise UserError(str(error)) from None
    old = next((model for model in listed() if model.name == options.name), None)
    given: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="enlcn-ship-") as folder:
        file, install = Path(folder) / f"{options.name}.safetensors", None
        if options.source is None:
            if old is None:
                raise UserError(f"{options.name}: not shipped yet; give the run or checkpoint it comes from")
            file, stored = locate(options.name), old.file
        else:
            if old is not None and not options.overwrite:
                raise UserError(f"{options.name}: shipped already; pass --overwrite to replace its weights")
            network, given = read_source(options.source)
            save(network, file, dtype=torch.float16)
            stored, install = store(file, options.name, options.part_mib, ROOT / "weights" / options.name)
        network = load(file)  # what is measured is what is stored, rounded to fp16
        if not options.name.endswith(f"-x{network.config.scale}"):
            raise UserError(f"{options.name}: the network is x{network.config.scale}; the name must end in its scale")
        measured: dict[str, Any] = {}
        if options.no_scores and options.source is not None:
            raise UserError("--no-scores keeps what is listed, which is not of these weights; leave it out")
        if options.scores:
            measured = read_scores(options.scores, options.name, network)
        elif not options.no_scores:
            measured = measure_scores(options.name, file, network.config.scale)
        facts: dict[str, Any] = {
            "scale": network.config.scale,
            "parameters": num_parameters(network.config),
            "file": stored,
            "network": describe_network(network.config),
            "licence": old.licence if old and old.licence else LICENCE,
        }
        asked = ("recipe", "steps", "seed", "hardware", "licence", "description")
        told = {name: getattr(options, name) for name in asked if getattr(options, name) is not None}
        facts |= given | told | measured
        if not options.no_time:
            facts["cpu_seconds"] = measure_seconds(network)
        # Weights of another training keep nothing of the old row that describes it.
        if options.source is not None and old is not None:
            old = replace(old, recipe="", steps=None, seed=None, hardware="", cpu_seconds=None)
        row = replace(old, **facts) if old else ShippedModel(name=options.name, **facts)
        if install is not None:
            install(row)
    rows = [model for model in listed() if model.name != row.name]
    manifest.write_list(registry.PACKAGE_FOLDER / registry.LIST_NAME, [*rows, row])
    if row.file.parts:
        manifest.write_one(ROOT / "weights" / row.name / registry.MANIFEST_NAME, row)
    return row


def _command(name: str, scale: int, border: str, precision: str) -> str:
    sets = " ".join(f"-d {testset}" for testset in TESTSETS)
    made = f" --border {border}" if scale == 3 and border != "mirror" else ""  # x2 and x4 have LR files
    asked = "" if precision == "fp32" else f" --precision {precision}"
    return f"enlcn evaluate -m {name} -m bicubic {sets} -s {scale}{made}{asked}"


def _rounded(psnr: float, ssim: float) -> tuple[float, float]:
    """Enough digits for every table, few enough to be the same on another CPU."""
    return round(float(psnr), 4), round(float(ssim), 6)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", nargs="?", type=Path, metavar="RUN_OR_CHECKPOINT")
    parser.add_argument("--name", help="FAMILY-xS, such as enlcn-light-x2")
    parser.add_argument("--recipe", help="how it was trained: the recipe's name or its command")
    parser.add_argument("--steps", type=int, help="over all stages; default: what the checkpoint says")
    parser.add_argument("--seed", type=int, help="default: what the checkpoint says")
    parser.add_argument("--hardware", help="what it was trained on, and how long")
    parser.add_argument("--licence", help="of the weights")
    parser.add_argument("--description", help="one line")
    parser.add_argument("--scores", type=Path, metavar="FILE", help="results.json of an evaluation done elsewhere")
    parser.add_argument("--no-scores", action="store_true", help="keep the scores that are listed")
    parser.add_argument("--no-time", action="store_true", help="do not time it on this CPU")
    parser.add_argument("--part-mib", type=float, default=PART_MIB, help="largest file (default: %(default)s MiB)")
    parser.add_argument("--overwrite", action="store_true", help="replace the weights of a shipped model")
    parser.add_argument("--tables", action="store_true", help="only rewrite the documents")
    parser.add_argument("--check", action="store_true", help="only say whether the documents are up to date")
    options = parser.parse_args()
    try:
        if options.check:
            outdated = stale(ROOT, listed())
            for path in outdated:
                print(f"{path.relative_to(ROOT)}: outdated; run benchmarks/ship_model.py --tables")
            sys.exit(1 if outdated else 0)
        if not options.tables:
            if options.name is None:
                raise UserError("which model? Give --name")
            row = ship(options)
            cells = ", ".join(f"{testset} {psnr:.2f} / {ssim:.4f}" for testset, (psnr, ssim) in row.scores.items())
            seconds = "" if row.cpu_seconds is None else f"; {row.cpu_seconds:.3f} s for {SIDE}x{SIDE}"
            print(f"{row.name}: {cells}{seconds}")
        for path in refresh(ROOT, listed()):
            print(f"written: {path.relative_to(ROOT)}")
    except UserError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
