"""A reproduction in several calls: the plan stays, what is done is not done again, other settings are refused."""

import html
import re
from dataclasses import replace
from pathlib import Path

import pytest
from PIL import Image
from typer.testing import CliRunner

from enlcn.cli import app
from enlcn.errors import UserError
from enlcn.reproduce import paper
from enlcn.reproduce.docs import BEGIN, END, FULL, INTRODUCTION, LEFT_OUT, TITLE, write_docs
from enlcn.reproduce.items import ITEMS
from enlcn.reproduce.report import write_all
from enlcn.reproduce.run import Left, Request, reproduce
from enlcn.reproduce.runtime import MODULES
from enlcn.reproduce.split import Sources
from enlcn.reproduce.store import Store

CHANGES = (("crop", 8), ("photo_side", 12), ("testsets", None), ("test_crop", None), ("seeds", 2))


@pytest.fixture(scope="module")
def request_for(tmp_path_factory, sources):
    out = tmp_path_factory.mktemp("reproduction")
    return Request(("ablation",), out, sources, budget=20, device="cpu", preset="smoke", changes=CHANGES, steps=5)


@pytest.fixture(scope="module")
def finished(request_for):
    assert reproduce(request_for) == Left(0, ())
    return Store(request_for.out)


def test_the_table_has_every_row_and_seed(finished):
    result = finished.result("ablation")
    assert list(result["data"]["rows"]) == list(paper.ABLATION)
    for row in result["data"]["rows"].values():
        assert row["seeds"] == [0, 1]
        assert len(set(row["psnr"]["Set5"])) == 2
    assert result["about"]["runs_needed"] == len(result["about"]["runs_used"]) == 10
    table = ITEMS["ablation"].show(result["data"]).tables[0].to_markdown()
    assert " ± " in table
    assert "32.21" in table


def test_a_second_call_does_nothing_again(finished, request_for):
    paths = sorted((finished.path / "runs").iterdir())
    before = [path.stat().st_mtime_ns for path in paths]
    assert len(paths) == 10
    assert reproduce(request_for) == Left(0, ())
    assert [path.stat().st_mtime_ns for path in paths] == before


def test_it_says_how_far_it_is(request_for, tmp_path):
    """Within runs too: one may take longer than anybody waits without a sign."""
    said = []
    request = replace(request_for, out=tmp_path, changes=(*CHANGES, ("seeds", 1)), steps=20)
    reproduce(request, lambda what, done, total: said.append((what, done, total)))
    steps = [done for what, done, total in said if what == "training steps" and total == 5 * 20]
    assert steps == sorted(steps)
    assert {0, 2, 10, 20, 22, 100} <= set(steps)


def test_another_table_uses_the_same_runs_and_plan(finished, request_for):
    assert reproduce(replace(request_for, names=("sparsity",), steps=None, budget=1)) == Left(0, ())
    assert len(list((finished.path / "runs").iterdir())) == 10
    rows = finished.result("sparsity")["data"]["rows"]
    # Five steps teach nothing, but k alone makes attention sparser.
    assert rows["ENLA + k"]["focus"] > rows["ENLA"]["focus"]
    assert rows["ENLA + k"]["pixels"] < rows["ENLA"]["pixels"]


def test_other_settings_are_refused(finished, request_for):
    fewer = replace(request_for, changes=(*CHANGES, ("seeds", 1)))
    for changed, what in ((replace(request_for, steps=7), "steps was 5, now 7"), (fewer, "seeds was 2, now 1")):
        with pytest.raises(UserError, match=rf"other settings or pictures \({what}\)"):
            reproduce(changed)


def test_other_pictures_are_refused(finished, request_for, tmp_path):
    for index in range(4):
        Image.new("RGB", (90, 70), (index * 60, 0, 0)).save(tmp_path / f"{index}.png")
    with pytest.raises(UserError, match=r"pictures \(training_images was 5, now 3; .*; and \d more\)"):
        reproduce(replace(request_for, sources=replace(request_for.sources, data=tmp_path)))


def test_steps_chosen_for_another_budget_are_told(request_for, tmp_path, caplog):
    request = replace(request_for, names=("sparsity",), out=tmp_path, changes=(*CHANGES, ("seeds", 1)), steps=None)
    reproduce(request)
    assert "budget" not in caplog.text
    reproduce(replace(request, budget=40))
    assert "these steps were chosen for a budget of 20 s, not for 40 s" in caplog.text


def test_a_mistake_destroys_nothing(finished, request_for):
    for wrong in ({"preset": "huge"}, {"changes": (*CHANGES, ("network", "enlcn-huge"))}, {"names": ("table9",)}):
        with pytest.raises(UserError):
            reproduce(replace(request_for, overwrite=True, **wrong))
    assert len(list((finished.path / "runs").iterdir())) == 10


def test_time_up_leaves_what_was_not_come_to(request_for, tmp_path):
    changes = (*CHANGES, ("seeds", 1))
    late = replace(request_for, out=tmp_path, time_limit=1e-6, names=("ablation", "runtime"), changes=changes)
    left = reproduce(late)
    assert left == Left(5, ("runtime",))
    table = ITEMS["ablation"].show(Store(tmp_path).result("ablation")["data"]).tables[0].to_markdown()
    assert "| ENLA | 32.37 | +0.16 | – |" in table
    assert reproduce(replace(late, time_limit=None)) == Left(0, ())
    assert Store(tmp_path).result("runtime")["data"]["times"]["float32"]["NLA"]


def test_files_for_people(finished):
    names = {path.relative_to(finished.path).as_posix() for path in write_all(finished)}
    assert {"report.html", "ablation.md", "ablation.csv", "pictures/ablation.svg", "pictures/ablation.png"} <= names
    text = (finished.path / "ablation.md").read_text()
    assert "A miniature, not the paper's protocol" in text
    assert "5 steps of 2 crops of 8x8" in text
    assert "Not at hand: Set14, B100, Urban100, Manga109" in text


def test_a_report_is_written_again_from_what_was_saved(finished):
    page = finished.path / "report.html"
    write_all(finished)
    before = page.read_text()
    page.unlink()
    result = CliRunner().invoke(app, ["reproduce", "all", "--out", str(finished.path), "--render-only"])
    assert result.exit_code == 0, result.output
    assert page.read_text() == before


def test_docs_keep_what_was_written_by_hand(finished, tmp_path):
    path = tmp_path / "docs" / "reproduction.md"
    write_docs(finished, path)
    text = path.read_text()
    assert "](reproduction/ablation.png)" in text
    assert (tmp_path / "docs" / "reproduction" / "ablation.png").is_file()
    path.write_text(text.replace(f"{BEGIN}\n\n{END}", f"{BEGIN}\n\nENLA did not help.\n\n{END}"))
    write_docs(finished, path)
    again = path.read_text()
    assert again.count("ENLA did not help.") == 1
    assert again.replace("\n\nENLA did not help.", "") == text
    foreign = tmp_path / "notes.md"
    foreign.write_text("mine")
    with pytest.raises(UserError, match="was not written by"):
        write_docs(finished, foreign)
    assert foreign.read_text() == "mine"


def test_docs_can_do_without_photographs(tmp_path, request_for):
    results = tmp_path / "results"
    assert reproduce(replace(request_for, out=results, names=("receptive",))) == Left(0, ())
    everything, charts_alone = tmp_path / "everything.md", tmp_path / "charts.md"
    write_docs(Store(results), everything)
    words = ["reproduce", "all", "--out", str(results), "--render-only", "--docs", str(charts_alone)]
    result = CliRunner().invoke(app, [*words, "--no-photographs"])
    assert result.exit_code == 0, result.output
    shown, charts = ({path.name for path in page.with_suffix("").glob("*")} for page in (everything, charts_alone))
    assert shown == {"receptive-profile.png", "receptive.png"}
    assert charts == {"receptive-profile.png"}
    assert LEFT_OUT in charts_alone.read_text()
    assert "receptive.png" not in charts_alone.read_text()
    assert LEFT_OUT not in everything.read_text()
    write_docs(Store(results), everything, with_photographs=False)
    assert {path.name for path in everything.with_suffix("").glob("*")} == charts


def test_a_folder_of_plain_pictures_will_do(sources, tmp_path, request_for):
    plain = Sources(sources.data / "train" / "photos", cache=sources.cache)
    assert reproduce(replace(request_for, sources=plain, out=tmp_path, names=("receptive",))) == Left(0, ())
    rows = Store(tmp_path).result("receptive")["data"]["rows"]
    assert rows["enlcn-light-x4"]["beyond_convolutions"] >= 0
    assert set(rows) >= {"trained without attention", "trained with ENLCA"}


def test_missing_pictures_are_named(tmp_path):
    with pytest.raises(UserError, match="no such folder of pictures"):
        Sources(tmp_path / "absent")


def test_nothing_to_show_is_said(tmp_path):
    with pytest.raises(UserError, match="holds no results"):
        write_all(Store(tmp_path))


def test_what_needs_no_pictures_asks_for_none(tmp_path, monkeypatch):
    monkeypatch.delenv("ENLCN_DATA", raising=False)
    words = ["reproduce", "runtime", "efficiency", "--preset", "smoke", "--budget", "2", "--device", "cpu"]
    result = CliRunner().invoke(app, [*words, "--out", str(tmp_path)])
    assert result.exit_code == 0, result.output
    assert set(dict(Store(tmp_path).results())) == {"runtime", "efficiency"}
    text = (tmp_path / "efficiency.md").read_text()
    assert "| NLA | 25.60 | 25.6000 | +0.0% |" in text
    assert "needs pictures" in text
    label = "A miniature, not the paper's protocol. Modules are timed at 20x20 and 30x30 (the paper: 100x100 and"
    assert label in (tmp_path / "runtime.md").read_text()
    assert label in html.unescape((tmp_path / "report.html").read_text())
    assert "miniature" not in text  # operations are counted at the paper's size
    refused = CliRunner().invoke(app, [*words, "ablation", "table1", "--out", str(tmp_path)])
    assert str(refused.exception).startswith("ablation, table1: needs pictures; give their folder with --data")


def test_running_times_at_the_papers_sizes_are_no_miniature():
    times = {name: {side: {"wall_ms": 1.0, "gpu_ms": None} for side in ("100", "150")} for name in MODULES}
    data = {"times": {"float32": times}, "sides": [100, 150], "device": "a CPU", "torch": "2"}
    assert ITEMS["runtime"].show(data).text == []
    assert "paper, 100²" in ITEMS["runtime"].show(data).tables[0].to_markdown()


def test_without_pictures_what_was_trained_is_not_lost(tmp_path, sources, request_for):
    changes = (*CHANGES, ("sweep_seeds", 1))
    request = replace(request_for, names=("efficiency",), out=tmp_path, changes=changes)
    assert reproduce(request) == Left(0, ())
    before = Store(tmp_path).result("efficiency")
    assert len(before["data"]["rows"]) == 11
    assert reproduce(replace(request, sources=Sources(None))) == Left(0, ())
    assert Store(tmp_path).result("efficiency") == before


def test_the_page_in_docs_is_one_that_can_be_written_again(finished, tmp_path):
    """Whatever stands there, it frames what it holds as the program would, and shows every picture beside it."""
    page = Path(__file__).parents[2] / "docs" / "reproduction.md"
    text = page.read_text()
    assert text.startswith(f"{TITLE}\n\n{INTRODUCTION}\n\n")
    assert text.endswith(f"{END}\n\n{FULL}\n") or f"{END}\n\n## " in text
    shown = set(re.findall(r"!\[[^]]*\]\(reproduction/([^)]+)\)", text))
    assert shown == {path.name for path in page.with_suffix("").glob("*")}
    copied = tmp_path / "reproduction.md"
    copied.write_text(text)
    write_docs(finished, copied)
    assert copied.read_text().startswith(f"{TITLE}\n\n{INTRODUCTION}\n\nThe figures below were made by")
    assert "60-step toy" not in copied.read_text()
