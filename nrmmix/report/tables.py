"""Tables of text, HTML, LaTeX and CSV, on statsmodels' SimpleTable.

SimpleTable leaves what is in its cells as it is.  Names come from the user's data, so the cells here are escaped in every format.
"""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from typing import Any

from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import Cell, SimpleTable, get_output_format

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
}


def escape(text: str, output_format: str) -> str:
    """Text that means itself in a format.

    Parameters
    ----------
    text : str
    output_format : {"txt", "csv", "html", "latex"}

    Returns
    -------
    str

    Examples
    --------
    >>> escape("a < b", "html"), escape("a_b", "latex"), escape("a, b", "csv"), escape("a < b", "txt")
    ('a &lt; b', 'a\\\\_b', '"a, b"', 'a < b')
    """
    kind = get_output_format(output_format)
    if kind == "html":
        return html.escape(text)
    if kind == "latex":
        return "".join(LATEX.get(letter, letter) for letter in text)
    if kind == "csv" and any(letter in text for letter in ',"\n'):
        return '"' + text.replace('"', '""') + '"'
    return text


class EscapedCell(Cell):
    """A cell whose text means itself in every format; headings of the first column are on the left."""

    def format(self, width: int, output_format: str = "txt", **fmt: Any) -> str:
        # CSV reaches cells as text, under its own options; padding would be part of its values.
        kind = fmt["fmt"] if fmt.get("fmt") == "csv" else output_format
        kept, self.data = self.data, escape(str(self.data), kind)
        try:
            return super().format(0 if kind == "csv" else width, output_format, **{**fmt, "replacements": {}})
        finally:
            self.data = kept

    def alignment(self, output_format: str, **fmt: Any) -> str:
        first = self.datatype == "header" and self.row is not None and self.row[0] is self
        return "l" if first else super().alignment(output_format, **fmt)


class EscapedSummary(Summary):
    """A summary in which the tables have their own columns, and the text at the end is wrapped and escaped.

    Parameters
    ----------
    tables : sequence of SimpleTable
    text : str
        Paragraph at the end.
    width : int
        Characters in a line of text.
    """

    def __init__(self, tables: Sequence[SimpleTable], text: str, width: int) -> None:
        super().__init__()
        self.tables = list(tables)
        self.extra_txt = text
        self.width = width

    def as_text(self) -> str:
        parts = [table.as_text() for table in self.tables]
        # A line between two tables is there once.
        parts[:-1] = [part.rsplit("\n", 1)[0] for part in parts[:-1]]
        lines = "\n".join([*parts, *textwrap.wrap(self.extra_txt, self.width)]).splitlines()
        return "\n".join(line.rstrip() for line in lines)

    def as_html(self) -> str:
        return "\n".join([*(table.as_html() for table in self.tables), f"<p>{escape(self.extra_txt, 'html')}</p>"])

    def as_latex(self) -> str:
        tables = [table.as_latex_tabular(center=False) for table in self.tables]
        return "\n\n\\medskip\n".join([*tables, escape(self.extra_txt, "latex")])

    def as_csv(self) -> str:
        return "\n".join([*(table.as_csv().lstrip() for table in self.tables), escape(self.extra_txt, "csv")])

    def __repr__(self) -> str:
        return self.as_text()


def table(
    cells: Sequence[Sequence[Any]], widths: Sequence[int], aligns: str, *, headers: Sequence[str] | None = None,
    title: str = "", colsep: str = " ", total: int = 0,
) -> SimpleTable:
    """A table with escaped cells.

    Parameters
    ----------
    cells : rows of values
    widths : sequence of int
        Characters of each column, as text.
    aligns : str
        A letter l, r or c for each column.
    headers : sequence of str, optional
        Headings.
    title : str
        Above the table.
    colsep : str
        Between columns, as text.
    total : int
        Characters of the whole row, as text; filled up on the right.

    Returns
    -------
    SimpleTable
    """
    used = sum(widths) + len(colsep) * (len(widths) - 1)
    text = {
        "fmt": "txt", "colwidths": list(widths), "colsep": colsep, "row_post": " " * max(total - used, 0), "data_aligns": aligns,
        "header_align": "r", "table_dec_above": "=", "table_dec_below": "=", "title_align": "c",
    }
    return SimpleTable(
        [[str(value) for value in row] for row in cells], headers=headers, title=title, celltype=EscapedCell,
        txt_fmt=text, ltx_fmt={"data_aligns": aligns, "header_align": "r"}, html_fmt={"data_aligns": aligns},
    )
