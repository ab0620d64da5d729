"""The command that compiles everything once."""

from __future__ import annotations

import argparse

from nrmmix.cli.output import say


def warmup(_options: argparse.Namespace) -> int:
    """Short fits that between them call nearly all that is compiled: of Gaussian components with known parameters not all forms."""
    import time

    import nrmmix as nm

    started = time.perf_counter()
    faithful, mcycle = nm.datasets.load_faithful(), nm.datasets.load_mcycle()
    widths = nm.LogNormal(-2, 1)
    models = [
        nm.Model("eruptions_min + waiting_min ~ 1", faithful),
        *(nm.Model("waiting_min ~ 1", faithful, prior=nm.NGGP(mass)) for mass in (nm.Gamma(1, 1), nm.LogNormal(0, 1))),
        *(nm.Model("accel_g ~ times_ms", mcycle, prior=nm.NGGP(), kernel=kernel(widths)) for kernel in (nm.SquaredExponential, nm.Box)),
        nm.Model("eruptions_min + waiting_min ~ 1", faithful.where(faithful < 90), missing="marginalize"),
    ]
    for model in models:
        fit = model.fit(draws=5, tune=5, chains=1, rng=1)
        for kind in ("mean", "density", "quantile", "cluster"):
            fit.predict(kind=kind, draws=5)
        fit.simulate()
        fit.log_density()
        fit.similarity()
        fit.summary()
        model.prior_predictive(draws=1, rng=1)
    nm.Model("waiting_min ~ 1", faithful, prior=nm.PitmanYor()).prior_predictive(draws=1, rng=1)
    nm.Model("accel_g ~ times_ms", mcycle, prior=nm.FiniteMixture(50)).prior_predictive(draws=1, rng=1)
    wait, long = faithful["waiting_min"].astype(int), faithful["eruptions_min"] > 3
    several = faithful.assign(
        half=faithful["waiting_min"] / 2, root=faithful["waiting_min"] ** 0.5, count=wait, long=long,
        kind=long.map({True: "long", False: "short"}), tens=wait // 10, rest=wait % 10 + 1,
    )
    family = {
        "eruptions_min": nm.Regression("1 + waiting_min"), "half": nm.Gaussian("diagonal"), "root": nm.SemiconjugateGaussian(),
        "count": nm.Poisson(), "long": nm.Bernoulli(), "kind": nm.Categorical(), "tens + rest": nm.Multinomial(),
    }
    fit = nm.fit(f"{' + '.join(family)} ~ 1", several, family=family, draws=5, tune=5, chains=1, rng=1)
    fit.predict(several.iloc[:5], draws=5)
    fit.predict(kind="density", draws=5)
    say(f"compiled in {time.perf_counter() - started:.0f} s")
    return 0
