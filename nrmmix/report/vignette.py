"""Vignettes: scripts in the percent format, run from top to bottom, as Markdown pages with their output and pictures.

A line `# %%` starts a cell of Python, `# %% [markdown]` one of text, its lines as comments, and `# %% [bash]` one of shell commands,
likewise as comments.  `# %% [prose]` is text whose braces are filled in as those of an f-string by the names of the cells before, so that
its figures are computed.  After a cell of Python its last expression is shown, as in a notebook.  `# %% raises` says that the cell ends
in an exception; its message is shown, and the run fails where there is none.  Editors and Jupytext open such scripts as notebooks.

A comment before the first cell, `# short: draws = 25_000 -> draws = 400`, says what stands in for a piece of code in the short form of a
page (`nrmmix vignettes --fast`), so that the code itself has the full length alone.

A page says at its end by which code it was made (`digest`) and with which version of the package; a test compares.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import hashlib
import io
import os
import re
import shlex
import subprocess
import sys
import traceback
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nrmmix import __version__
from nrmmix.common import files
from nrmmix.datasets import loaders
from nrmmix.report.recorded import USED, MissingResults, is_fast

MARKER = re.compile(r"^# %%(?: \[(?P<kind>\w+)\])?(?P<rest>.*)$")
SHORT = re.compile(r"^# short: (?P<code>.+) -> (?P<instead>.+)$")
KINDS = ("markdown", "bash", "prose")
BRACES = re.compile(r"\{(?:[^{}]|\{[^{}]*\})*\}")  # of prose


class VignetteError(RuntimeError):
    """A cell that did not end as it should."""


@dataclass(frozen=True)
class Cell:
    """A part of a script."""

    kind: str  # "python", "markdown", "bash" or "prose"
    raises: bool
    line: int  # of the first line below the marker, counted from 1
    text: str


def cells(source: str) -> list[Cell]:
    """Parts of a script in the percent format.

    What stands before the first marker, such as a docstring, is for readers of the script and is left out.  A ValueError if a marker names
    an unknown kind of cell, or a cell of text has a line that is no comment.

    Examples
    --------
    >>> [(cell.kind, cell.text) for cell in cells("# %% [markdown]\\n# A sum\\n# %%\\n1 + 1\\n")]
    [('markdown', 'A sum'), ('python', '1 + 1')]
    """
    found: list[Cell] = []
    kind, raises, first = "", False, 1
    lines: list[str] = []

    def finish() -> None:
        text = "\n".join(lines).strip("\n")
        if kind and text.strip():
            found.append(Cell(kind, raises, first, text if kind == "python" else _uncommented(text, first)))

    for number, line in enumerate(source.splitlines(), start=1):
        marker = MARKER.match(line)
        if marker is None:
            lines.append(line)
            continue
        finish()
        kind, raises, first, lines = marker["kind"] or "python", marker["rest"].strip() == "raises", number + 1, []
        if kind not in ("python", *KINDS) or (marker["rest"].strip() and not raises):
            raise ValueError(f"line {number}: {line!r} is no cell; there are '# %%', '# %% raises', '# %% [markdown]', "
                             "'# %% [prose]' and '# %% [bash]'.")
    finish()
    return found


def shortened(source: str) -> str:
    """Return a script in its short form, by the comments `# short: CODE -> INSTEAD` before its first cell.

    A ValueError where a comment cannot be read, or where its code is not in the cells of Python exactly once.

    Examples
    --------
    >>> shortened("# short: range(9) -> range(3)\\n\\n# %%\\nlist(range(9))\\n").splitlines()[-1]
    'list(range(3))'
    """
    lines = source.splitlines()
    head = next((number for number, line in enumerate(lines) if MARKER.match(line)), len(lines))
    code = [False] * len(lines)
    for cell in cells(source):
        code[cell.line - 1:] = [cell.kind == "python"] * (len(lines) - cell.line + 1)
    for number, line in enumerate(lines[:head], start=1):
        if not line.startswith("# short"):
            continue
        found = SHORT.match(line)
        if found is None:
            raise ValueError(f"line {number}: {line!r} cannot be read; write '# short: CODE -> INSTEAD'.")
        where = [j for j, is_code in enumerate(code) if is_code and found["code"] in lines[j]]
        if len(where) != 1 or lines[where[0]].count(found["code"]) != 1:
            count = sum(lines[j].count(found["code"]) for j in where)
            raise ValueError(f"line {number}: {found['code']!r} must be in the cells of Python once; it is there {count} times.")
        lines[where[0]] = lines[where[0]].replace(found["code"], found["instead"])
    return "\n".join(lines) + "\n"


def _uncommented(text: str, first: int) -> str:
    lines = text.splitlines()
    for offset, line in enumerate(lines):
        if line and not line.startswith("#"):
            raise ValueError(f"line {first + offset}: {line!r} is in a cell of text, whose lines begin with #.")
    return "\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)


def digest(source: str) -> str:
    """Return what changes when what a script computes does: its code, that in the braces of prose too, and tables that its code names.

    Text does not count, so that it can be mended alike in script and page.  Records of benchmarks have digests of their own.

    Examples
    --------
    >>> script = "# %% [markdown]\\n# A sum\\n# %%\\n1 + 1\\n"
    >>> digest(script) == digest(script.replace("sum", "total")), digest(script) == digest(script.replace("1 + 1", "1 + 2"))
    (True, False)
    """
    code = []
    for cell in cells(source):
        text = "".join(BRACES.findall(cell.text.replace("{{", "").replace("}}", ""))) if cell.kind == "prose" else cell.text
        code += [] if cell.kind == "markdown" or not text else [f"{cell.kind} {cell.raises}\n{text}\n"]
    found = hashlib.sha256("".join(code).encode())
    for name in loaders.FILES:
        if re.search(rf"(?<![a-z]){name.partition('.')[0]}(?![a-z])", "".join(code)):
            found.update(f"{name} {hashlib.sha256(loaders.file_of(name).read_bytes()).hexdigest()}\n".encode())
    return found.hexdigest()[:16]


def made_by(source: str) -> str:
    """Return the line of a page that says by which code and version of the package it was made."""
    return f"<!-- made: {digest(source)} nrmmix {__version__} -->"


@dataclass(frozen=True)
class Part:
    """A cell and what came of it."""

    cell: Cell
    text: str = ""  # what it has printed; of prose, the text with its braces filled in
    pictures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Page:
    """A vignette that was run."""

    stem: str
    parts: tuple[Part, ...]
    pictures: dict[str, bytes]  # files by name
    recorded: dict[str, str]  # files of results that it has read, and digests of them
    made: str = ""  # by which code and version

    @property
    def title(self) -> str:
        """Its first heading; the name of the script where there is none."""
        texts = (part.text or part.cell.text for part in self.parts if part.cell.kind in ("markdown", "prose"))
        found = (re.search(r"^# +(.+)$", text, re.MULTILINE) for text in texts)
        return next((heading[1] for heading in found if heading), self.stem)

    def markdown(self) -> str:
        """The page, which looks for its pictures in a folder of the script's name beside it."""
        parts = [_as_markdown(part, self.stem) for part in self.parts]
        # a page says from which results its figures are, and a test that these are still the same
        parts += [f"<!-- recorded: {name} {digest} -->" for name, digest in sorted(self.recorded.items())]
        parts += [self.made] if self.made else []
        return "\n\n".join(parts) + "\n"


def _as_markdown(part: Part, stem: str) -> str:
    if part.cell.kind in ("markdown", "prose"):
        return part.text
    if part.cell.kind == "bash":
        return _fenced("console", part.text)
    shown = [_fenced("python", part.cell.text)]
    if part.text.strip():
        shown.append(_fenced("text", part.text))
    return "\n\n".join([*shown, *(f"![]({stem}/{name})" for name in part.pictures)])


def play(script: Any) -> Page:
    """Run a vignette, and give back its cells with what came of them.

    In its short form where NRMMIX_FAST is set. A VignetteError names the line of a cell that fails, or that should raise and does not;
    MissingResults is raised as it is.
    """
    source = Path(script)
    text = source.read_text(encoding="utf-8")
    short = shortened(text)  # in the long form too it is said where there is none
    session = Session(source.name)
    used: dict[str, str] = {}
    token = USED.set(used)
    try:
        with contextlib.chdir(Path.cwd()):  # a cell may go elsewhere
            parts = tuple(session.played(cell) for cell in cells(short if is_fast() else text))
    finally:
        USED.reset(token)
    return Page(source.stem, parts, session.pictures, used, made_by(text))


def run(script: Any, folder: Any) -> Path:
    """Run a vignette, a script in the percent format, and write it with its output; give back the path of the page.

    The page goes into the folder, under the script's name with the ending .md, and pictures into a folder beside it that has the script's
    name.  A VignetteError names the line of a cell that fails, or that should raise and does not, and nothing is written then; a ValueError
    or OSError where the script cannot be read, or the page not be written.

    Examples
    --------
    >>> import tempfile
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "sum.py").write_text("# %%\\n1 + 1\\n")
    >>> print(run(folder / "sum.py", folder).read_text().partition("\\n<!-- made")[0])
    ```python
    1 + 1
    ```
    <BLANKLINE>
    ```text
    2
    ```
    <BLANKLINE>
    """
    out = files.target(Path(folder).resolve() / f"{Path(script).stem}.md", ".md", "a page")
    return written(play(script), out)


def written(page: Page, out: Path) -> Path:
    """Write a page as Markdown, and its pictures; pictures of an earlier page that are no longer there go."""
    pictures = out.parent / page.stem
    if page.pictures:
        pictures.mkdir(exist_ok=True)
    for name, content in page.pictures.items():
        with files.replaced(pictures / name) as file:
            file.write(content)
    for old in pictures.glob("[0-9][0-9].png"):
        if old.name not in page.pictures:
            old.unlink()
    with files.replaced(out) as file:
        file.write(page.markdown().encode())
    return out


def _open_figures() -> set[int]:
    return set(sys.modules["matplotlib.pyplot"].get_fignums()) if "matplotlib.pyplot" in sys.modules else set()


class Session:
    """Names that cells share, and the pictures they have made."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.pictures: dict[str, bytes] = {}

    def played(self, cell: Cell) -> Part:
        """A cell and what came of it."""
        if cell.kind == "markdown":
            return Part(cell, cell.text)
        if cell.kind == "prose":
            return Part(cell, self._filled(cell))
        if cell.kind == "bash":
            return Part(cell, "\n".join(f"$ {command}\n{output}".rstrip("\n") for command, output in self._shell(cell)))
        output, pictures = self._python(cell)
        return Part(cell, output, tuple(pictures))

    def _filled(self, cell: Cell) -> str:
        """Text with its braces filled in."""
        try:
            return eval(compile(prose_code(cell.text), self.name, "eval"), self.names).strip("\n")
        except Exception as error:
            raise VignetteError(
                f"{self.name}: the text at line {cell.line} cannot be filled in: {type(error).__name__}: {error}"
            ) from error

    def _python(self, cell: Cell) -> tuple[str, list[str]]:
        import pandas as pd

        before = _open_figures()
        tree = ast.parse(cell.text, filename=self.name)
        last = tree.body[-1] if tree.body else None
        if isinstance(last, ast.Expr):
            tree.body.pop()
        ast.increment_lineno(tree, cell.line - 1)
        out = io.StringIO()
        raised = None
        with contextlib.redirect_stdout(out), warnings.catch_warnings(), pd.option_context("display.width", 120, "display.max_columns", 20):
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, category, *_: print(f"{category.__name__}: {message}", file=out)
            try:
                exec(compile(tree, self.name, "exec"), self.names)
                if isinstance(last, ast.Expr):
                    expression = ast.increment_lineno(ast.Expression(last.value), cell.line - 1)
                    value = eval(compile(expression, self.name, "eval"), self.names)
                    if value is not None and not _is_drawing(value):
                        print(value if isinstance(value, str) else repr(value))
            except MissingResults:
                raise
            except Exception as error:
                raised = error
                print(f"{type(error).__name__}: {error}")
        if raised is not None and not cell.raises:
            trace = "".join(traceback.format_exception(raised))
            raise VignetteError(f"{self.name}: the cell at line {cell.line} failed:\n{trace}") from raised
        if raised is None and cell.raises:
            raise VignetteError(f"{self.name}: the cell at line {cell.line} should raise an exception, and did not.")
        return out.getvalue(), self._figures(before)

    def _figures(self, before: set[int]) -> list[str]:
        """Names of the pictures that a cell has made; figures that were open before it are the caller's."""
        made = []
        for number in sorted(_open_figures() - before):
            from matplotlib import pyplot

            content, name = io.BytesIO(), f"{len(self.pictures) + 1:02d}.png"
            pyplot.figure(number).savefig(content, format="png", dpi=100, metadata={"Software": None})
            pyplot.close(number)
            self.pictures[name] = content.getvalue()
            made.append(name)
        return made

    def _shell(self, cell: Cell) -> list[tuple[str, str]]:
        """Each command with its output; a command goes on in the next line after a backslash."""
        results = []
        here = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
        for command in re.split(r"(?<!\\)\n", cell.text):
            done = subprocess.run(
                ["bash", "-c", command.encode()], capture_output=True, encoding="utf-8", errors="replace", check=False,
                env=os.environ | {"PATH": here, "MPLBACKEND": "Agg", "PYTHONUTF8": "1"},
            )
            if (done.returncode != 0) != cell.raises:
                how = f"ended with status {done.returncode}" if done.returncode else "should fail, and did not"
                raise VignetteError(f"{self.name}: the cell at line {cell.line}: {shlex.quote(command)} {how}:\n{done.stderr}")
            status = f"[exit status {done.returncode}]\n" if done.returncode else ""
            results.append((command, done.stdout + done.stderr + status))
        return results


def prose_code(text: str) -> str:
    """An expression of Python that fills in the braces of a text.

    Examples
    --------
    >>> two = 2
    >>> eval(prose_code("twice {two} is {2 * two:.1f}")).strip()
    'twice 2 is 4.0'
    """
    if '"""' in text:
        raise ValueError('prose cannot hold three double quotes in a row.')
    doubled = text.replace("\\", "\\\\")
    return f'f"""\n{doubled}\n"""'


def _is_drawing(value: Any) -> bool:
    """Axes, artists and collections of them: the picture is shown, not its name."""
    import numpy as np

    first = value
    while isinstance(first, (list, tuple, np.ndarray)) and len(first):
        first = first[0]
    return type(first).__module__.startswith("matplotlib.")


def _fenced(language: str, text: str) -> str:
    lines = "\n".join(line.rstrip() for line in text.strip("\n").splitlines())
    return f"```{language}\n{lines}\n```"


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line: `python -m nrmmix.report.vignette SCRIPT.py ... --to FOLDER`."""
    parser = argparse.ArgumentParser(prog="python -m nrmmix.report.vignette", description="Run vignettes and write them with their output.")
    parser.add_argument("scripts", nargs="+", metavar="SCRIPT.py", help="a Python script in the percent format")
    parser.add_argument("--to", default=".", metavar="FOLDER", help="where the pages go (default: here)")
    options = parser.parse_args(arguments)
    for script in options.scripts:
        try:
            print(run(script, options.to), flush=True)
        except (VignetteError, ValueError, OSError) as error:
            print(f"{script}: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
