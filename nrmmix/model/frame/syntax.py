"""The grammar of formulas: what a formula may hold, checked on its syntax tree.

A formula is code, because patsy evaluates Python expressions. Nothing is evaluated here: what passes is safe
for patsy to evaluate in a namespace of the listed functions.
"""

from __future__ import annotations

import ast
import io
import keyword
import math
import re
import sys
import tokenize
import unicodedata
from collections.abc import Callable, Collection, Sequence
from functools import wraps
from types import NoneType
from typing import Any, TypeVar

import numpy as np
from patsy.desc import ModelDesc, Term
from patsy.parse_formula import parse_formula
from scipy.special import logit

from nrmmix.common.messages import nearest, quoted, unknown_column
from nrmmix.common.names import quoted_name, stands_for_else
from nrmmix.model.frame.foreign import advice

__all__ = ["CENSORED", "CONSTANTS", "CONTRASTS", "FURTHER", "LEARNING", "NUMPY", "OPTIONS", "Syntax", "guard", "parse", "parse_design"]

T = TypeVar("T")

MAX_LENGTH = 2000  # characters
MAX_DEPTH = 30  # nested brackets
MAX_EXPONENT = 100
MAX_COUNT = 1000  # degrees of freedom of a spline; terms of the right side, after * and ** are expanded; covariates
MAX_DEGREE = 5  # of a spline

NUMPY = {
    name: getattr(np, name)
    for name in "log log10 log2 log1p exp expm1 sqrt cbrt square abs sign floor ceil sin cos tan arcsin "
    "arccos arctan sinh cosh tanh".split()
}
FURTHER = {"logit": logit}  # functions of numbers that NumPy does not have
CONSTANTS = {"pi": np.pi, "e": np.e}
OPTIONS: dict[str, tuple[str, ...]] = {  # every function with the options that follow its first argument
    **dict.fromkeys(["I", "Q", "center"], ()),
    "C": ("contrast", "levels"),
    **dict.fromkeys(["standardize", "scale"], ("center", "rescale", "ddof")),
    "bs": ("df", "knots", "degree", "include_intercept", "lower_bound", "upper_bound"),
    **dict.fromkeys(["cr", "cc"], ("df", "knots", "lower_bound", "upper_bound", "constraints")),
    "te": ("constraints",),
    **dict.fromkeys([*NUMPY, *FURTHER], ()),
}
LEARNING = {"center", "standardize", "scale", "bs", "cr", "cc", "te"}  # functions that learn from the whole column
CENSORED = {"Surv": ("time", "event"), "interval": ("lower", "upper")}  # responses of two columns, what these are called
CONTRASTS = {"Treatment": "reference", "Sum": "omit", "Poly": "scores", "Helmert": "", "Diff": ""}  # with their argument
_ALONE = ("C", "bs", "cr", "cc", "te")  # give more than one column: nothing can be computed with it, apart from te(bs(x), ...)
_DOT = re.compile(r"(?<![\w.)\]'\"])\.(?![\w.])")  # that belongs to no number, name or string
_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow)
_TOKENS = ("+", "-", "*", "/", "**", ":", "~", "(", ")", "[", "]", ",", ".", "=")
_TOKEN_TYPES = (tokenize.NAME, tokenize.NUMBER, tokenize.STRING, tokenize.NEWLINE, tokenize.ENDMARKER)


def _is_count(value: Any, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_list(value: Any, of: Callable[[Any], bool]) -> bool:
    return isinstance(value, (list, tuple)) and len(value) > 0 and all(map(of, value))


# What the options take, and whether they take None.
_VALUES: dict[str, tuple[Callable[[Any], bool], str, bool]] = {
    "df": (lambda value: _is_count(value, 1, MAX_COUNT), f"a whole number from 1 to {MAX_COUNT}", True),
    "degree": (lambda value: _is_count(value, 0, MAX_DEGREE), f"a whole number from 0 to {MAX_DEGREE}", False),
    "ddof": (lambda value: _is_count(value, 0, MAX_COUNT), f"a whole number from 0 to {MAX_COUNT}", False),
    **dict.fromkeys(["center", "rescale", "include_intercept"], (lambda value: isinstance(value, bool), "True or False", False)),
    **dict.fromkeys(["lower_bound", "upper_bound"], (_is_number, "a number", True)),
    "knots": (lambda value: _is_list(value, _is_number), "a list of numbers", True),
    "levels": (lambda value: _is_list(value, lambda _: True) and len({*value}) == len(value), "a list of different values", True),
    "constraints": (lambda value: value == "center", "'center'", True),
}
_GRAMMAR = (
    'A formula may hold column names (Q("any name") for one that is no Python name), numbers, + - * / ** : '
    f"and parentheses, and the functions {', '.join(OPTIONS)}, those of NumPy also as np.log and so on; responses also "
    f"{' and '.join(f'{name}({first}, {second})' for name, (first, second) in CENSORED.items())}."
)


def _refusal(piece: str, why: str) -> ValueError:
    return ValueError(f"The formula piece {piece!r} is not allowed: {why}. {_GRAMMAR}")


class Syntax:
    """Check one expression.

    It names `columns`, and computes with `computed` of them; C() takes `coded` of them as they are, and `counted` of
    these without levels. Splines in it have `size` columns or fewer. Responses of two columns have a place in a `response`.
    """

    def __init__(self, text: str, known: Sequence[str], response: bool = False) -> None:
        self.text, self.known, self.response = text, known, response
        self.columns: dict[str, None] = {}
        self.computed: set[str] = set()
        self.coded: set[str] = set()
        self.counted: set[str] = set()
        self.called: set[str] = set()
        self.size = 1
        letters = list(text)
        for token in _tokens(text):
            if token.string == ":":  # not an operator of Python; "@" is as long and keeps the positions
                letters[token.start[1]] = "@"
        try:
            tree = ast.parse("".join(letters), mode="eval")
        except (SyntaxError, MemoryError) as error:
            raise _refusal(text, f"it cannot be read ({getattr(error, 'msg', 'too deep')})") from None
        self.expression(tree.body)
        for name in self.called & self.columns.keys():
            raise ValueError(f"The formula uses {name!r} as a function and as a column; rename the column.")

    def refuse(self, node: ast.AST, why: str) -> ValueError:
        return _refusal(self.source_of(node) or self.text, why)

    def source_of(self, node: ast.AST) -> str:
        """The text of a part of the formula."""
        return ast.get_source_segment(self.text, node) or ""

    def as_factor(self, node: ast.expr) -> str:
        """The text of a part as it stands before a power within I()."""
        text = self.source_of(node)
        return f"({text.replace(':', ' * ')})" if isinstance(node, ast.BinOp) else text

    def of_one_term(self, node: ast.BinOp) -> ValueError:
        """A power that patsy takes for the term itself."""
        whole, base, power = (self.source_of(part) for part in (node, node.left, node.right))
        product = self.as_factor(node.left)
        alone = isinstance(node.left, ast.Call) and isinstance(node.left.func, ast.Name) and node.left.func.id in _ALONE
        instead = "leave the power out" if alone else f"write I({product}**{power})"
        return ValueError(f"{whole} is {base} in a formula, where powers are of sums; {instead}.")

    def expression(self, node: ast.expr, inside: str = "") -> bool:
        """Check an expression inside of a function, or of none; return whether it contains a column."""
        if (name := _plain_name(node)) is not None:
            self.computed |= {name} if inside else set()
            return self.column(name, quoted=isinstance(node, ast.Call))
        if isinstance(node, ast.Call):
            found = self.call(node, inside)
            if not (found or inside):
                raise self.refuse(node, "it contains no column")
            return found
        operators = _OPERATORS if inside else (*_OPERATORS, ast.MatMult)
        if isinstance(node, ast.BinOp) and isinstance(node.op, operators):
            within = inside and "arithmetic"
            found = any([self.expression(part, within) for part in (node.left, node.right)])
            large = any(_exceeds(part, MAX_EXPONENT) for part in ast.walk(node.right))
            if isinstance(node.op, ast.Pow) and (large or not found):  # 9 ** 9 ** 9 never ends
                raise self.refuse(node, f"a power needs a column and an exponent up to {MAX_EXPONENT}")
            if isinstance(node.op, ast.Pow) and not inside and _is_one_term(node.left) and not _is_one(node.right):
                raise self.of_one_term(node)
            repeated = [] if inside else _repeated(node)
            if len(repeated) > 1:
                base = self.as_factor(repeated[0])
                raise ValueError(
                    f"{self.source_of(node)} has {base} twice in a formula, where products are of different terms; leave one out, or write "
                    f"I({base}**2) for its square."
                )
            of_itself = isinstance(node.op, (ast.Mult, ast.MatMult)) and not inside and ast.dump(node.left) == ast.dump(node.right)
            if of_itself and _is_one_term(node.left):
                whole, base = self.source_of(node), self.source_of(node.left)
                instead = f"write I({self.as_factor(node.left)}**2), or {base} once"
                raise ValueError(f"{whole} is {base} in a formula, where products are of different terms; {instead}.")
            return found
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.UAdd, ast.USub)):
            return self.expression(node.operand, inside)
        if isinstance(node, ast.Attribute) and self.of_numpy(node) in CONSTANTS and inside:
            return False
        if isinstance(node, ast.Constant) and type(node.value) in (int, float):
            return self.literal(node)
        raise self.refuse(node, f"{type(node).__name__} has no place here")

    def column(self, name: str, quoted: bool) -> bool:
        if name.startswith(("__", "_patsy_")):
            raise _refusal(name, "names that begin so are reserved; rename the column")
        if name not in self.known:
            raise unknown_column(name, self.known)
        if not quoted and stands_for_else(name):
            raise _refusal(name, f"it has a meaning of its own in formulas; write {quoted_name(name)} for the column")
        self.columns[name] = None
        self.called |= {"Q"} if quoted else set()
        return True

    def of_numpy(self, node: ast.Attribute) -> str:
        known = node.attr in NUMPY or node.attr in CONSTANTS
        if not (known and isinstance(node.value, ast.Name) and node.value.id == "np"):
            raise self.refuse(node, "there are no attributes, apart from np.log and so on")
        self.called.add("np")
        return node.attr

    def call(self, node: ast.Call, inside: str) -> bool:
        """Check a call inside of another function, or of none; return whether it contains a column."""
        if isinstance(node.func, ast.Attribute):
            name = self.of_numpy(node.func)
        else:
            name = node.func.id if isinstance(node.func, ast.Name) else "what is called"
            self.called.add(name)
        if name in CENSORED:
            return self.censored(node, name, inside)
        if name not in OPTIONS:
            near = nearest(name, (*OPTIONS, *CENSORED))
            raise self.refuse(node, f"{name} is not one of the functions{'' if near is None else f' (did you mean {near}?)'}")
        if name == "Q":
            raise self.refuse(node, "Q takes the name of one column as a string")
        if name in _ALONE and inside and not (inside == "te" and name in ("bs", "cr", "cc")):
            raise self.refuse(node, f"{name} stands alone, not within another function")
        first, allowed = len(node.args) if name == "te" else 1, OPTIONS[name]
        options = list(zip(allowed, node.args[first:]))
        options += [(word.arg or "**", word.value) for word in node.keywords]
        if not 1 <= len(node.args) <= first + len(allowed) or not {key for key, _ in options} <= {*allowed}:
            after = f"and the options {', '.join(allowed)}" if allowed else "and nothing else"
            raise self.refuse(node, f"{name} takes one argument {after}")
        given = {key: self.option(key, value) for key, value in options}
        if name in ("bs", "cr", "cc"):
            self.spline(node, name, given)
        if name == "te" and (plain := next(filter(None, map(_plain_name, node.args)), None)) is not None:
            splines = ", ".join(
                f"bs({text}, df=4)" if _plain_name(one) else text
                for one, text in ((one, self.source_of(one)) for one in node.args)
            )
            raise self.refuse(node, f"te takes splines, and {plain} is a column; write te({splines})")
        column = _plain_name(node.args[0])
        if name == "C" and column is not None:
            self.coded.add(column)
            self.counted |= set() if "levels" in given else {column}
        as_it_is = column is not None and name in ("C", "I") and not inside
        return any([self.expression(argument, "" if as_it_is else name) for argument in node.args[:first]])

    def censored(self, node: ast.Call, name: str, inside: str) -> bool:
        """Check a response of two columns, each of which functions of NumPy may transform."""
        first, second = CENSORED[name]
        if inside or not self.response:
            where = f"stands alone on the left: transform what is in it, {name}(log({first}), {second if name == 'Surv' else 'log(upper)'})"
            raise self.refuse(node, f"{name} {where}")
        if len(node.args) != 2 or node.keywords:
            raise self.refuse(node, f"{name} takes two columns, {name}({first}, {second})")
        for one in node.args:
            part = Syntax(self.source_of(one), self.known)
            if not part.columns or part.called - {"I", "Q", "np", *NUMPY}:
                raise self.refuse(one, f"in {name} there are columns, arithmetic with them, and the functions of NumPy")
            self.columns |= part.columns
            self.computed |= part.columns.keys()
        return True

    def spline(self, node: ast.Call, name: str, given: dict[str, Any]) -> None:
        df, knots = given.get("df"), given.get("knots")
        if df is None and knots is None:
            raise self.refuse(node, f"{name} needs df or knots")
        least = {"bs": 1, "cr": 3, "cc": 2}[name] - (given.get("constraints") is not None)
        if df is not None and df < least:
            raise self.refuse(node, f"df of {name} must be at least {least} here")
        self.size *= len(knots or ()) + (df or MAX_DEGREE)

    def option(self, key: str, node: ast.expr) -> Any:
        """Check the value of an option and return it."""
        if key == "contrast":
            return self.contrast(node)
        self.literal(node)
        value = ast.literal_eval(node)
        suits, wanted, or_none = _VALUES[key]
        if not (suits(value) or (or_none and value is None)):
            raise self.refuse(node, f"{key} is {wanted}")
        return value

    def contrast(self, node: ast.expr) -> None:
        call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
        name = call.func.id if isinstance(call.func, ast.Name) else ""
        if name not in CONTRASTS:
            raise self.refuse(node, f"a contrast is one of {', '.join(CONTRASTS)}")
        self.called.add(name)
        argument = CONTRASTS[name]
        values = [*call.args, *(word.value for word in call.keywords)]
        if len(values) > bool(argument) or any(word.arg != argument for word in call.keywords):
            raise self.refuse(node, f"{name} takes {f'one argument, {argument}' if argument else 'no arguments'}")
        for value in values:
            self.literal(value)
            scores = _is_list(ast.literal_eval(value), _is_number)
            if scores != (name == "Poly"):
                raise self.refuse(value, f"{argument} is {'a list of numbers' if name == 'Poly' else 'one of the levels'}")

    def literal(self, node: ast.expr) -> bool:
        """Check a constant or a list of constants; return False: it contains no column."""
        items = node.elts if isinstance(node, (ast.List, ast.Tuple)) else [node]
        for item in items:
            value, negative = item, False
            if isinstance(item, ast.UnaryOp) and isinstance(item.op, ast.USub):
                value, negative = item.operand, True
            constant = value.value if isinstance(value, ast.Constant) else ()
            if not (_is_number(constant) or (isinstance(constant, (bool, str, NoneType)) and not negative)):
                raise self.refuse(item, "options are numbers, strings, True, False, None or a list of them")
            if _exceeds(value, sys.float_info.max):
                raise self.refuse(item, "numbers must be finite")
        return False


def _exceeds(node: ast.AST, limit: float) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, (int, float)) and node.value > limit


def _is_one(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and node.value == 1


def _is_one_term(node: ast.AST) -> bool:
    """Whether a piece of a formula is one term, of which a power is the term itself."""
    if isinstance(node, ast.BinOp):
        if isinstance(node.op, (ast.Add, ast.Sub)):  # a number beside a term is the intercept
            sides = node.left, node.right
            return any(isinstance(one, ast.Constant) and _is_one_term(other) for one, other in (sides, sides[::-1]))
        one = isinstance(node.op, ast.MatMult) and _is_one_term(node.right)
        return (one or isinstance(node.op, ast.Pow)) and _is_one_term(node.left)
    return True


def _repeated(node: ast.expr) -> list[ast.expr]:
    """Factors of a product of three or more by `:` that are the first one of those which stand in it twice."""
    first: ast.expr = node
    factors: list[ast.expr] = []
    while isinstance(first, ast.BinOp) and isinstance(first.op, ast.MatMult):
        factors, first = [first.right, *factors], first.left
    factors = [first, *factors]
    texts = [ast.dump(one) for one in factors]
    twice = next((text for text in texts if texts.count(text) > 1), None) if len(factors) > 2 else None
    return [one for one, text in zip(factors, texts, strict=True) if text == twice]


def _plain_name(node: ast.AST) -> str | None:
    """Return the column that `x` or `Q("x")` names, None for any other expression."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
        node = node.args[0] if len(node.args) == 1 and not node.keywords else node
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
    return node.id if isinstance(node, ast.Name) else None


def _tokens(text: str) -> list[tokenize.TokenInfo]:
    try:
        return list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError) as error:
        raise _refusal(text, f"it cannot be read ({error.args[0]})") from None


def _check_token(token: tokenize.TokenInfo, known: Sequence[str]) -> None:
    text = token.string
    if token.type == tokenize.NAME:
        reserved = keyword.iskeyword(text) and text not in ("True", "False", "None")
        if reserved or unicodedata.normalize("NFKC", text) != text:
            raise _refusal(text, f"Python reads it differently; if it is a column write Q({text!r})")
    # a blank before what cannot be read is an error of its own
    known_type = token.type in _TOKEN_TYPES or (token.type == tokenize.OP and text in _TOKENS) or not text.strip()
    if not known_type or text[:2].lower() in ("0x", "0o", "0b"):  # patsy would take 0x1 for a column
        raise _refusal(text, "it is neither a name nor a decimal number, a string or an operator of formulas")


def _split(formula: str, known: Sequence[str]) -> tuple[str, str]:
    """Check the tokens of a formula and split it at the tilde."""
    text = formula.replace("\n", " ").replace("\t", " ").strip()
    if not text:
        raise ValueError("The formula is empty; write responses, a tilde and covariates: 'y ~ x' or 'y ~ 1'.")
    if len(text) > MAX_LENGTH:
        raise _refusal(text[:60], f"it has {len(text)} characters, and a formula has up to {MAX_LENGTH}")
    for letter in text:
        if not letter.isprintable():
            name = unicodedata.name(letter, "a control character")
            raise _refusal(text[:60], f"it holds {name} (U+{ord(letter):04X})")
    depth, tildes = 0, []
    for token in _tokens(text):
        _check_token(token, known)
        depth += (token.string in ("(", "[")) - (token.string in (")", "]"))
        if depth > MAX_DEPTH:
            raise _refusal(text[:60], f"brackets are nested more than {MAX_DEPTH} deep")
        if token.string == "~":
            tildes.append(token.start[1])
    if not tildes:
        meant = text.replace("=", "~", 1) if "=" in text and "(" not in text else f"{text} ~ 1"
        raise ValueError(f"The formula {text!r} has no tilde between responses and covariates; write {meant!r}.")
    if len(tildes) > 1:
        raise _refusal(text, "it has several tildes, and a formula has one, between responses and covariates")
    left, right = text[: tildes[0]].strip(), text[tildes[0] + 1 :].strip()
    if not left:
        columns = [name for name in re.split(r"\s*\+\s*", right) if name in known]
        mixture = f"; a mixture of these columns is {f'{right} ~ 1'!r}" if columns and " + ".join(columns) == right else ""
        raise ValueError(f"The formula {text!r} has no response; write it before the tilde, 'y ~ {right or 1}'{mixture}.")
    if not right:
        raise ValueError(f"The formula {text!r} has nothing after the tilde; without covariates write {f'{left} ~ 1'!r}.")
    return left, right


def dot_without(formula: str, known: Sequence[str], left_out: Collection[str]) -> str:
    """Return a formula whose dot stands for no column that is left out, such as the weights; itself where it stands for none of these.

    Examples
    --------
    >>> dot_without("y ~ .", ["y", "x", "w"], {"w"}), dot_without("y ~ .", ["y", "x"], {"w"})
    ('y ~ (x)', 'y ~ .')
    """
    if not any(name in left_out for name in known):
        return formula
    found = _expanded(formula, known, left_out)
    return formula if found == _expanded(formula, known) else found


def _expanded(formula: str, known: Sequence[str], left_out: Collection[str] = ()) -> str:
    """A formula with a dot that stands alone on the right replaced by all columns that the left side does not name.

    Examples
    --------
    >>> _expanded("y ~ .", ["y", "a", "b.c"])
    "y ~ (a + Q('b.c'))"
    """
    left, tilde, right = formula.partition("~")
    dots = [match.start() for match in _DOT.finditer(right)]
    if not tilde or not dots:
        return formula
    try:
        found = [(token.type == tokenize.STRING, token.string) for token in _tokens(left)]
        named = {ast.literal_eval(text) if quoted else text for quoted, text in found}
    except (ValueError, SyntaxError):
        return formula
    others = [name for name in known if name not in named and name not in left_out]
    if not others:
        or_else = f", or has weights or an exposure ({quoted(left_out)})" if left_out else ""
        raise ValueError(f"The formula {formula!r}: every column is a response{or_else}, so that none is left for the dot; write '~ 1'.")
    plain = list(map(quoted_name, others))
    for at in reversed(dots):
        right = f"{right[:at]}({' + '.join(plain)}){right[at + 1 :]}"
    return f"{left}~{right}"


def guard(action: Callable[..., Any], *arguments: Any) -> Any:
    """Run a function of patsy; what goes wrong in it becomes a ValueError with the piece of the formula."""
    try:
        with np.errstate(all="ignore"):  # results that are not finite are found and named afterwards
            return action(*arguments)
    except Exception as error:
        origin = getattr(error, "origin", None)
        piece = f" piece {origin.code[origin.start : origin.end]!r}" if origin is not None else ""
        cause = error.__cause__ or error  # of the function that patsy called
        message = getattr(cause, "message", str(cause)).removesuffix(", and I'm not sure how to handle them. (Patches accepted!)")
        message = re.sub(r"np\.\w+\(([^()]*)\)", r"\1", message)  # NumPy's names of types of numbers
        if "outermost knots" in message:
            message = (
                f"{message}. A B-spline is defined between the least and the largest value of the rows of the fit, or bounds: write "
                "bs(x, df=4, lower_bound=0, upper_bound=9), or cr(x, df=4), which goes on in lines"
            )
        raise ValueError(f"The formula{piece} cannot be evaluated: {message}.") from error


def _count_terms(tree: Any) -> int:
    """Bound the number of terms that a right side expands to."""
    counts = [_count_terms(argument) for argument in tree.args] or [1]
    if tree.type == "**":
        power = tree.args[1].token.extra if not tree.args[1].args else ""
        top = min(counts[0], int(power)) if power.isdecimal() else 1  # patsy refuses what is not a number
        return sum(math.comb(counts[0], size) for size in range(1, top + 1))
    return sum(counts) * (tree.type != ":") + math.prod(counts) * (tree.type in ("*", ":"))


def _check_responses(tree: Any) -> list[str]:
    """Return the responses of a left side, which joins them by + and nothing else."""
    if tree.type == "+" and len(tree.args) == 2:
        return _check_responses(tree.args[0]) + _check_responses(tree.args[1])
    if tree.type != "PYTHON_EXPR":
        piece = tree.origin.code[tree.origin.start : tree.origin.end]
        raise _refusal(piece, "responses are joined by + and nothing else; write I(a - b) for arithmetic")
    return [tree.token.extra]


def advised(read: Callable[[str, Sequence[str]], T]) -> Callable[[str, Sequence[str]], T]:
    """Decorator of what reads formulas: of words of other packages the error says what to write here."""

    @wraps(read)
    def reading(formula: str, known: Sequence[str]) -> T:
        try:
            return read(formula, known)
        except ValueError:
            instead = advice(formula, known) if isinstance(formula, str) and len(formula) <= MAX_LENGTH else None
            if instead is None:
                raise
            raise ValueError(instead) from None

    return reading


@advised
def parse(formula: str, known: Sequence[str]) -> tuple[list[Term], list[Term]]:
    """Check a formula against the grammar and the columns; return the terms of its sides."""
    left, right = _split(_expanded(formula, known), known)
    try:
        on_the_left, on_the_right = Syntax(left, known, response=True).columns, Syntax(right, known).columns
        for name in on_the_left.keys() & on_the_right.keys():
            raise ValueError(f"The column {name!r} stands on both sides of the formula; keep it on one.")
        tree = guard(parse_formula, f"{left} ~ {right}")
        responses = _check_responses(tree.args[0])
        if len(set(responses)) < len(responses):
            raise ValueError(f"A response stands twice on the left side {left!r}; keep it once.")
        terms = _terms(tree, right)
        if not terms.rhs_termlist:
            raise ValueError(
                f"The right side {right!r} leaves nothing; without covariates write {f'{left} ~ 1'!r}, which has no intercept to drop."
            )
    except RecursionError:
        raise _refusal(formula[:60], "it is too deeply nested") from None
    return terms.lhs_termlist, terms.rhs_termlist


@advised
def parse_design(text: str, known: Sequence[str]) -> list[Term]:
    """Check the right side of a formula, given alone, against the grammar and the columns; return its terms."""
    if not isinstance(text, str) or not text.strip() or any(token.string == "~" for token in _tokens(text)):
        raise ValueError(f"A design is the right side of a formula, such as '1 + x', not {text!r}.")
    _split(f"y ~ {text}", known)  # checks length, depth and tokens
    try:
        Syntax(text, known)
        terms = _terms(guard(parse_formula, f"~ {text}"), text)
    except RecursionError:
        raise _refusal(text[:60], "it is too deeply nested") from None
    if not terms.rhs_termlist:
        raise ValueError(f"The design {text!r} has no column; write '1' for a constant.")
    return terms.rhs_termlist


def _terms(tree: Any, right: str) -> ModelDesc:
    if _count_terms(tree.args[-1]) > MAX_COUNT:
        raise _refusal(right, f"it expands to more than {MAX_COUNT} terms")
    return guard(ModelDesc.from_formula, tree)
