"""An order of the rows in which those that are near one another come together, in groups and in blocks of a few: of the data alone.

All rows are divided in two, and each part again.  A part is divided along the line through two rows that are far apart, in the middle of
what it covers there, where that leaves some of it on both sides, and at its median otherwise: clusters that stand apart are not cut, and
rows far out do not make the tree deep.
"""

from __future__ import annotations

from nrmmix.kernels.core.jit import kernel

MIN_ROWS, APART = 4, 5.0  # a block of so many is divided where squares within its parts are so many times less than within all
MIN_PART = 16  # a part of fewer than one in so many is not split off, but from small parts
SMALL = 128  # rows
STACK = 128  # two numbers for each part that waits; the smaller is divided first


@kernel
def _farthest(y, order, first, last, point):
    """The row of places first..last-1 that is farthest from a point."""
    at, most = first, -1.0
    for t in range(first, last):
        square = 0.0
        for j in range(y.shape[1]):
            e = y[order[t], j] - point[j]
            square += e * e
        if square > most:
            at, most = t, square
    return order[at], most


@kernel
def _swap(order, key, s, t):
    order[s], order[t] = order[t], order[s]
    key[s], key[t] = key[t], key[s]


@kernel
def _part_at(order, key, first, last, cut):
    """Keys below the cut come first; where the others begin."""
    middle = first
    for t in range(first, last):
        if key[t] < cut:
            _swap(order, key, middle, t)
            middle += 1
    return middle


@kernel
def _part_in_half(order, key, first, last):
    """The half of the places with the lower keys comes first (quickselect); where the others begin."""
    middle = (first + last) // 2
    low, high = first, last - 1
    while low < high:
        pivot = key[(low + high) // 2]
        s, t = low, high
        while s <= t:
            while key[s] < pivot:
                s += 1
            while key[t] > pivot:
                t -= 1
            if s <= t:
                _swap(order, key, s, t)
                s += 1
                t -= 1
        if middle <= t:
            high = t
        elif middle >= s:
            low = s
        else:
            break
    return middle


@kernel
def _divide(y, order, key, first, last, point):
    """Return where the second of two parts of the places begins; first where all rows are the same."""
    d = y.shape[1]
    for j in range(d):
        total = 0.0
        for t in range(first, last):
            total += y[order[t], j]
        point[j] = total / (last - first)
    a, _ = _farthest(y, order, first, last, point)
    b, apart = _farthest(y, order, first, last, y[a])
    if not apart > 0.0:
        return first
    low, high = 0.0, 0.0
    for t in range(first, last):
        x = 0.0
        for j in range(d):
            x += (y[order[t], j] - y[a, j]) * (y[b, j] - y[a, j])
        key[t] = x
        low, high = min(low, x), max(high, x)
    middle = _part_at(order, key, first, last, 0.5 * (low + high))
    fewer = min(middle - first, last - middle)
    if fewer == 0 or (last - first > SMALL and fewer * MIN_PART < last - first):
        middle = _part_in_half(order, key, first, last)
    return middle


@kernel
def _squares(y, order, first, last, point):
    """Sum of squares about the mean of places first..last-1."""
    total = 0.0
    for j in range(y.shape[1]):
        point[j] = 0.0
        for t in range(first, last):
            point[j] += y[order[t], j]
        point[j] /= last - first
        for t in range(first, last):
            e = y[order[t], j] - point[j]
            total += e * e
    return total


@kernel
def put_in_places(y, most, most_of_group, order, begins, heads, key, point, stack):
    """The order (n,); where blocks begin, and in the end n, in begins (n + 1,); 1 in heads (n,) for blocks that begin a group, else 0.

    There are `most` rows in a block at most, and most_of_group in a group.  Returns how many blocks there are.  key (n,), point (d,) and
    stack (STACK,) are scratch.
    """
    n, blocks, waiting = y.shape[0], 0, 0
    for i in range(n):
        order[i], begins[i], heads[i] = i, 0, 0
    first, last = 0, n
    heads[0] = 1
    while True:
        begins[first] = 1
        middle = first
        if last - first >= MIN_ROWS:
            middle = _divide(y, order, key, first, last, point)
            if last - first > most:
                middle = middle if middle > first else (first + last) // 2
            elif middle > first:
                apart = _squares(y, order, first, middle, point) + _squares(y, order, middle, last, point)
                if APART * apart > _squares(y, order, first, last, point):
                    middle = first
        if middle > first:
            begins[middle] = 1
            if last - first > most_of_group:
                heads[middle] = 1
            if middle - first <= last - middle:
                stack[waiting], stack[waiting + 1] = middle, last
                last = middle
            else:
                stack[waiting], stack[waiting + 1] = first, middle
                first = middle
            waiting += 2
        elif waiting > 0:
            waiting -= 2
            first, last = stack[waiting], stack[waiting + 1]
        else:
            break
    for t in range(n):
        if begins[t] == 1:
            begins[blocks], heads[blocks] = t, heads[t]
            blocks += 1
    begins[blocks] = n
    return blocks
