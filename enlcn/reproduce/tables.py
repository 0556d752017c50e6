"""Tables: rows of numbers that become Markdown, CSV and HTML, each figure with its spread over seeds."""

import csv
import html
import io
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Spread:
    """A mean over `count` runs and their standard deviation (of a sample; None for a single run)."""

    mean: float
    deviation: float | None
    count: int

    @staticmethod
    def of(values: Sequence[float]) -> "Spread | None":
        """The spread of some values; None of none."""
        if not values:
            return None
        return Spread(statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None, len(values))


Cell = str | float | int | Spread | None
MISSING = "–"


def significant(value: float) -> str:
    """Three significant digits, never with an exponent.

    >>> significant(6871.3), significant(0.07684)
    ('6,870', '0.0768')
    """
    return f"{float(f'{value:.3g}'):,.12g}"


@dataclass(frozen=True)
class Column:
    """A heading and how its numbers are written (a format specification)."""

    title: str
    spec: str = ".2f"

    def show(self, cell: Cell) -> str:
        """A cell as text."""
        if cell is None:
            return MISSING
        if isinstance(cell, str):
            return cell
        if isinstance(cell, Spread):
            spread = "" if cell.deviation is None else f" ± {format(cell.deviation, self.spec.lstrip('+'))}"
            return format(cell.mean, self.spec) + spread
        if isinstance(cell, int):
            return f"{cell:,}"
        return significant(cell) if self.spec == ".3g" else format(cell, self.spec)


@dataclass(frozen=True)
class Table:
    """A title, columns, rows, and what is to be said beneath."""

    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    note: str = ""
    # Indices of rows set off by a line above them.
    breaks: list[int] = field(default_factory=list)

    def to_markdown(self) -> str:
        """A table in GitHub's Markdown."""
        lines = [f"**{self.title}**", ""] if self.title else []
        lines.append("| " + " | ".join(column.title for column in self.columns) + " |")
        lines.append("|" + "|".join("---" if index == 0 else "---:" for index in range(len(self.columns))) + "|")
        lines += ["| " + " | ".join(self._texts(row)) + " |" for row in self.rows]
        return "\n".join([*lines, *(["", self.note] if self.note else [])])

    def to_html(self) -> str:
        """A table element with its title and note."""
        head = "".join(f"<th>{html.escape(column.title)}</th>" for column in self.columns)
        body = []
        for index, row in enumerate(self.rows):
            style = ' class="break"' if index in self.breaks else ""
            cells = "".join(f"<td>{html.escape(text)}</td>" for text in self._texts(row))
            body.append(f"<tr{style}>{cells}</tr>")
        title = f"<caption>{html.escape(self.title)}</caption>" if self.title else ""
        note = f'<p class="note">{html.escape(self.note)}</p>' if self.note else ""
        return f"<table>{title}<thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>{note}"

    def to_csv(self) -> str:
        """Full precision; a spread takes three columns: mean, deviation, count."""
        wide = [any(isinstance(row[index], Spread) for row in self.rows) for index in range(len(self.columns))]
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        heading: list[str] = []
        for column, is_wide in zip(self.columns, wide, strict=True):
            heading += [column.title, f"{column.title} (deviation)", f"{column.title} (runs)"][: 3 if is_wide else 1]
        writer.writerow(heading)
        for row in self.rows:
            cells: list[object] = []
            for cell, is_wide in zip(row, wide, strict=True):
                if isinstance(cell, Spread):
                    cells += [cell.mean, "" if cell.deviation is None else cell.deviation, cell.count]
                else:
                    cells += ["" if cell is None else cell, "", ""][: 3 if is_wide else 1]
            writer.writerow(cells)
        return text.getvalue()

    def _texts(self, row: list[Cell]) -> list[str]:
        return [column.show(cell) for column, cell in zip(self.columns, row, strict=True)]
