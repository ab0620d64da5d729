"""Seeds: one sequence from whatever a caller gives."""

from __future__ import annotations

from typing import Any

import numpy as np


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


def prediction_seed(seed: int) -> np.random.SeedSequence:
    """Follows from the seed of a fit, so that a prediction repeats itself; apart from the streams of the chains."""
    return np.random.SeedSequence(seed, spawn_key=(2**31,))


def draw_seeds(seed: np.random.SeedSequence, size: int) -> list[np.random.SeedSequence]:
    """The same seeds for the same draws, however the rows are split."""
    return seed_sequence(seed).spawn(size)
