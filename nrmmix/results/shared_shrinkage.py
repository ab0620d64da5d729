"""Responses of one regression family that differ so much in how narrow components are that one shrinkage does not suit all."""

from __future__ import annotations

import numpy as np

from nrmmix.model.families import Regression
from nrmmix.model.specification import Specification
from nrmmix.posterior.draws import Draws

TOO_FAR = 100.0  # standard deviations of a response that coefficients are from 0 a priori, as standardised


def too_far_a_priori(model: Specification, draws: Draws) -> str:
    """Say of which response coefficients are spread without bounds, as components of another one have taught their common shrinkage.

    Coefficient j of response k has the standard deviation sqrt(noise_scale_k / (nu shrinkage_j)) a priori, about.  Where components of one
    response are narrow and far from its mean, shrinkage is small, and then components that few rows belong to are anywhere in another
    response, whose bands become as wide.  Empty where that is not so, or there is one response.

    Examples
    --------
    >>> import nrmmix as nm
    >>> x = np.linspace(0, 1, 40)
    >>> fit = nm.fit("y + z ~ x", {"x": x, "y": np.sin(x), "z": np.cos(9 * x)}, draws=20, tune=20, chains=2, rng=1)
    >>> too_far_a_priori(fit.model, fit.draws)
    ''
    """
    family = model.blocks.blocks[0].family
    if len(model.blocks.blocks) > 1 or not isinstance(family, Regression) or len(family.names) == 1 or "shrinkage" not in draws:
        return ""
    shrinkage, noise = (draws[name].reshape(-1, draws[name].shape[-1]) for name in ("shrinkage", "noise_scale"))
    spread = np.median(np.sqrt(noise[:, None, :] / (family.resolved.nu * shrinkage[:, :, None])), axis=0)  # (q, d)
    widest = spread.max(axis=0)
    if widest.max() < TOO_FAR:
        return ""
    k, narrow = int(widest.argmax()), int(np.median(noise, axis=0).argmin())
    own = ", ".join(f"{name!r}: nm.Regression({family.design!r})" for name in family.names)
    return (
        f"Bands of {family.names[k]!r} are too wide: coefficients of all responses have one shrinkage, and components of "
        f"{family.names[narrow]!r} are so narrow that it lets those of {family.names[k]!r} be {widest[k]:,.0f} standard deviations from 0. "
        f"Give each response a family of its own, family={{{own}}}."
    )
