import json
import re
import subprocess
import sys
from dataclasses import replace

import pytest
import typer
from PIL import Image
from rich.console import Console
from typer.testing import CliRunner

from enlcn.cli import console, plot, train
from enlcn.errors import MissingExtraError, UserError
from enlcn.train.plot import draw_curves, plot_runs
from enlcn.train.recipes import RECIPES
from enlcn.train.settings import apply_settings, setting_names
from tests.train.conftest import TINY, as_options

app = typer.Typer(pretty_exceptions_enable=False)
app.command("train")(train.train)
app.command("plot")(plot.plot)
app.command("export-weights")(train.export_weights)
app.command("join-weights")(train.join_weights)


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], catch_exceptions=True)


@pytest.fixture(scope="module")
def finished(tmp_path_factory, pictures, cache):
    out = tmp_path_factory.mktemp("runs") / "first"
    result = run(
        "train", "cpu-x2", "--data", pictures, "--out", out, "--cache", cache, "--device", "cpu", *as_options(TINY)
    )
    assert result.exit_code == 0, result.output
    assert f"written: {out / 'model.safetensors'}" in result.output.replace("\n", "")
    return out


def test_list_names_every_recipe():
    result = run("train", "--list")
    for name in ("paper-x4", "modern-enlcn-small-x2", "ablation-amplification-k-6", "cpu-x2"):
        assert name in result.output


def test_show_prints_settings_that_set_takes_back():
    printed = run("train", "paper-x3", "--set", "data.batch_size=8", "--steps", 50, "--seed", 3, "--show").output
    shown = apply_settings(RECIPES["cpu-x2"], printed.splitlines())
    paper = RECIPES["paper-x3"]
    schedule = replace(paper.schedule, clock="steps")
    assert shown == replace(paper, data=replace(paper.data, batch_size=8), schedule=schedule, total_steps=50, seed=3)


def test_show_explains_every_setting_beside_it():
    lines = run("train", "paper-x4", "--show").output.splitlines()
    assert all(re.fullmatch(r"[\w.]+=.+  # \S.+", line) for line in lines)
    assert len({line.index("# ") for line in lines}) == 1
    assert len(lines) == len(setting_names(RECIPES["paper-x4"]))


def test_a_terminal_shows_long_explanations_beneath_each_other(monkeypatch):
    monkeypatch.setattr(console, "out", Console(force_terminal=True, width=100))
    lines = run("train", "paper-x4", "--show").output.splitlines()
    assert max(map(len, lines)) <= 100
    (first,) = (number for number, line in enumerate(lines) if line.startswith("schedule.clock=auto"))
    column = lines[first].index("# ")
    assert lines[first + 1].index("# ") == column
    assert not lines[first + 1][:column].strip()
    assert len(lines) > len(setting_names(RECIPES["paper-x4"]))


def test_show_without_docstrings_prints_the_settings_alone():
    command = [sys.executable, "-OO", "-m", "enlcn", "train", "paper-x4", "--show"]
    shown = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert shown == [f"{name}={value}" for name, value in setting_names(RECIPES["paper-x4"]).items()]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "which recipe"),
        (["paper-x9"], "unknown recipe 'paper-x9'; did you mean paper-x4 or"),
        (["paper-x4", "--set", "nonsense=1"], "unknown setting 'nonsense'; --show lists all"),
        (["paper-x4"], "--data"),
        (["paper-x4", "--data", ".", "--out", "/absent/run", "--device", "warp"], "no such device"),
    ],
)
def test_mistakes_are_user_errors(arguments, message):
    result = run("train", *arguments)
    assert isinstance(result.exception, UserError)
    assert message in str(result.exception)


def test_weights_are_exported_split_and_joined(finished, tmp_path):
    target = tmp_path / "small.safetensors"
    assert run("export-weights", finished, target, "--dtype", "bf16", "--split", 0.005).exit_code == 0
    assert target.stat().st_size < (finished / "model.safetensors").stat().st_size
    original = target.read_bytes()
    target.unlink()
    assert run("join-weights", tmp_path / "small.safetensors.parts.json").exit_code == 0
    assert target.read_bytes() == original
    assert isinstance(run("export-weights", finished, target, "--dtype", "int8").exception, UserError)


def test_the_best_weights_are_exported_by_name(finished, tmp_path):
    chosen, named = tmp_path / "chosen.safetensors", tmp_path / "named.safetensors"
    assert run("export-weights", finished, chosen, "--best").exit_code == 0
    assert run("export-weights", finished / "checkpoints" / "best.pt", named).exit_code == 0
    assert chosen.read_bytes() == named.read_bytes()
    for source in (tmp_path, finished / "checkpoints" / "best.pt"):
        assert "best" in str(run("export-weights", source, tmp_path / "other.safetensors", "--best").exception)


def test_curves_of_several_runs_become_one_picture(finished, tmp_path, caplog):
    second = tmp_path / "second"
    second.mkdir()
    lines = [json.loads(line) for line in (finished / "metrics.jsonl").read_text().splitlines()]
    (second / "metrics.jsonl").write_text("\n".join(json.dumps(line) for line in lines) + '\n{"event": "tra')
    assert run("plot", finished, second, "--out", tmp_path / "curves.png").exit_code == 0
    with Image.open(tmp_path / "curves.png") as picture:
        assert picture.width > 1000
        assert len(picture.convert("RGB").getcolors(1 << 24)) > 50
    with pytest.raises(UserError, match="exists already"):
        plot_runs([finished], tmp_path / "curves.png")
    aborted = tmp_path / "aborted"
    aborted.mkdir()
    (aborted / "metrics.jsonl").touch()
    plot_runs([aborted, finished], tmp_path / "without.png")
    assert "aborted: has no metrics yet and is left out" in caplog.text
    with pytest.raises(UserError, match="aborted: no metrics yet, nothing to draw"):
        plot_runs([aborted], tmp_path / "none.png")
    with pytest.raises(UserError, match=r"no run of `enlcn train`"):
        plot_runs([tmp_path], tmp_path / "other.png")
    with pytest.raises(UserError, match="not supported"):
        plot_runs([finished], tmp_path / "curves.docx", over="elapsed")


def test_a_run_has_one_colour_in_every_panel_and_in_the_legend():
    train = [{"event": "train", "step": s, "loss": 1, "contrastive": 0, "learning_rate": 1} for s in (1, 2)]
    validation = [{"event": "validation", "step": s, "psnr": 30} for s in (1, 2)]
    names = ["first", "_second", *(f"run {index}" for index in range(2, 12))]
    figure = draw_curves({name: train + (validation if name != "first" else []) for name in names})
    (legend,) = figure.legends
    assert [text.get_text() for text in legend.get_texts()] == names
    looks = [(line.get_color(), line.get_linestyle()) for line in legend.get_lines()]
    assert len(set(looks)) == len(names)
    for axes, drawn in zip(figure.axes, (looks[1:], looks, looks, looks), strict=True):
        assert [(line.get_color(), line.get_linestyle()) for line in axes.get_lines()] == drawn


@pytest.mark.parametrize("validated", [(), ("second",)])
def test_psnr_has_a_panel_where_a_run_was_validated(validated):
    train = [{"event": "train", "step": s, "loss": 1, "contrastive": None, "learning_rate": 1} for s in (1, 2)]
    none_yet = [{"event": "validation", "step": 1, "psnr": None}]
    validation = [{"event": "validation", "step": 2, "psnr": 30}]
    curves = {name: train + (validation if name in validated else none_yet) for name in ("first", "second")}
    titles = [axes.get_title() for axes in draw_curves(curves).axes]
    assert titles == ["PSNR on Y, held-out images (dB)"] * len(validated) + ["loss", "L_cl", "learning rate"]


def test_a_finished_run_says_so_and_how_to_go_on(finished, pictures, cache):
    written = (finished / "model.safetensors").stat().st_mtime_ns
    options = ["--data", pictures, "--out", finished, "--cache", cache, "--device", "cpu", *as_options(TINY)]
    result = run("train", "cpu-x2", *options)
    assert result.exit_code == 0
    text = result.output.replace("\n", "")
    assert "this run is finished (20 steps, best PSNR" in text
    assert "a larger --steps or --budget goes on with it" in text
    assert (finished / "model.safetensors").stat().st_mtime_ns == written
    assert "a larger --budget goes on" in run("train", "cpu-x2", "--budget", 0.001, *options).output.replace("\n", "")


def test_names_are_not_read_as_markup(finished, tmp_path):
    assert "[bold]c.png" in run("plot", finished, "--out", tmp_path / "[bold]c.png").output.replace("\n", "")
    assert "[red]w.safe" in run("export-weights", finished, tmp_path / "[red]w.safetensors").output.replace("\n", "")


def test_drawing_without_matplotlib_names_the_extra(finished, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(MissingExtraError, match=r"enlcn\[train\]"):
        plot_runs([finished], tmp_path / "curves.png")


def test_the_command_modules_import_no_torch():
    code = "import sys, enlcn.cli.train, enlcn.cli.plot; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    show = "import sys; from enlcn.cli.train import train; train('cpu-x2', show=True); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", show], stdout=subprocess.DEVNULL).returncode == 0


def test_runs_that_teach_nothing_are_warned_of(tmp_path, caplog):
    """A last stage without weights to polish, and a run that ends before its learning rate has risen."""
    options = ("--data", tmp_path / "absent", "--out", tmp_path / "run", "--device", "cpu")
    run("train", "polish-enlcn-light-x4", "--steps", 5, *options)
    assert "polish-enlcn-light-x4 is a last stage, for trained weights: name them with --init" in caplog.text
    assert "schedule.warmup_steps=200 leaves nothing of 5 steps but the warm-up" in caplog.text
    caplog.clear()
    run("train", "polish-enlcn-light-x4", "--init", "enlcn-light-x4", *options)
    assert not caplog.text


@pytest.mark.parametrize("budget", ["nan", "inf", "0", "-1"])
def test_a_budget_is_a_number_of_seconds(tmp_path, pictures, cache, budget):
    options = ("--data", pictures, "--cache", cache, "--out", tmp_path / "run", "--device", "cpu")
    told = str(run("train", "cpu-x2", "--budget", budget, *options).exception)
    assert told.startswith(f"the budget is {float(budget)} s; it must be positive")
    assert not (tmp_path / "run").exists()


def test_a_budget_that_ends_within_the_warm_up_is_told(tmp_path, pictures, cache, caplog):
    config = replace(TINY, schedule=replace(TINY.schedule, warmup_steps=10**5), total_steps=2 * 10**5)
    options = ("--data", pictures, "--cache", cache, "--out", tmp_path / "run", "--device", "cpu", "--budget", 1)
    assert run("train", "cpu-x2", *as_options(config), *options).exit_code == 0
    assert "steps were warm-up (schedule.warmup_steps=100000); set it lower or train longer" in caplog.text
