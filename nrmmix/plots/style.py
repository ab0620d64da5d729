"""One look for every picture: colours, sizes, axes, labels and legends.

Settings are made on the axes that are drawn on, never in matplotlib's defaults.  Colours are those of Okabe and Ito and of viridis, which
people with the usual kinds of colour blindness can tell apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from nrmmix.common.messages import printable

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#8C8C8C"
CYCLE = (BLUE, ORANGE, "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000", "#F0E442")
MARKERS = "os^DvPX"  # one fewer than colours: together they repeat after 56
POINT = {"linestyle": "", "marker": "o", "markersize": 4, "color": GREY, "markeredgewidth": 0, "alpha": 0.7, "label": "data"}
LINE = 1.8  # width of what a picture is about
FAINT = 0.22  # opacity of bands
SMALL = 8  # size of letters in legends and at contours
MAX_STROKES = 500  # of a rug
GOLDEN, PLASTIC = 0.6180339887498949, 0.7548776662466927  # steps of offsets along one axis, and along another
SINGLE, PANEL, SIDE = (6.2, 4.4), (4.2, 3.2), (5.6, 4.4)  # inches: one picture, each of several, each of two kinds


@contextmanager
def panels(
    ax: Any, names: Sequence[str], option: str | None = None, *, columns: int | None = None, size: tuple[float, float] = PANEL,
    single: bool = False,
) -> Iterator[np.ndarray]:
    """Axes for so many pictures: those given, or a new figure.

    `size` is that of each of several, or with `single` of one too.  A TypeError or ValueError where `ax` holds anything but axes, or
    another number of them, names the option that chooses among pictures.
    """
    if ax is not None:
        yield _given(ax, names, option)
    elif len(names) == 1:
        with figure(1, 1, size if single else SINGLE) as axes:
            yield axes[0]
    else:
        columns = (2 if len(names) in (2, 4) else 3) if columns is None else columns
        with figure(-(-len(names) // columns), min(columns, len(names)), size) as axes:
            for unused in axes.ravel()[len(names) :]:
                unused.remove()
            yield axes.ravel()[: len(names)]


def _given(ax: Any, names: Sequence[str], option: str | None) -> np.ndarray:
    from matplotlib.axes import Axes

    axes = np.ravel(np.array(ax, dtype=object))
    for one in axes:
        if not isinstance(one, Axes):
            raise TypeError(f"ax must be matplotlib Axes or an array of them, not {type(one).__name__}.")
    if len(axes) != len(names):
        choose = f", or choose among them by {option}=" if option is not None and len(names) > 1 else ""
        raise ValueError(f"ax holds {len(axes)} axes for {len(names)} pictures ({', '.join(names)}); give as many{choose}.")
    return axes


@contextmanager
def figure(rows: int, columns: int, size: tuple[float, float]) -> Iterator[np.ndarray]:
    """(rows, columns) axes of a new figure, each of about a size in inches; closed when the picture comes to nothing."""
    from matplotlib import pyplot

    total = (columns * size[0], rows * size[1])
    made, axes = pyplot.subplots(rows, columns, figsize=total, layout="constrained", squeeze=False)
    try:
        yield axes
    except BaseException:
        pyplot.close(made)
        raise


def dress(ax: Axes, x: str | Sequence[str], y: str | Sequence[str]) -> None:
    """Labels, some in several lines, spines and sizes that all pictures share."""
    ax.set_xlabel(_lines(x))
    ax.set_ylabel(_lines(y))
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=9)


def _figure_width(ax: Axes) -> float:
    """Width in inches of the whole figure, of which axes may be in a part."""
    return float(ax.figure.figure.get_figwidth())


def level_axis(ax: Axes, axis: str, levels: Sequence[Any]) -> None:
    """Ticks at the places 0, 1, ... of levels; aslant where they would run into each other."""
    shown = [text(level) for level in levels]
    if axis == "y":
        ax.set_yticks(range(len(shown)), shown)
        ax.set_ylim(-0.6, len(shown) - 0.4)
        return
    width = ax.get_position().width * _figure_width(ax)
    crowded = 0.09 * (max(map(len, shown)) + 1) * len(shown) > width
    aslant: dict[str, Any] = {"rotation": 30, "ha": "right"} if crowded else {}
    ax.set_xticks(range(len(shown)), shown, **aslant)
    ax.set_xlim(-0.6, len(shown) - 0.4)


def dress_triangle(axes: np.ndarray, x: Sequence[str], y: Sequence[str], handles: Sequence[Artist]) -> None:
    """Square axes of which the upper right is empty: labels at the left and the bottom, the legend in the empty corner."""
    for (i, j), one in np.ndenumerate(axes):
        if j > i:
            one.set_visible(False)
            continue
        outer = i == len(axes) - 1, j == 0
        dress(one, x[j] if outer[0] else "", y[i] if outer[1] else "")
        one.tick_params(labelbottom=outer[0], labelleft=outer[1], labelsize=SMALL)
    axes[0, 0].figure.align_ylabels(axes[:, 0])
    axes[0, 0].figure.legend(handles=list(handles), loc="upper right", frameon=False, fontsize=SMALL)


def finish(axes: np.ndarray, new: bool, handles: Sequence[Artist] | None = None, note: str = "") -> Any:
    """Add the legend of all panels, by default with each of their labels once, and give back the axes, or the only one.

    A note, such as on what is not drawn, stands above the last panel.
    """
    if note:
        remark(axes[-1], note)
    if handles is None:
        handles = list({one.get_label(): one for ax in axes for one in ax.get_legend_handles_labels()[0]}.values())
    legend(axes[0], handles, above_all=new and len(axes) > 1)
    return axes[0] if len(axes) == 1 else axes


def remark(ax: Axes, text: str) -> None:
    ax.set_title(text, fontsize=SMALL, loc="right", color="0.35")


def legend(ax: Axes, handles: Sequence[Artist] | None = None, *, above_all: bool = False) -> None:
    """Legend in a row above the axes, or above all of a new figure, where it covers no data; in several rows where one is too long."""
    handles = ax.get_legend_handles_labels()[0] if handles is None else list(handles)
    looks = {"handles": handles, "frameon": False, "fontsize": SMALL, "columnspacing": 1.2, "handlelength": 2.2}
    width, place = 0.85 * _figure_width(ax), ax.get_subplotspec()
    if above_all:
        ax.figure.legend(loc="outside upper left", ncols=_columns(handles, width), **looks)
        return
    width *= ax.get_position().width if place is None else 1 / place.get_gridspec().ncols
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), borderaxespad=0.2, ncols=_columns(handles, width), **looks)


def _columns(handles: Sequence[Artist], width: float) -> int:
    """Return how many columns of a legend fit into inches."""
    # Letters, the handle and the space around it.
    inches = np.array([0.055 * len(str(one.get_label())) + 0.55 for one in handles])
    columns = len(handles)
    while columns > 1 and sum(column.max() for column in np.array_split(inches, columns)) > width:
        columns -= 1
    return columns


def points(n: int, size: float = 4.0) -> dict[str, Any]:
    """Looks of so many observations: smaller and fainter marks the more there are, drawn as an image where there are many."""
    shrunk = (min(1.0, 1000 / max(n, 1))) ** 0.35
    return POINT | {"markersize": size * shrunk, "alpha": 0.7 * max(shrunk, 0.3), "rasterized": n > 5000}


def density_axis(ax: Axes) -> None:
    """A vertical axis from 0; its power of ten stands over the numbers, beside the legend."""
    if ax.get_yscale() != "linear":  # axes of the caller's
        return
    ax.set_ylim(0, None)
    ax.ticklabel_format(axis="y", scilimits=(-3, 4), useMathText=True)
    ax.yaxis.get_offset_text().set(horizontalalignment="right", fontsize=SMALL)


def band(ax: Axes, x: np.ndarray, lower: np.ndarray, upper: np.ndarray, color: Any, label: str | None = None) -> None:
    ax.fill_between(x, lower, upper, color=color, alpha=FAINT, linewidth=0, label=label)


def point_masses(ax: Axes, at: np.ndarray, shares: np.ndarray, estimates: np.ndarray, bands: Any, label: str, scaled: bool = True) -> None:
    """Probabilities of some values on an axis of their own, from 0 to 1: shares in the data as bars, estimates as points with bands (m, 2).

    Without `scaled` the axis has no numbers, as those of small panels.
    """
    shown = f"probability of {' and '.join(f'{one:g}' for one in at)}"
    own, (low, high) = ax.twinx(), ax.get_xlim()
    own.bar(at, shares, width=0.03 * (high - low), color=GREY, alpha=0.3)
    own.vlines(at, 0, estimates, color=ORANGE, linewidth=LINE)
    own.plot(at, estimates, color=ORANGE, linestyle="", marker="o", markersize=5)
    if bands is not None:
        own.vlines(at, *bands.T, color=ORANGE, linewidth=5, alpha=0.45)
    own.set(ylim=(0, 1), xlim=(low, high))
    own.spines[["top", "left", "bottom"]].set_visible(False)
    own.tick_params(labelsize=9)
    if scaled:
        own.set_ylabel(shown)
    else:
        own.set_yticks([])
    ax.plot([], [], color=ORANGE, linewidth=LINE, marker="o", markersize=5, label=f"{shown}{label}")


def color_bar(ax: Axes, image: Any, label: str | Sequence[str], extend: str = "neither") -> Any:
    bar = ax.figure.colorbar(image, ax=ax, extend=extend)
    bar.set_label(_lines(label))
    bar.outline.set_visible(False)
    bar.ax.tick_params(labelsize=SMALL)
    return bar


def intervals(ax: Axes, table: np.ndarray, estimate: str, interval: str) -> None:
    """Estimates and intervals (m, 3), one below the other."""
    places = np.arange(len(table))
    ax.hlines(places, table[:, 1], table[:, 2], color=BLUE, linewidth=5, alpha=0.4, label=interval)
    ax.plot(table[:, 0], places, color=BLUE, linestyle="", marker="o", markersize=5, label=estimate)


def rows(ax: Axes, names: Sequence[str]) -> None:
    """Names from the data at the places 0, 1, ... from the top down."""
    ax.set_yticks(range(len(names)), list(map(literal, names)))
    ax.set_ylim(len(names) - 0.4, -0.6)


def rug(ax: Axes, values: np.ndarray) -> None:
    """A short stroke at each value; of many they would be one black bar."""
    if len(values) <= MAX_STROKES:
        ax.vlines(values, 0, 0.03, transform=ax.get_xaxis_transform(), color="black", linewidth=0.6, alpha=0.6)


def literal(name: str) -> str:
    r"""A name from the data: dollar signs would start mathematics, and what is not seen is escaped.

    Examples
    --------
    >>> literal("price $\n")
    'price \\$\\n'
    """
    return printable(name).replace("$", r"\$")


def shortened(name: str, most: int) -> str:
    """A name of so many letters at most, its middle left out.

    Examples
    --------
    >>> shortened("a long name", 7), shortened("a name", 7)
    ('a ...me', 'a name')
    """
    half = (most - 3) // 2
    return name if len(name) <= most else f"{name[:half]}...{name[-half:]}"


def _lines(label: str | Sequence[str]) -> str:
    """A label of names from the data, in several lines where it is several."""
    return "\n".join(map(literal, [label] if isinstance(label, str) else label))


def padded(values: np.ndarray, share: float, points: int) -> np.ndarray:
    """A grid over the range of the values and a share of it on both sides."""
    low, high = _ends(values)
    return np.linspace(low - share * (high - low), high + share * (high - low), points)


def around(x: np.ndarray) -> tuple[float, float]:
    """Limits that leave room for the marks of the outermost observations; nothing is predicted there."""
    margin = 0.015 * (x[-1] - x[0])
    return x[0] - margin, x[-1] + margin


def bins(values: np.ndarray) -> np.ndarray:
    """Edges by the rule of Freedman and Diaconis, between 10 and 60 bins: one far value would ask for thousands."""
    low, high = _ends(values)
    iqr = np.subtract(*np.quantile(values, [0.75, 0.25]))
    step = 2 * iqr / len(values) ** (1 / 3)
    wanted = (high - low) / step if step > 0 else 10
    return np.linspace(low, high, int(np.clip(np.ceil(wanted), 10, 60)) + 1)


def _ends(values: np.ndarray) -> tuple[float, float]:
    """Smallest and largest value that is not missing, apart where they are one."""
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    return (low, high) if low < high else (low - 0.5 * (abs(low) or 1.0), high + 0.5 * (abs(high) or 1.0))


def text(value: Any) -> str:
    """A value of a covariate in words."""
    return f"{value:.5g}" if isinstance(value, Real) else literal(str(value))


def entry(label: str) -> str:
    """A label for a legend, whose first word comes from the data: Matplotlib leaves out what begins with an underscore.

    Examples
    --------
    >>> entry("_low"), entry("low")
    (' _low', 'low')
    """
    return f" {label}" if label.startswith("_") else label


def jitter(size: int, step: float = GOLDEN) -> np.ndarray:
    """Offsets spread evenly over (-1/2, 1/2), the same at every call: multiples of an irrational number, no random numbers."""
    return (np.arange(1, size + 1) * step) % 1.0 - 0.5
