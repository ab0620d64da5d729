"""Names of columns and of what formulas compute from them, however they are written."""

from __future__ import annotations

import ast
import keyword
import unicodedata
from collections.abc import Iterable
from typing import Any


def quoted_name(name: str) -> str:
    """A column as a formula has it: in quotes where its name is no name of Python, or stands for something else in formulas.

    Examples
    --------
    >>> quoted_name("x"), quoted_name("FSC-A"), quoted_name("class"), quoted_name("inf")
    ('x', "Q('FSC-A')", "Q('class')", "Q('inf')")
    """
    as_read = unicodedata.normalize("NFKC", name)  # Python reads some letters as others that look alike
    plain = name == as_read and name.isidentifier() and not keyword.iskeyword(name) and not stands_for_else(name)
    return name if plain else f"Q({name!r})"


def stands_for_else(name: str) -> bool:
    """Whether a formula takes a name for its constant, or for a number, as patsy does.

    Examples
    --------
    >>> [stands_for_else(name) for name in ("Intercept", "nan", "Infinity", "x")]
    [True, True, True, False]
    """
    return name == "Intercept" or name.lower() in ("nan", "inf", "infinity")


def bare(name: str) -> str:
    r"""Return the name in a formula without quotes: the column, where it is one in quotes, Q("..."); else the name as it is.

    Examples
    --------
    >>> bare("Q('Solar.R')"), bare('Q("it\'s")'), bare("log(x)")
    ('Solar.R', "it's", 'log(x)')
    """
    call = _parsed(name) if name.lstrip().startswith("Q(") else None
    return name if call is None or (column := _quoted(call)) is None else column


def meant(name: Any, known: Iterable[str]) -> str | None:
    """The one of some known names that a name stands for, whatever its blanks and the quotes of columns in it; None for none.

    Examples
    --------
    >>> meant("Q('Solar.R')", ["Solar.R", "x"]), meant("log(Q('a b')+1)", ['log(Q("a b") + 1)']), meant("z", ["x"])
    ('Solar.R', 'log(Q("a b") + 1)', None)
    """
    known = tuple(known)
    if not isinstance(name, str) or name in known:
        return name if isinstance(name, str) else None
    if (column := bare(name)) in known:
        return column
    wanted = _plain(name)
    return next((one for one in known if _plain(one) == wanted), None)


def _parsed(text: str) -> ast.expr | None:
    try:
        return ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return None


def _quoted(node: ast.AST) -> str | None:
    """The column that Q("...") names; None for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q" and len(node.args) == 1 and not node.keywords:
        column = node.args[0]
        return column.value if isinstance(column, ast.Constant) and isinstance(column.value, str) else None
    return None


class _Unquoted(ast.NodeTransformer):
    def visit_Call(self, node: ast.Call) -> ast.AST:
        column = _quoted(node)
        return self.generic_visit(node) if column is None else ast.Name(column, ast.Load())


def _plain(name: str) -> str:
    """A name with one kind of blanks, columns in it without quotes."""
    tree = _parsed(name)
    return name if tree is None else ast.unparse(_Unquoted().visit(tree))
