"""Whether rows that are scored as held out are rows that a fit has seen."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from nrmmix.model.frame.rows import read_rows
from nrmmix.model.specification import Specification
from nrmmix.posterior.predict.rows import observed

FAR = 3.0  # standard deviations above what chance brings about
MIN_ROWS = 3  # rows of which labels and values alike say something, and that matter to a mean
NAMED = 3  # rows that are named


def seen_rows(model: Specification, newdata: Any) -> np.ndarray:
    """Positions of new rows that hold the same responses, covariates and inputs as rows that were fitted, if these are more than by chance.

    By chance a new row is like one that was fitted with a probability that is estimated by the share of rows that are like another one
    (Good 1953, Biometrika 40), or by what ties in single columns would bring about if these were independent, or where there are ties in
    all of them as one pair in the data does, whichever is most.  That is 0 where a column has no ties, and near 1 of a few categories, of
    which nothing can be told but where all rows with labels of fitted ones hold their values too.  Empty where the rows that were fitted
    are not in memory.
    """
    frame = model.frame
    if frame.is_streamed:
        return np.zeros(0, np.int64)
    rows = read_rows(frame, newdata)
    y, limits = rows.responses(), rows.limits()
    parts = [] if frame.is_sparse else [rows.covariates()[0] if model.is_regression else None, rows.inputs()[0], _ends(limits)]
    old, labels = _contents(frame.seen, [frame.covariates, frame.inputs, _ends(frame.limits)]), frame.index
    if not labels.is_unique:  # copies of a row, such as weights make, are one
        copies = pd.Series(zip(labels, old, strict=True), dtype=object).duplicated().to_numpy()
        old, labels = [content for content, copy in zip(old, copies, strict=True) if not copy], labels[~copies]
    own = Counter(old)
    new = [content if there else None for content, there in zip(_contents(y, parts), observed(y, limits), strict=True)]
    found = np.array([i for i, content in enumerate(new) if content in own], np.int64)
    n, alone = len(old), sum(count == 1 for count in own.values())
    pairs = 0.0 if frame.is_sparse else _all_tied(np.frombuffer(b"".join(old)).reshape(n, -1))
    if len(found) > _by_chance(len(new), min(max(1.0 - alone / n, n * pairs, 2.0 / n if pairs else 0.0), 1.0)):
        return found
    # a table that was fitted, or a part of it, by its labels too: that single rows are alike is rarer than that some row is
    index = rows.index
    place = labels.get_indexer(index) if labels.is_unique else np.full(len(index), -1)
    known = np.array([i for i in np.flatnonzero(place >= 0) if new[i] is not None], np.int64)
    alike = all(new[i] == old[place[i]] for i in known)
    return known if alike and len(known) >= MIN_ROWS and len(known) > _by_chance(len(known), pairs) else found[:0]


def _by_chance(size: int, chance: float) -> float:
    """Return, of so many rows, those that are seldom more by chance."""
    return size * chance + FAR * np.sqrt(size * chance * (1.0 - chance))


def _all_tied(rows: np.ndarray) -> float:
    """Probability that two rows are tied in all columns, if these are independent."""
    n = len(rows)
    counts = (np.unique(column, return_counts=True)[1] for column in rows.T)
    return float(np.prod([(count * (count - 1.0)).sum() / max(n * (n - 1.0), 1.0) for count in counts]))


def described(found: np.ndarray, index: pd.Index) -> str:
    """Some of so many rows, by the labels of the first."""
    first = ", ".join(str(index[i]) for i in found[:NAMED])
    return f"{len(found):,} of {len(index):,} rows ({first}{', ...' if len(found) > NAMED else ''})"


def _ends(limits: np.ndarray | None) -> np.ndarray | None:
    """Limits (n, d, 2) of censored responses as columns."""
    return None if limits is None else limits.reshape(len(limits), -1)


def _contents(response: Any, others: list[np.ndarray | None]) -> list[bytes]:
    """Return the numbers of each row as bytes; of sparse counts where they are and how many."""
    if not isinstance(response, np.ndarray):
        ends = response.indptr
        return [
            response.indices[a:b].astype(np.int64).tobytes() + response.data[a:b].astype(float).tobytes()
            for a, b in pairwise(ends)
        ]
    table = np.hstack([response, *(one for one in others if one is not None)]) + 0.0  # -0 is 0
    table[np.isnan(table)] = np.nan  # one missing cell is as the other
    return [row.tobytes() for row in table]
