"""Vignettes: scripts in the percent format, run from top to bottom, as Markdown pages with their output and pictures.

A line `# %%` starts a cell of Python, `# %% [markdown]` one of text, its lines as comments, and `# %% [bash]` one of shell commands,
likewise as comments.  After a cell of Python its last expression is shown, as in a notebook.  `# %% raises` says that the cell ends in
an exception; its message is shown, and the run fails where there is none.  Editors and Jupytext open such scripts as notebooks.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
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

from nrmmix.common import files

MARKER = re.compile(r"^# %%(?: \[(?P<kind>\w+)\])?(?P<rest>.*)$")
KINDS = ("markdown", "bash")


class VignetteError(RuntimeError):
    """A cell that did not end as it should."""


@dataclass(frozen=True)
class Cell:
    """A part of a script."""

    kind: str  # "python", "markdown" or "bash"
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
    kind, raises, first, lines = "", False, 1, []

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
            raise ValueError(f"line {number}: {line!r} is no cell; there are '# %%', '# %% raises', '# %% [markdown]' and '# %% [bash]'.")
    finish()
    return found


def _uncommented(text: str, first: int) -> str:
    lines = text.splitlines()
    for offset, line in enumerate(lines):
        if line and not line.startswith("#"):
            raise ValueError(f"line {first + offset}: {line!r} is in a cell of text, whose lines begin with #.")
    return "\n".join(line[2:] if line.startswith("# ") else line[1:] for line in lines)


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
    >>> print(run(folder / "sum.py", folder).read_text())
    ```python
    1 + 1
    ```
    <BLANKLINE>
    ```text
    2
    ```
    <BLANKLINE>
    """
    source = Path(script)
    page = files.target(Path(folder).resolve() / f"{source.stem}.md", ".md", "a page")
    session = Session(source.name, source.stem)
    with contextlib.chdir(Path.cwd()):  # a cell may go elsewhere
        parts = [session.shown(cell) for cell in cells(source.read_text(encoding="utf-8"))]
    pictures = page.parent / source.stem
    if session.pictures:
        pictures.mkdir(exist_ok=True)
    for name, content in session.pictures.items():
        with files.replaced(pictures / name) as file:
            file.write(content)
    with files.replaced(page) as file:
        file.write(("\n\n".join(parts) + "\n").encode())
    return page


def _open_figures() -> set[int]:
    return set(sys.modules["matplotlib.pyplot"].get_fignums()) if "matplotlib.pyplot" in sys.modules else set()


class Session:
    """Names that cells share, and the pictures they have made."""

    def __init__(self, name: str, stem: str) -> None:
        self.name, self.stem = name, stem
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.pictures: dict[str, bytes] = {}

    def shown(self, cell: Cell) -> str:
        """A cell and what came of it, as Markdown."""
        if cell.kind == "markdown":
            return cell.text
        if cell.kind == "bash":
            return _fenced("console", "\n".join(f"$ {command}\n{output}".rstrip("\n") for command, output in self._shell(cell)))
        output, pictures = self._python(cell)
        parts = [_fenced("python", cell.text)]
        if output.strip():
            parts.append(_fenced("text", output))
        return "\n\n".join([*parts, *(f"![]({self.stem}/{name})" for name in pictures)])

    def _python(self, cell: Cell) -> tuple[str, list[str]]:
        import pandas as pd

        before = _open_figures()
        tree = ast.parse(cell.text, filename=self.name)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        ast.increment_lineno(tree, cell.line - 1)
        out = io.StringIO()
        raised = None
        with contextlib.redirect_stdout(out), warnings.catch_warnings(), pd.option_context("display.width", 120, "display.max_columns", 20):
            warnings.simplefilter("always", UserWarning)
            warnings.showwarning = lambda message, category, *_: print(f"{category.__name__}: {message}", file=out)
            try:
                exec(compile(tree, self.name, "exec"), self.names)
                if last is not None:
                    expression = ast.increment_lineno(ast.Expression(last.value), cell.line - 1)
                    value = eval(compile(expression, self.name, "eval"), self.names)
                    if value is not None and not _is_drawing(value):
                        print(value if isinstance(value, str) else repr(value))
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
                ["bash", "-c", command], capture_output=True, text=True, env=os.environ | {"PATH": here, "MPLBACKEND": "Agg"}, check=False
            )
            if (done.returncode != 0) != cell.raises:
                how = f"ended with status {done.returncode}" if done.returncode else "should fail, and did not"
                raise VignetteError(f"{self.name}: the cell at line {cell.line}: {shlex.quote(command)} {how}:\n{done.stderr}")
            status = f"[exit status {done.returncode}]\n" if done.returncode else ""
            results.append((command, done.stdout + done.stderr + status))
        return results


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
