"""Rows and runs: the paper's figures are those of its text, rows are recipes, shared ones are trained once."""

from dataclasses import replace

import pytest

from enlcn.reproduce import paper, rows
from enlcn.reproduce.items import ITEMS, PRIORITY
from enlcn.reproduce.plan import unique_runs
from enlcn.reproduce.preset import PRESETS, choose_preset
from enlcn.reproduce.rows import RunSpec, config_of, key_of
from enlcn.train.recipes import RECIPES
from enlcn.train.settings import apply_settings

GPU = PRESETS["gpu"]


def key(recipe, seed=0, steps=1000):
    return key_of(config_of(RunSpec(recipe, seed), GPU, steps))


def test_the_papers_figures_say_what_its_text_says():
    base = paper.ABLATION["base"]
    assert paper.ABLATION["ENLA"] - base == pytest.approx(0.16)
    assert paper.ABLATION["ENLA + k + contrast"] - base == pytest.approx(0.27)
    grid = {(n1, n2): psnr for n1, row in paper.N1N2.items() for n2, psnr in row.items()}
    assert max(grid, key=grid.get) == ("2", "8")
    assert len(grid) == 16
    enlca, nlsa = paper.EFFICIENCY["ENLCA-m16"], paper.EFFICIENCY["NLSA-r4"]
    assert enlca[1] - nlsa[1] == pytest.approx(0.11)
    assert paper.EFFICIENCY["ENLCA-m128"][1] == paper.CRISSCROSS["ENLCA"] == 27.12


def test_every_row_is_a_recipe_of_the_trainer():
    tables = (rows.ABLATION, rows.AMPLIFICATION, rows.EFFICIENCY, rows.CRISSCROSS, rows.N1N2)
    for table in tables:
        assert set(table.values()) <= set(RECIPES)
    assert list(rows.ABLATION) == list(paper.ABLATION)
    assert [len(table) for table in tables] == [5, 8, 11, 5, 16]


def test_rows_that_mean_the_same_run_share_it():
    full = key(rows.FULL)
    assert full == key(rows.AMPLIFICATION[6]) == key(rows.EFFICIENCY["ENLCA-m128"])
    assert full == key(rows.CRISSCROSS["ENLCA"]) == key(rows.N1N2["2", "8"])
    assert key(rows.BASE) == key(rows.EFFICIENCY["baseline"])
    assert key(rows.ABLATION["ENLA + contrast"]) == key(rows.AMPLIFICATION[1])
    others = {full, key(rows.BASE), key(rows.ENLA), key(rows.ENLA_K), key(rows.NLA), key(rows.NLSA)}
    assert len(others) == 6
    assert key(rows.FULL, seed=1) != full
    assert key(rows.FULL, steps=2000) != full


@pytest.mark.parametrize(("name", "expected"), [("paper-x4", "d2b104848e0e"), ("paper-edsr-small-x4", "6d2074e273f7")])
def test_settings_that_came_later_leave_the_keys_of_older_results(name, expected):
    run = RECIPES[name]
    assert key_of(run) == expected
    changes = "data.candidates=2", "data.any_offset=true", "loss.pixel=l2", "model.block_width=8", "optimizer.kind=muon"
    for setting in changes:
        assert key_of(apply_settings(run, [setting])) != expected


def test_all_of_it_is_so_many_runs():
    needed = [spec for name in PRIORITY for spec in ITEMS[name].needs(GPU)]
    runs = unique_runs(needed, GPU)
    # 5 of the ablation, NLA, NLSA, criss-cross and 2 more estimates with three seeds; 6 more k and 7 more m with two;
    # 15 more cells of the grid
    assert len(runs) == 3 * (5 + 3 + 2) + 2 * (6 + 7) + 15
    assert set(PRIORITY) == set(ITEMS)


def test_a_miniature_keeps_attention_and_loss():
    for recipe in (rows.ENLA, rows.FULL, rows.NLSA, rows.N1N2["3", "20"]):
        theirs, ours = RECIPES[recipe], config_of(RunSpec(recipe, 2), GPU, 1000)
        assert ours.model.attention == theirs.model.attention
        assert ours.model.channels == 64
        assert replace(ours.loss, contrastive_start=0, num_rows=None) == replace(theirs.loss, contrastive_start=0)
        assert ours.loss.contrastive_start == 150  # 15 % as in the paper
        assert (ours.seed, ours.total_steps) == (2, 1000)
    assert config_of(RunSpec(rows.BASE, 0), GPU, 1000).model.num_attentions == 0


def test_settings_may_follow_a_recipes_name():
    exact = config_of(RunSpec(rows.ESTIMATED["exact"], 0), GPU, 1000)
    assert (exact.model.attention.kind, exact.model.attention.amplification) == ("nla", 6.0)
    assert exact.loss.contrastive_weight > 0
    assert config_of(RunSpec(rows.ESTIMATED["iid"], 0), GPU, 1000).model.attention.projection == "iid"
    assert len({key(recipe) for recipe in rows.ESTIMATED.values()}) == 3


def test_the_papers_protocol_is_the_recipe_itself():
    ours = config_of(RunSpec(rows.FULL, 0), PRESETS["paper"], 1)
    assert ours == RECIPES[rows.FULL]
    assert ours.total_steps == 1_000_000


def test_presets_go_by_budget_and_device():
    assert choose_preset("auto", budget=30, on_cuda=True).name == "smoke"
    assert choose_preset("auto", budget=900, on_cuda=True).name == "gpu"
    assert choose_preset("auto", budget=900, on_cuda=False).name == "cpu"
