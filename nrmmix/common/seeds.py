"""Seeds: one sequence from whatever a caller gives."""

from __future__ import annotations

from typing import Any, cast

import numpy as np


def entropy(seeds: np.random.SeedSequence) -> int:
    """The one integer that a sequence of `seed_sequence` begins from."""
    return int(cast(int, seeds.entropy))


def seed_sequence(rng: Any) -> np.random.SeedSequence:
    """A seed sequence of one's own from an int, SeedSequence, Generator or None; a ValueError for anything else."""
    if rng is None:
        return np.random.SeedSequence()
    if isinstance(rng, np.random.SeedSequence):  # reduced to one integer: spawning would change the caller's
        return np.random.SeedSequence(int.from_bytes(rng.generate_state(4).tobytes(), "little"))
    if isinstance(rng, np.random.Generator):
        return np.random.SeedSequence(int.from_bytes(rng.bytes(16), "little"))
    if isinstance(rng, (int, np.integer)) and not isinstance(rng, bool) and rng >= 0:
        return np.random.SeedSequence(int(rng))
    raise ValueError(f"rng must be a non-negative int, a SeedSequence, a Generator or None, not {rng!r}.")


_FREE: list[np.random.Generator] = []


def acquire(seed: np.random.SeedSequence | dict[str, Any]) -> np.random.Generator:
    """A generator for compiled chains, as `default_rng` makes it of a seed, or in a given state of the bit generator; see `release`.

    Kernels that count no references never let go of a generator that they have seen, so that the same ones are used again and again.

    Examples
    --------
    >>> rng = acquire(np.random.SeedSequence(3))
    >>> bool(rng.random() == np.random.default_rng(3).random())
    True
    >>> release(rng)
    """
    try:
        rng = _FREE.pop()
    except IndexError:
        rng = np.random.default_rng(0)
    rng.bit_generator.state = seed if isinstance(seed, dict) else np.random.PCG64(seed).state
    return rng


def release(*generators: np.random.Generator) -> None:
    """Nobody uses these any more."""
    _FREE.extend(generators)


def prediction_seed(seed: int, rng: Any = None) -> np.random.SeedSequence:
    """The seed of a prediction: `rng` as of `seed_sequence`, or where that is None one that follows from the seed of the fit.

    So a prediction repeats itself; its stream is apart from those of the chains.
    """
    return np.random.SeedSequence(seed, spawn_key=(2**31,)) if rng is None else seed_sequence(rng)


def draw_seeds(seed: np.random.SeedSequence, size: int) -> list[np.random.SeedSequence]:
    """Draw seeds that are the same for the same draws, however the rows are split."""
    return seed_sequence(seed).spawn(size)
