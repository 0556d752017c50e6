"""What tables say of trained rows: each row's own time, and differences over the same seeds only."""

from enlcn.reproduce import n1n2, rows
from enlcn.reproduce.preset import PRESETS
from enlcn.reproduce.rows import RunSpec, config_of, key_of
from enlcn.reproduce.section import Context
from enlcn.reproduce.store import Store
from enlcn.reproduce.trained_rows import measure_rows, psnr_table

PRESET, STEPS = PRESETS["smoke"], 10
# What runs of one kind (ENLCA with m up to 128) took, and how many shared the device.
TIMES = {"baseline": (5.0, 1), "ENLCA-m128": (40.0, 1), "ENLCA-m2": (10.0, 3)}


def table_of(tmp_path, material, labels):
    store = Store(tmp_path)
    # What the planner timed for the whole kind must not be shown as a row's.
    store.write_plan({"jobs": 1, "seconds_per_step": {"none": 0.777, "enlca": 0.777}, "data": {}})
    for label in labels:
        spec = RunSpec(rows.EFFICIENCY[label], 0)
        milliseconds, jobs = TIMES[label]
        run = {"recipe": spec.recipe, "seed": 0, "steps": STEPS, "skipped_steps": 0, "parameters": 1, "seconds": 1.0}
        run |= {"psnr": {"Set5": 30.0}, "milliseconds_per_step": milliseconds, "jobs": jobs}
        store.write_run(key_of(config_of(spec, PRESET, STEPS)), run)
    context = Context(PRESET, STEPS, material, store, (), 1.0)
    data = measure_rows(context, {label: rows.EFFICIENCY[label] for label in labels})
    return psnr_table(data, "", paper={}, paper_set="Urban100", reference="baseline")


def test_each_row_shows_its_own_time(tmp_path, material):
    table = table_of(tmp_path, material, ["baseline", "ENLCA-m128", "ENLCA-m2"])
    assert [row[-1].mean for row in table.rows] == [5.0, 40.0, 10.0]
    assert "up to 3 runs shared the device" in table.note


def test_of_runs_alone_nothing_is_said(tmp_path, material):
    table = table_of(tmp_path, material, ["baseline", "ENLCA-m128"])
    assert "ms/step: each row's own runs" in table.note
    assert "shared" not in table.note


def test_cells_of_the_grid_are_compared_over_common_seeds():
    """One cell has two more seeds, both far better: the grid is still flat to 0.1 dB."""
    cells = {f"{a} {b}": {"seeds": [0], "psnr": {"Set5": [30.0]}} for a, b in rows.N1N2}
    cells["1 4"] = {"seeds": [0], "psnr": {"Set5": [29.9]}}
    cells["2 8"] = {"seeds": [0, 1, 2], "psnr": {"Set5": [30.0, 35.0, 36.0]}}
    cells["3 20"] = {"seeds": [], "psnr": {}}
    section = n1n2.show({"rows": cells})
    assert n1n2.common_seeds({"rows": cells}) == [0]
    assert "best of 15 cells, over the seeds that all of them have (0): ours 0.100 dB on Set5" in section.text[1]
    assert "Means over all seeds a cell has, 1 to 3" in section.tables[0].note
    assert not section.tables[1].note
    drawn = section.charts["n1n2"]().axes[0].images[0].get_array()
    assert drawn.max() == 30.0


def test_without_common_seeds_nothing_is_compared():
    cells = {f"{a} {b}": {"seeds": [0], "psnr": {"Set5": [30.0]}} for a, b in rows.N1N2}
    cells["1 4"] = {"seeds": [1], "psnr": {"Set5": [31.0]}}
    assert len(n1n2.show({"rows": cells}).text) == 1
