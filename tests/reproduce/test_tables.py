"""Tables as Markdown, CSV and HTML."""

import csv
import io
import statistics

from enlcn.reproduce.tables import Column, Spread, Table

VALUES = [31.5, 31.7, 31.75]
TABLE = Table(
    "PSNR",
    [Column("row"), Column("paper"), Column("ours", ".3f"), Column("gain", "+.2f")],
    [["a <b>", 32.21, Spread.of(VALUES), 0.0], ["c", None, Spread.of([30.0]), -0.5]],
    "a note",
    breaks=[1],
)


def test_spread_is_the_sample_deviation():
    spread = Spread.of(VALUES)
    assert (spread.mean, spread.count) == (statistics.fmean(VALUES), 3)
    assert spread.deviation == statistics.stdev(VALUES)
    assert Spread.of([1.0]) == Spread(1.0, None, 1)
    assert Spread.of([]) is None


def test_markdown():
    lines = TABLE.to_markdown().splitlines()
    assert lines[0] == "**PSNR**"
    assert "| a <b> | 32.21 | 31.650 ± 0.132 | +0.00 |" in lines
    assert "| c | – | 30.000 | -0.50 |" in lines
    assert lines[-1] == "a note"
    assert len({line.count("|") for line in lines if line.startswith("|")}) == 1


def test_csv_has_full_precision_and_columns_for_the_spread():
    rows = list(csv.DictReader(io.StringIO(TABLE.to_csv())))
    assert float(rows[0]["ours (deviation)"]) == statistics.stdev(VALUES)
    assert rows[0]["ours (runs)"] == "3"
    assert rows[1]["paper"] == rows[1]["ours (deviation)"] == ""


def test_numbers_of_all_sizes_have_three_digits():
    column = Column("ms", ".3g")
    assert [column.show(value) for value in (6871.3, 42.81, 0.07684, 1.0)] == ["6,870", "42.8", "0.0768", "1"]


def test_html_escapes():
    text = TABLE.to_html()
    assert "a &lt;b&gt;" in text
    assert '<tr class="break"><td>c</td>' in text
