"""benchmarks/ship_model.py: a checkpoint becomes a shipped model with measured scores, and the documents say so."""

import importlib
import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from PIL import Image

import enlcn
from enlcn import recipes
from enlcn.evaluate import evaluate
from enlcn.evaluate.report import write_reports
from enlcn.models.backbone import SRNetwork
from enlcn.zoo import known, manifest, registry
from enlcn.zoo.verify import check
from tests.train.conftest import TINY
from tests.zoo.test_registry import same

ROOT = Path(__file__).parents[2]


@pytest.fixture
def tool(zoo, monkeypatch):
    """The program, on a project of its own that has nothing but documents with markers; Set5 alone is evaluated."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    ship_model, model_docs = importlib.import_module("ship_model"), importlib.import_module("model_docs")
    monkeypatch.setattr(ship_model, "ROOT", zoo.checkout)
    monkeypatch.setattr(ship_model, "TESTSETS", ("Set5",))
    monkeypatch.setattr(ship_model, "SECONDS", 0.1)
    (zoo.checkout / "docs" / "models").mkdir(parents=True)
    (zoo.checkout / "docs" / "results.md").write_text("before\n{}\nold\n{}\nafter\n".format(*model_docs.TABLES))
    template = (ROOT / "docs" / "models" / "template.md").read_text()
    (zoo.checkout / "docs" / "models" / "template.md").write_text(template)

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["ship_model.py", *map(str, arguments)])
        ship_model.main()

    return run


@pytest.fixture
def checkpoint(zoo, tmp_path):
    path = tmp_path / "trained.safetensors"
    enlcn.save(zoo.network(2), path)
    return path


def test_a_light_model_goes_into_the_package(zoo, tool, checkpoint, data_dir):
    tool(checkpoint, "--name", "enlcn-light-x2", "--recipe", "cpu-x2", "--steps", 7, "--seed", 1, "--hardware", "a CPU")
    row = known()["enlcn-light-x2"]
    assert (row.scale, row.steps, row.seed, row.recipe, row.hardware) == (2, 7, 1, "cpu-x2", "a CPU")
    assert check(row).message == "intact (1 file)"
    network = enlcn.load("enlcn-light-x2")
    assert same(network, zoo.network(2))
    assert row.parameters == sum(p.numel() for p in network.parameters())
    assert row.cpu_seconds > 0
    # What the command that it names gives.
    assert row.scores_command == "enlcn evaluate -m enlcn-light-x2 -m bicubic -d Set5 -s 2"
    results = evaluate(["enlcn-light-x2", "bicubic"], ["Set5"], 2, device="cpu")
    for name, listed in (("enlcn-light-x2", row.scores), ("bicubic", row.bicubic)):
        mean = results.mean(name, "Set5")
        assert listed["Set5"] == (round(mean.psnr_y, 4), round(mean.ssim_y, 6))

    tables = (zoo.checkout / "docs" / "results.md").read_text()
    assert tables.startswith("before\n")
    assert tables.endswith("\nafter\n")
    assert "\nold\n" not in tables
    assert f"{row.scores['Set5'][0]:.2f} / {row.scores['Set5'][1]:.4f}" in tables
    card = zoo.checkout / "docs" / "models" / "enlcn-light-x2.md"
    assert row.sha256 in card.read_text()

    # Again: the weights stay unless told, what people wrote stays, the digits are the same.
    card.write_text(card.read_text() + "- One more weakness.\n")
    with pytest.raises(SystemExit, match="shipped already; pass --overwrite"):
        tool(checkpoint, "--name", "enlcn-light-x2")
    tool("--name", "enlcn-light-x2", "--description", "a sentence", "--no-time")
    again = known()["enlcn-light-x2"]
    assert (again.scores, again.bicubic, again.file) == (row.scores, row.bicubic, row.file)
    assert (again.recipe, again.cpu_seconds, again.description) == ("cpu-x2", row.cpu_seconds, "a sentence")
    assert card.read_text().endswith("- One more weakness.\n")


def test_a_large_model_goes_into_parts_with_scores_from_elsewhere(zoo, tool, checkpoint, data_dir, tmp_path):
    results = evaluate({"trained": str(checkpoint), "bicubic": "bicubic"}, ["Set5"], 2, device="cpu")
    write_reports(results, tmp_path / "elsewhere")
    scores = tmp_path / "elsewhere" / "results.json"
    tool(checkpoint, "--name", "enlcn-x2", "--scores", scores, "--part-mib", 0.008, "--no-time")
    row = known()["enlcn-x2"]
    assert row.scores["Set5"][0] == round(results.mean("trained", "Set5").psnr_y, 4)
    assert "evaluated before it was listed" in row.scores_from
    assert row.cpu_seconds is None
    assert len(row.file.parts) > 2
    assert manifest.read(zoo.weights / "enlcn-x2" / "manifest.json") == [row]
    assert same(enlcn.load("enlcn-x2"), zoo.network(2))

    # Other weights in fewer parts: none of the old is left, and nothing of the old training.
    enlcn.save(zoo.network(2, seed=5), checkpoint, overwrite=True)
    tool(checkpoint, "--name", "enlcn-x2", "--scores", scores, "--part-mib", 0.02, "--no-time", "--overwrite")
    assert check(known()["enlcn-x2"]).intact
    there = {path.name for path in (zoo.weights / "enlcn-x2").iterdir()}
    assert there == {"manifest.json", *(part.name for part in known()["enlcn-x2"].file.parts)}
    assert same(enlcn.load("enlcn-x2"), zoo.network(2, seed=5))


def test_a_model_that_crosses_the_size_of_parts_leaves_nothing_behind(zoo, tool, checkpoint, data_dir):
    for part_mib in (16, 0.008, 16):
        tool(checkpoint, "--name", "enlcn-x2", "--part-mib", part_mib, "--no-time", "--overwrite")
        row = known()["enlcn-x2"]
        assert bool(row.file.parts) == (part_mib < 1)
        assert check(row).message == f"intact ({len(row.file.parts) or 1} file{'s' if row.file.parts else ''})"
        assert (zoo.package / "enlcn-x2.safetensors").exists() != bool(row.file.parts)
        assert (zoo.weights / "enlcn-x2").exists() == bool(row.file.parts)


def test_scores_of_another_network_are_refused(zoo, tool, checkpoint, data_dir, tmp_path):
    write_reports(evaluate(["bicubic"], ["Set5"], 2, device="cpu"), tmp_path / "none")
    other = evaluate({"a": SRNetwork(replace(recipes.TINY, scale=2, channels=8))}, ["Set5"], 2, device="cpu")
    write_reports(other, tmp_path / "other")
    (tmp_path / "bad.json").write_text(json.dumps({"means": 3}))
    for path, message in (
        (tmp_path / "none" / "results.json", "Evaluate it alone"),
        (tmp_path / "other" / "results.json", "the network has others"),
        (tmp_path / "bad.json", "not a results.json"),
    ):
        with pytest.raises(SystemExit, match=message):
            tool(checkpoint, "--name", "enlcn-light-x2", "--scores", path)
    with pytest.raises(SystemExit, match="must end in its scale"):
        tool(checkpoint, "--name", "enlcn-light-x4")
    assert known() == {}
    assert list(zoo.package.glob("*.safetensors")) == []


def test_a_training_checkpoint_tells_its_steps_and_seed(tool, tmp_path):
    from enlcn.train.start import Job, train

    pixels = torch.randint(0, 256, (64, 64, 3), dtype=torch.uint8).numpy()
    (tmp_path / "images").mkdir()
    Image.fromarray(pixels).save(tmp_path / "images" / "a.png")
    config = replace(TINY, total_steps=2, seed=11, schedule=replace(TINY.schedule, clock="steps"))
    train(Job(config, tmp_path / "images", tmp_path / "run", device="cpu", cache=tmp_path / "decoded"))
    for source in (tmp_path / "run", tmp_path / "run" / "checkpoints" / "last.pt"):
        network, facts = importlib.import_module("ship_model").read_source(source)
        assert facts == {"steps": 2, "seed": 11}
        assert network.config == TINY.model
        assert same(network, enlcn.load(tmp_path / "run"))


def test_a_name_that_would_leave_its_folder(tool, checkpoint):
    with pytest.raises(SystemExit, match=r"'\.\./evil-x3' is no name for a model"):
        tool(checkpoint, "--name", "../evil-x3")


def test_the_documents_are_up_to_date(monkeypatch):
    """Otherwise: python benchmarks/ship_model.py --tables."""
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    assert (
        importlib.import_module("model_docs").stale(ROOT, manifest.read(registry.PACKAGE_FOLDER / registry.LIST_NAME))
        == []
    )


def test_documents_that_are_outdated_or_without_markers_are_told(zoo, tool, capsys):
    with pytest.raises(SystemExit) as caught:
        tool("--check")
    assert caught.value.code == 1
    assert "results.md: outdated" in capsys.readouterr().out
    tool("--tables")
    with pytest.raises(SystemExit) as caught:
        tool("--check")
    assert caught.value.code == 0
    (zoo.checkout / "docs" / "results.md").write_text("nothing\n")
    with pytest.raises(SystemExit, match="lacks the markers"):
        tool("--tables")
