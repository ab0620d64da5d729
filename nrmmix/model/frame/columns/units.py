"""The way back from a response of a formula, such as log(wage), to the units of the column behind it.

The response must be a function of one column that takes each value once: functions of `INVERSES`, sums and products with numbers, powers,
and such as `center` that are learnt from the data.  Where the function has not all numbers among its values, as sqrt, what a model has
beyond counts as the end: a square root below 0 as 0.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from scipy import special

from nrmmix.common.messages import listed
from nrmmix.model.frame.syntax import CONSTANTS, NUMPY

LINEAR = ("center", "standardize", "scale")  # learnt from the data
AFFINE, EXPONENTIAL, POLYNOMIAL, BOUNDED = "affine", "exponential", "polynomial", "bounded"  # how the way back grows
Function = Callable[[Any], Any]


@dataclass(frozen=True)
class Step:
    """One strictly monotone function: v = forward(u), its slope at u, u = inverse(v) for v between low and high."""

    name: str
    forward: Function
    slope: Function
    inverse: Function
    low: float = -math.inf
    high: float = math.inf
    growth: str | None = None  # of the inverse; None where it is infinite at an end of these
    base: float = math.e  # of an exponential
    parameters: tuple[float, float] | None = None  # slope and shift, where it is affine
    increases: bool = True


def affine(slope: float, shift: float) -> Step:
    return Step(
        "affine", lambda u: shift + slope * u, lambda u: np.full(np.shape(u), float(slope)), lambda v: (v - shift) / slope, growth=AFFINE,
        parameters=(slope, shift), increases=slope > 0,
    )


def _power(exponent: float) -> Step | None:
    """u^p, where that takes each value once: of odd p those below 0 too, of fractions none of these."""
    is_odd = exponent % 2 == 1
    if not exponent > 0 or (exponent == int(exponent) and not is_odd):
        return None
    return Step(
        "power", lambda u: np.power(u, exponent), lambda u: exponent * np.power(u, exponent - 1.0),
        lambda v: np.sign(v) * np.abs(v) ** (1.0 / exponent), -math.inf if is_odd else 0.0, growth=POLYNOMIAL,
    )


HALF_PI = 0.5 * math.pi
INVERSES = {
    one.name: one
    for one in (
        Step("log", np.log, lambda u: 1.0 / u, np.exp, growth=EXPONENTIAL),
        Step("log10", np.log10, lambda u: 1.0 / (u * math.log(10.0)), lambda v: 10.0**v, growth=EXPONENTIAL, base=10.0),
        Step("log2", np.log2, lambda u: 1.0 / (u * math.log(2.0)), np.exp2, growth=EXPONENTIAL, base=2.0),
        Step("log1p", np.log1p, lambda u: 1.0 / (1.0 + u), np.expm1, growth=EXPONENTIAL),
        Step("exp", np.exp, np.exp, np.log, 0.0),
        Step("expm1", np.expm1, np.exp, np.log1p, -1.0),
        Step("sqrt", np.sqrt, lambda u: 0.5 / np.sqrt(u), np.square, 0.0, growth=POLYNOMIAL),
        Step("cbrt", np.cbrt, lambda u: np.cbrt(u) ** -2.0 / 3.0, lambda v: v**3, growth=POLYNOMIAL),
        Step("logit", special.logit, lambda u: 1.0 / (u * (1.0 - u)), special.expit, growth=BOUNDED),
        Step("arcsin", np.arcsin, lambda u: 1.0 / np.sqrt(1.0 - u * u), np.sin, -HALF_PI, HALF_PI, growth=BOUNDED),
        Step("arccos", np.arccos, lambda u: -1.0 / np.sqrt(1.0 - u * u), np.cos, 0.0, math.pi, growth=BOUNDED, increases=False),
        Step("arctan", np.arctan, lambda u: 1.0 / (1.0 + u * u), np.tan, -HALF_PI, HALF_PI),
        Step("sinh", np.sinh, np.cosh, np.arcsinh, growth=POLYNOMIAL),
        Step("tanh", np.tanh, lambda u: np.cosh(u) ** -2.0, np.arctanh, -1.0, 1.0),
    )
}


@dataclass(frozen=True)
class Back:
    """The way back from a response to one column; steps from the outermost on."""

    name: str  # of the response
    column: str
    steps: tuple[Step, ...]

    @property
    def increases(self) -> bool:
        return sum(not one.increases for one in self.steps) % 2 == 0

    @property
    def is_affine(self) -> bool:
        return all(one.growth == AFFINE for one in self.steps)

    @property
    def growth(self) -> str | None:
        """Growth of the column with the response; None where nothing is known of means."""
        found: str | None = AFFINE
        for one in self.steps:
            if one.growth == AFFINE or found is None:
                continue
            if BOUNDED in (one.growth, found):
                found = None if one.growth is None else BOUNDED
            elif one.growth == EXPONENTIAL:
                found = EXPONENTIAL if found == AFFINE else None
            else:
                found = None if found == EXPONENTIAL else one.growth
        return found

    def inverse(self, z: Any) -> np.ndarray:
        """Values of the response in the units of the column."""
        with np.errstate(all="ignore"):
            for one in self.steps:
                z = one.inverse(np.clip(z, one.low, one.high))
        return np.asarray(z)

    def forward(self, y: Any) -> np.ndarray:
        """Values of the column as the response has them; NaN or infinite where it has none."""
        with np.errstate(all="ignore"):
            for one in reversed(self.steps):
                y = one.forward(y)
        return np.asarray(y)

    def jacobian(self, y: Any) -> np.ndarray:
        """|slope| of the response at values of the column, by which its density is multiplied."""
        total: Any = np.ones(np.shape(y))
        with np.errstate(all="ignore"):
            for one in reversed(self.steps):
                total, y = total * one.slope(y), one.forward(y)
        return np.abs(total)

    def mean_under_normal(self, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
        """Mean of the column where the response is N(mean, sd^2), of arrays that broadcast; in closed form, or by the trapezoid."""
        if self.growth == EXPONENTIAL:
            value: Any = None
            with np.errstate(over="ignore"):
                for one in self.steps:
                    if one.parameters is None:
                        rate = math.log(one.base)
                        value = np.exp(rate * mean + 0.5 * (rate * sd) ** 2) - (one.name == "log1p")
                    elif value is None:
                        slope, shift = one.parameters
                        mean, sd = (mean - shift) / slope, sd / abs(slope)
                    else:
                        value = one.inverse(value)
            return np.clip(value, -HUGE, HUGE)
        values = self.inverse(np.asarray(mean)[..., None] + np.asarray(sd)[..., None] * NODES)
        return values @ WEIGHTS


HUGE = 1e300
NODES = np.linspace(-9.0, 9.0, 721)
WEIGHTS = np.exp(-0.5 * NODES**2) / np.exp(-0.5 * NODES**2).sum()


def ways_back(frame: Any, responses: Any) -> dict[int, Back]:
    """Return the ways back of some responses of a frame, by number; none of those that are columns as they are.

    A ValueError, in words, where there is none.
    """
    found = {}
    for j in responses if not frame.is_sparse else ():
        part = frame.parts_of_responses[j]
        ends = [getattr(part, name, None) for name in ("first", "second")]
        back = _of_part(part if ends[0] is None else ends[0], frame, frame.response_names[j])
        if ends[0] is not None and getattr(part, "kind", "") == "interval":
            other = _of_part(ends[1], frame, frame.response_names[j])
            if [(one.name, one.parameters) for one in back.steps] != [(one.name, one.parameters) for one in other.steps]:
                raise _none(frame.response_names[j], "its two ends are transformed differently")
        if back.steps:
            found[int(j)] = back
    return found


def _none(name: str, why: str) -> ValueError:
    return ValueError(f'units="response": there is no way back from {name}: {why}; leave units out, for {name} itself.')


def _of_part(part: Any, frame: Any, name: str) -> Back:
    if part.is_plain:
        return Back(name, part.columns[0], ())
    (factor,) = part.terms[0].factors
    tree = ast.parse(factor.code, mode="eval").body
    steps: list[Step | str] = []
    while (column := _column(tree)) is None:
        step, tree = _outermost(tree, name, set(part.columns))
        steps += [step] if step is not None else []
    learnt = [place for place, one in enumerate(steps) if isinstance(one, str)]
    if len(learnt) > 1:
        raise _none(name, f"{listed(str(steps[place]) for place in learnt)} stand within each other")
    if learnt:
        steps[learnt[0]] = _learnt(part, frame, column, steps, learnt[0])
    return Back(name, column, tuple(steps))  # type: ignore[arg-type]


def _learnt(part: Any, frame: Any, column: str, steps: list[Any], place: int) -> Step:
    """The affine function that a step has become on the data, from two values of the column."""
    seen = pd.to_numeric(frame.source[column], errors="coerce").dropna().to_numpy(float)
    y = np.array([seen.min(), seen.max()])
    v = part.compute(pd.DataFrame({column: y}), pd.RangeIndex(2))[0][:, 0]
    for one in steps[:place]:
        v = one.inverse(v)
    for one in reversed(steps[place + 1 :]):
        y = one.forward(y)
    slope = float((v[1] - v[0]) / (y[1] - y[0]))
    return affine(slope, float(v[0] - slope * y[0]))


def _column(node: ast.expr) -> str | None:
    """The column that an expression is."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
        return str(ast.literal_eval(node.args[0]))
    return node.id if isinstance(node, ast.Name) else None


def _outermost(node: ast.expr, name: str, columns: set[str]) -> tuple[Step | str | None, ast.expr]:
    """The outermost function of an expression, None where it changes nothing, and what it is a function of."""
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        if called == "I":
            return None, node.args[0]
        if called in LINEAR:
            return called, node.args[0]
        if called in INVERSES:
            return INVERSES[called], node.args[0]
        raise _none(name, f"{called} has the same value at several values of a column, or is not known to have each once")
    if isinstance(node, ast.UnaryOp):
        return (affine(-1.0, 0.0) if isinstance(node.op, ast.USub) else None), node.operand
    if isinstance(node, ast.BinOp):
        sides = [_number(one, columns) for one in (node.left, node.right)]
        if sides[0] is None and sides[1] is None:
            raise _none(name, "it is computed from several columns, or from one in several places")
        number, rest = (sides[1], node.left) if sides[0] is None else (sides[0], node.right)
        step = _with_number(node.op, float(number or 0.0), sides[0] is None)
        if step is not None:
            return step, rest
    raise _none(name, f"{ast.unparse(node)} has the same value at several values of a column, or jumps at one")


def _with_number(op: ast.operator, c: float, is_right: bool) -> Step | None:
    """u + c, c - u and so on as steps; None where that does not take each value once, or jumps."""
    if isinstance(op, ast.Add):
        return affine(1.0, c)
    if isinstance(op, ast.Sub):
        return affine(1.0, -c) if is_right else affine(-1.0, c)
    if isinstance(op, ast.Mult) and c != 0.0:
        return affine(c, 0.0)
    if isinstance(op, ast.Div) and is_right and c != 0.0:
        return affine(1.0 / c, 0.0)
    if isinstance(op, ast.Pow) and is_right:
        return affine(1.0, 0.0) if c == 1.0 else _power(c)
    return None


def _number(node: ast.expr, columns: set[str]) -> float | None:
    """The value of an expression without columns; the formula has been checked to hold nothing but functions of NumPy and numbers."""
    inside = [one for one in ast.walk(node) if isinstance(one, ast.expr) and (_column(one) or "") in columns]
    if inside:
        return None
    np_names = type("np", (), {key: staticmethod(value) if callable(value) else value for key, value in (NUMPY | CONSTANTS).items()})
    return float(eval(compile(ast.Expression(node), "formula", "eval"), {"__builtins__": {}, "np": np_names, **NUMPY}))
