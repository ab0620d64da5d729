"""Tables as text, HTML, LaTeX and CSV, on statsmodels' SimpleTable.

SimpleTable leaves what is in its cells as it is.  Names come from the user's data, so the tables here escape them in every format.
"""

from __future__ import annotations

import csv
import html
import io
import textwrap
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any

from statsmodels.iolib.summary import Summary
from statsmodels.iolib.table import Cell, SimpleTable

from nrmmix.common.messages import printable

LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}",
    "[": "{[}", "*": "{*}",  # after the \\ of a row these would be its arguments
    "±": r"$\pm$", "×": r"$\times$", "·": r"$\cdot$", "≤": r"$\leq$", "≥": r"$\geq$", "°": r"$^{\circ}$", "²": "$^{2}$", "³": "$^{3}$",
    "µ": r"$\mu$", "–": "--", "—": "---", "‘": "`", "’": "'", "“": "``", "”": "''", "…": r"\ldots{}",
    "ß": r"\ss{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}", "ø": r"\o{}", "Ø": r"\O{}", "ł": r"\l{}", "Ł": r"\L{}",
}
LATEX_ACCENTS = dict(zip("\u0300\u0301\u0302\u0303\u0304\u0306\u0307\u0308\u030a\u030b\u030c\u0327", "`'^~=u.\"rHvc", strict=True))
GREEK = (
    "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi chi psi omega "
    "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega"
).split()

MANY = 8  # columns, from which on they are narrower on a narrow screen
STYLE = """\
<style>
.nrmmix table { border-collapse: collapse; border-top: 2px solid; border-bottom: 1px solid; margin: 0 0 0.9em 0; font-size: 0.95em; }
.nrmmix caption { caption-side: top; text-align: left; font-weight: bold; padding: 0 0 0.3em 0; }
.nrmmix th, .nrmmix td { border: 0; padding: 0.15em 0.7em; background: none; vertical-align: top; }
.nrmmix th { font-weight: 600; }
.nrmmix thead th { border-bottom: 1px solid; }
.nrmmix .l { text-align: left; }
.nrmmix .r { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.nrmmix p { max-width: 60em; }
.nrmmix .t { overflow-x: auto; }
@media (max-width: 40em) {
.nrmmix table { font-size: 0.66em; }
.nrmmix th, .nrmmix td { padding: 0.15em 0.22em; }
.nrmmix table.many { font-size: 0.57em; }
.nrmmix table.many th, .nrmmix table.many td { padding: 0.15em; }
.nrmmix td.l:last-child { overflow-wrap: anywhere; }
.nrmmix .r { white-space: normal; }
}
</style>"""


def escape_latex(text: str) -> str:
    """Text that means itself in LaTeX.

    What comes out is ASCII, so that any engine and font encoding takes it; a character for which there is no command is written by its
    number, as in [U+4E2D].

    Examples
    --------
    >>> print(escape_latex("a_b ~ 50% µ é"))
    a\\_b \\textasciitilde{} 50\\% $\\mu$ \\'{e}
    """
    return "".join(map(_latex, text))


def _latex(letter: str) -> str:
    if letter in LATEX:
        return LATEX[letter]
    if letter.isascii():
        return letter
    base, *accents = list(unicodedata.normalize("NFD", letter))
    if len(accents) == 1 and base.isascii() and base.isalpha() and accents[0] in LATEX_ACCENTS:
        return f"\\{LATEX_ACCENTS[accents[0]]}{{{base}}}"
    kind, _, name = unicodedata.name(letter, "").partition(" LETTER ")
    name = name.lower() if kind == "GREEK SMALL" else name.capitalize() if kind == "GREEK CAPITAL" else ""
    name = name.replace("lamda", "lambda").replace("Lamda", "Lambda")
    return f"$\\{name}$" if name in GREEK else f"{{[}}U+{ord(letter):04X}]"


class Table(SimpleTable):
    """A table whose cells mean themselves in every format.

    Of each column `widths` has the least characters and `aligns` a letter l or r.  With `headers` the first column names the rows.  As
    text, `colsep` stands between columns, a row is filled up on the right to `total` characters, and with `wrap` long texts of the last
    column, which has the width given, go on in further lines.

    Examples
    --------
    >>> print(Table([["a & b", 1.5]], [6, 5], "lr", headers=["name", "value"]).as_csv())
    name,value
    a & b,1.5
    """

    def __init__(
        self, cells: Iterable[Iterable[Any]], widths: Sequence[int], aligns: str, *, headers: Sequence[str] | None = None,
        title: str = "", colsep: str = " ", total: int = 0, wrap: bool = False,
    ) -> None:
        rows = [[_line(value) for value in row] for row in cells]
        headings = None if headers is None else [_line(value) for value in headers]
        as_text = [line for row in rows for line in _wrapped(row, widths[-1])] if wrap else rows
        longest = [max(map(len, column)) for column in zip(*as_text, *([headings] if headings else []), strict=True)]
        widths = list(map(max, widths, longest))
        used = sum(widths) + len(colsep) * (len(widths) - 1)
        text = {
            "fmt": "txt", "colwidths": widths, "colsep": colsep, "row_post": " " * max(total - used, 0), "data_aligns": aligns,
            "header_align": "r", "table_dec_above": "=", "table_dec_below": "=", "title_align": "c",
        }
        super().__init__(as_text, headers=headings, title=title, celltype=_Cell, txt_fmt=text)
        self.rows, self.headings, self.aligns, self.wrap = rows, headings, aligns, wrap

    def as_html(self, **fmt: Any) -> str:
        lines = ['<table class="many">' if len(self.aligns) >= MANY else "<table>"]
        if self.title:
            lines.append(f"<caption>{html.escape(self.title)}</caption>")
        if self.headings:
            lines += ["<thead>", self._html_row(self.headings, ["col"] * len(self.headings)), "</thead>"]
        scopes = ["row"] + [""] * (len(self.aligns) - 1)
        # without headings the columns are pairs of a name and a value
        scopes = scopes if self.headings else ["row" if j % 2 == 0 else "" for j in range(len(self.aligns))]
        return "\n".join([*lines, "<tbody>", *(self._html_row(row, scopes) for row in self.rows), "</tbody>", "</table>"])

    def _html_row(self, row: Sequence[str], scopes: Sequence[str]) -> str:
        cells = []
        for text, scope, align in zip(row, scopes, self.aligns, strict=True):
            tag, attribute = ("th", f' scope="{scope}"') if scope and text else ("td", "")
            cells.append(f'<{tag}{attribute} class="{align}">{html.escape(text)}</{tag}>')
        return f"<tr>{''.join(cells)}</tr>"

    def as_latex_tabular(self, center: bool = True, **fmt: Any) -> str:
        lines = [r"\begin{center}"] if center else []
        if self.title:
            lines += [rf"\textbf{{{escape_latex(self.title)}}}", "", r"\noindent"]
        columns = self.aligns[:-1] + r"p{0.75\linewidth}" if self.wrap else self.aligns
        lines += [rf"\begin{{tabular}}{{{columns}}}", r"\toprule"]
        if self.headings:
            lines += [_latex_row(self.headings), r"\midrule"]
        lines += [*map(_latex_row, self.rows), r"\bottomrule", r"\end{tabular}", *([r"\end{center}"] if center else [])]
        return "\n".join(lines)

    def as_csv(self, **fmt: Any) -> str:
        lines = [[self.title]] if self.title else []
        return _csv([*lines, *([self.headings] if self.headings else []), *self.rows])


class _Cell(Cell):
    """A cell of a text table; headings of the first column, and of a last one with long texts, are on the left."""

    def alignment(self, output_format: str, **fmt: Any) -> str:
        if self.datatype == "header" and self.row is not None:
            wrapped = getattr(self.row.table, "wrap", False) and self.row[-1] is self
            if wrapped or self.row[0] is self:
                return "l"
        return super().alignment(output_format, **fmt)


def _line(value: Any) -> str:
    """One line of text: names may hold line breaks, which would break the table, and what a terminal would obey."""
    return printable("".join(" " if letter.isspace() else letter for letter in str(value)))


def _wrapped(row: Sequence[str], width: int) -> list[list[str]]:
    """A row as lines of text, its last column no wider than that."""
    first, *more = textwrap.wrap(row[-1], width, break_on_hyphens=False) or [""]
    return [[*row[:-1], first], *([""] * (len(row) - 1) + [line] for line in more)]


def _latex_row(row: Sequence[str]) -> str:
    return " & ".join(escape_latex(text) for text in row) + r" \\"


def _csv(rows: Iterable[Sequence[str]]) -> str:
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue().removesuffix("\n")


class Report(Summary):
    """Tables with their own columns each, and paragraphs below them in lines of so many characters; the last paragraph matters most."""

    def __init__(self, tables: Sequence[Table], notes: Sequence[str], width: int) -> None:
        super().__init__()
        self.tables = list(tables)
        self.notes, self.width = [_line(note) for note in notes], width
        self.extra_txt = "\n".join(self.notes)

    def as_text(self) -> str:
        """The tables one below the other, as wide as a terminal where names allow it."""
        parts = [table.as_text() for table in self.tables]
        # A line between two tables is there once.
        parts[:-1] = [part.rsplit("\n", 1)[0] for part in parts[:-1]]
        paragraphs = ["\n".join(textwrap.wrap(note, self.width, break_on_hyphens=False)) for note in self.notes]
        return "\n".join(line.rstrip() for line in "\n".join([*parts, *paragraphs]).splitlines())

    def as_html(self) -> str:
        """One element with its own style sheet, for a notebook or a page."""
        *notes, last = (html.escape(note) for note in self.notes)
        paragraphs = [*(f"<p>{note}</p>" for note in notes), f"<p><strong>{last}</strong></p>"]
        tables = (f'<div class="t">{table.as_html()}</div>' for table in self.tables)
        return "\n".join(['<div class="nrmmix">', STYLE, *tables, *paragraphs, "</div>"])

    def as_latex(self) -> str:
        r"""Tabulars and paragraphs, in ASCII; the document needs `\usepackage{booktabs}`."""
        tables = [table.as_latex_tabular(center=False) for table in self.tables]
        return "\n\n\\medskip\n".join(f"\\noindent\n{part}" for part in [*tables, *map(escape_latex, self.notes)])

    def as_csv(self) -> str:
        """The rows of all tables, then the paragraphs, each as one value."""
        return "\n".join([*(table.as_csv() for table in self.tables), _csv([[note] for note in self.notes])])

    def __repr__(self) -> str:
        return self.as_text()
