"""Every sampler of density regression against the exact posterior of partitions and locations, by quadrature over v.

`make matrix` writes it with its total variations to docs/exactness_regression.md; the tests of tests/exact assert shorter runs.
"""

from __future__ import annotations

import argparse
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any

from exact import priors
from exact.enumeration import KernelJoint, location_posterior, normalised, total_variation
from support.global_moves import GlobalMoves

import nrmmix as nm
from nrmmix.inference.methods import OF_LOCATIONS

MASS, DEVIATIONS = 1.3, 6.0  # errors of states go together
DESIGNS = {
    "SE, 2 locations": priors.DESIGNS["se"],
    "SE, 3 locations": ([0.0, 1.0, 1.0, 0.0], [0.0, 0.4, 1.0], nm.SquaredExponential(0.5, locations=[0.0, 0.4, 1.0])),
    "box, 3 locations": priors.DESIGNS["box"],
}
MEASURES: dict[str, Any] = {
    "DP": nm.DirichletProcess(MASS), "NGGP, sigma 0.3": nm.NGGP(MASS, 0.3), "NGGP, sigma 0.6": nm.NGGP(MASS, 0.6),
    "finite, 3 atoms": nm.FiniteMixture(3, MASS),
}
SAMPLERS: dict[str, Any] = {
    "gibbs": nm.Gibbs(),
    "split-merge, sequential": nm.SplitMerge(proposals=2, proposal="sequential"),
    "split-merge, restricted Gibbs": nm.SplitMerge(proposals=2, scans=1),
    "tree, blocks alone": GlobalMoves(global_moves=3, scan_share=0.0),
    "tree, scan alone": GlobalMoves(global_moves=3, scan_share=1.0, scans=2),
    "slice": nm.Slice(), "sngp": nm.SNGP(), "blocked": nm.Blocked(),
    "relocation, seldom Gibbs": nm.Cycle([nm.Relocation(), nm.Relocation(), nm.Gibbs(subset=1)]),
    "default cycle": OF_LOCATIONS["split_merge"],
}


@cache
def law(design: str, measure: str) -> dict[tuple[int, ...], float]:
    _, K, group, _ = priors.setting(design, DESIGNS)
    if measure.startswith("finite"):
        log_p = priors.with_likelihood(priors.FiniteJoint(K, group, 3, MASS).posterior(lambda block: 0.0), len(group))
        return normalised(list(log_p), list(log_p.values()))
    return location_posterior(KernelJoint(K, group, MASS, getattr(MEASURES[measure], "sigma", 0.0), 161), priors.log_marginal)


def cell(sampler: str, design: str, measure: str, draws: int, chains: int, rng: int = 1) -> tuple[float, float] | None:
    """Distance, and the most that Monte Carlo error explains; None where the sampler refuses the measure."""
    data, _, _, kernel = priors.setting(design, DESIGNS)
    model = priors.regression(data, kernel, MEASURES[measure])
    if SAMPLERS[sampler].refusal(model):
        return None
    fit = model.fit(SAMPLERS[sampler], draws=draws, tune=500, chains=chains, rng=rng)
    return total_variation(law(design, measure), priors.states(fit), DEVIATIONS)


HEAD = """# Exactness of density regression

The total variation between the frequencies of partitions and locations that a sampler visits and their exact posterior probabilities, by
quadrature over v for every partition of 4 observations in 2 groups and every choice of locations; in parentheses the largest distance that
the Monte Carlo error of the frequencies explains (its mean and six standard deviations, for these errors go together). Each move runs by
itself, but for relocation, which leaves the number of clusters as it is: Gibbs sampling of one row opens and closes clusters. The default
cycle is what `nm.fit` runs. A dash is a measure that a move refuses. {chains} chains of {draws:,} draws each. `make matrix` writes this
page; the tests assert shorter runs, with more measures, parameters that are not integrated out, sampled hyperparameters, and wrong samplers
that must fail.

"""


def row(sampler: str, design: str, cells: list[tuple[float, float] | None]) -> str:
    """Of the table on the page."""
    shown = ("-" if one is None else f"{one[0]:.4f} ({one[1]:.4f})" for one in cells)
    return f"| {design} | {sampler} | " + " | ".join(shown) + " |\n"


def write(path: Path, draws: int, chains: int) -> list[tuple[float, float]]:
    """The page; the cells beyond their limits."""
    started, cells = time.perf_counter(), []
    page = HEAD.format(draws=draws, chains=chains)
    page += "| kernel | sampler | " + " | ".join(MEASURES) + " |\n|" + "---|" * (len(MEASURES) + 2) + "\n"
    for design in DESIGNS:
        for sampler in SAMPLERS:
            own = [cell(sampler, design, measure, draws, chains) for measure in MEASURES]
            page += row(sampler, design, own)
            sys.stderr.write(f"{design}, {sampler}: {own}\n")
            cells += [one for one in own if one is not None]
    beyond = [one for one in cells if one[0] >= one[1]]
    page += f"\n{len(cells)} cells, {len(beyond)} beyond their limits; largest distance {max(one[0] for one in cells):.4f}.\n"
    path.write_text(page, encoding="utf-8")
    sys.stderr.write(f"{time.perf_counter() - started:.0f} s\n")
    return beyond


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--to", type=Path, required=True)
    parser.add_argument("--draws", type=int, default=25_000)
    parser.add_argument("--chains", type=int, default=16)
    given = parser.parse_args()
    if beyond := write(given.to, given.draws, given.chains):
        sys.exit(f"{len(beyond)} cells are beyond their limits: {beyond}")


if __name__ == "__main__":
    main()
