"""Classic data sets that come with the package, and files of the user.

Loaders read a file anew in each call, so that what they return can be changed freely.

Examples
--------
>>> load_faithful().shape
(272, 2)
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nrmmix.common.interrupts import interrupts_delayed
from nrmmix.common.messages import did_you_mean

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

    import pandas as pd

__all__ = [
    "Corpus", "external", "load", "load_acidity", "load_digits", "load_faithful", "load_galaxy", "load_iris", "load_mcycle",
    "load_reuters", "names",
]

NAMES = ("acidity", "faithful", "galaxy", "iris", "mcycle")
FILES = (*(f"{name}.csv" for name in NAMES), "digits.npz", "reuters.npz")  # all data that come with the package
ENVIRONMENT = "NRMMIX_DATA_DIR"


# ------------------------------------------------------------------------------------------- tables with data

def names() -> tuple[str, ...]:
    """Names that `load` knows, in alphabetical order: those of the tables in csv files.

    Examples
    --------
    >>> names()
    ('acidity', 'faithful', 'galaxy', 'iris', 'mcycle')
    """
    return NAMES


def load(name: str) -> pd.DataFrame:
    """Data set by name.

    Parameters
    ----------
    name : str
        One of `names()`.

    Returns
    -------
    DataFrame
        A fresh copy.

    Raises
    ------
    ValueError
        Unknown name; the message gives the nearest known one.

    Examples
    --------
    >>> list(load("mcycle").columns)
    ['times_ms', 'accel_g']
    """
    if name not in NAMES:
        raise ValueError(f"unknown data set {name!r}; there are {', '.join(NAMES)}{did_you_mean(name, NAMES)}")
    with interrupts_delayed():
        import pandas as pd

    with file_of(f"{name}.csv").open("r", encoding="utf-8") as file:
        return pd.read_csv(file)


def load_acidity() -> pd.DataFrame:
    """Acidity index of 155 lakes in Wisconsin: `log_anc`, the logarithm of acid neutralising capacity + 50.

    Returns
    -------
    DataFrame, 155 rows

    Examples
    --------
    >>> round(float(load_acidity()["log_anc"].mean()), 4)
    5.1051
    """
    return load("acidity")


def load_faithful() -> pd.DataFrame:
    """Old Faithful geyser: length of an eruption, `eruptions_min`, and time to the next one, `waiting_min`.

    Returns
    -------
    DataFrame, 272 rows

    Examples
    --------
    >>> load_faithful().mean().round(4).to_dict()
    {'eruptions_min': 3.4878, 'waiting_min': 70.8971}
    """
    return load("faithful")


def load_galaxy() -> pd.DataFrame:
    """Velocities of 82 galaxies in the Corona Borealis region in km/s, in increasing order.

    `velocity_km_s_mass` is the table as the R package MASS has it; in `velocity_km_s` the 78th value is 26960
    instead of the misprint 26690.

    Returns
    -------
    DataFrame, 82 rows

    Examples
    --------
    >>> load_galaxy().iloc[77].to_dict()
    {'velocity_km_s_mass': 26690, 'velocity_km_s': 26960}
    """
    return load("galaxy")


def load_iris() -> pd.DataFrame:
    """Iris flowers: `sepal_length_cm`, `sepal_width_cm`, `petal_length_cm`, `petal_width_cm`, `species`.

    Returns
    -------
    DataFrame, 150 rows

    Examples
    --------
    >>> load_iris()["species"].value_counts().to_dict()
    {'setosa': 50, 'versicolor': 50, 'virginica': 50}
    """
    return load("iris")


def load_mcycle() -> pd.DataFrame:
    """Motorcycle crash tests: head acceleration `accel_g` (g) at `times_ms` (ms after the impact).

    Returns
    -------
    DataFrame, 133 rows at 94 distinct times

    Examples
    --------
    >>> load_mcycle()["times_ms"].nunique()
    94
    """
    return load("mcycle")

# -------------------------------------------------------------------------------------- counts of words and of ink

@dataclass(frozen=True)
class Corpus:
    """Documents as counts of words.

    Attributes
    ----------
    counts : csr_array, shape (documents, words)
        What `nm.Model(data=counts, family=nm.Multinomial())` takes.
    vocabulary : ndarray of str, shape (words,)
    titles : ndarray of str, shape (documents,)
    """

    counts: Any
    vocabulary: np.ndarray
    titles: np.ndarray


def load_reuters() -> Corpus:
    """Words of 395 news stories of Reuters, 1996 and 1997: a vocabulary of 4,258 words, 84,010 tokens.

    Returns
    -------
    Corpus

    Examples
    --------
    >>> corpus = load_reuters()
    >>> corpus.counts.shape, int(corpus.counts.sum())
    ((395, 4258), 84010)
    >>> corpus.vocabulary[:3].tolist()
    ['church', 'pope', 'years']
    """
    from scipy.sparse import csr_array

    z = _arrays("reuters.npz")
    counts = csr_array((z["counts"].astype(np.float64), z["indices"].astype(np.int64), z["indptr"]), shape=tuple(z["shape"]))
    return Corpus(counts, z["vocabulary"], z["titles"])


def load_digits() -> pd.DataFrame:
    """Handwritten digits as images of 8 x 8 pixels: ink of each pixel, counted from 0 to 16, and the digit.

    Returns
    -------
    DataFrame, 1797 rows
        Columns p00 to p77, row and column of the pixel counted from the upper left, and digit.

    Examples
    --------
    >>> digits = load_digits()
    >>> digits.shape, digits["digit"].nunique(), int(digits["p34"].max())
    ((1797, 65), 10, 16)
    """
    with interrupts_delayed():
        import pandas as pd

    z = _arrays("digits.npz")
    names = [f"p{row}{column}" for row in range(8) for column in range(8)]
    return pd.DataFrame(z["images"].astype(np.int64), columns=names).assign(digit=z["labels"].astype(np.int64))


# ------------------------------------------------------------------------------------------------------ files

def external(filename: str) -> Path:
    """Path of a file that does not come with the package.

    Only the folder that the environment variable NRMMIX_DATA_DIR names is looked at.

    Parameters
    ----------
    filename : str
        Name of the file, relative to that folder.

    Returns
    -------
    Path
        Of an existing file.

    Raises
    ------
    FileNotFoundError
        The variable is unset or empty, or the folder has no such file.

    Examples
    --------
    >>> external("no-such-file.npz")  # doctest: +IGNORE_EXCEPTION_DETAIL
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    folder = os.environ.get(ENVIRONMENT, "")
    if not folder:
        raise FileNotFoundError(f"{filename} does not come with nrmmix: set {ENVIRONMENT} to the folder that holds it")
    path = Path(folder) / filename
    if not path.is_file():
        raise FileNotFoundError(f"no file {filename} in {folder} (the folder that {ENVIRONMENT} names)")
    return path


def file_of(filename: str) -> Traversable:
    """A file of nrmmix.data, or of the folder `data` beside the package where that is not installed."""
    try:
        path = resources.files("nrmmix.data").joinpath(filename)
        if path.is_file():
            return path
    except ModuleNotFoundError:
        pass
    return Path(__file__).resolve().parents[2] / "data" / filename


def _arrays(filename: str) -> dict[str, np.ndarray]:
    with file_of(filename).open("rb") as file, np.load(file, allow_pickle=False) as held_arrays:
        return dict(held_arrays)
