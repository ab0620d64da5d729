"""The command that compiles everything once: for a user, or where an image of a machine is built."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, cast

from numba.core import event

from nrmmix.cli.output import say
from nrmmix.common.compiling import announced
from nrmmix.common.machine import available_cores
from nrmmix.common.progress import Progress
from nrmmix.kernels.compiling import disk
from nrmmix.kernels.compiling.disk import PAUSE, Claims

if TYPE_CHECKING:
    from nrmmix.api import Model
    from nrmmix.results.mcmc import MCMCResult

PROCESSES = "NRMMIX_COMPILE_PROCESSES"  # how many compile at once; the default is one for each core, and not more than MAX_PROCESSES
MAX_PROCESSES = 4  # each types again what kernels share, so that more gain little
GAIN = 0.7  # of a further process, for it starts later and types again what kernels share
SHORT: dict[str, Any] = {"draws": 5, "tune": 5, "chains": 1, "rng": 1, "progress": False}


def warmup(_options: argparse.Namespace) -> int:
    """Short fits that between them call nearly all that is compiled; each process takes those that no other has taken."""
    started = time.perf_counter()
    if not disk.is_kept():
        raise OSError("no folder for what is compiled can be written; NUMBA_CACHE_DIR can name one.")
    with TemporaryDirectory(prefix="nrmmix-", ignore_cleanup_errors=True) as folder, Progress(None) as line:
        helpers = _helpers(processes_for(available_cores()) - 1, folder)
        claims = Claims(folder)
        before = disk.share(claims)

        def left() -> float:
            return sum(seconds for job, seconds in JOBS.items() if not claims.is_finished(_claim(job)))

        def show() -> None:
            line.update("compiling", 1 - left() / sum(JOBS.values()))

        try:
            with announced(lambda: left() / (1 + GAIN * len(helpers))), event.install_listener("numba:compile", _Ended(show)):
                _work(claims)
                while any(helper.is_alive() for helper in helpers):
                    time.sleep(PAUSE)
                for job in JOBS:  # a process may have died
                    if not claims.is_finished(_claim(job)):
                        job()
            show()
        finally:
            disk.share(before)
            for helper in helpers:
                helper.terminate()
            for helper in helpers:
                helper.join()
    for reason in disk.unsaved[:1]:
        raise OSError(f"what was compiled cannot be kept: {reason.strerror or reason}") from reason
    say(f"compiled in {time.perf_counter() - started:.0f} s")
    return 0


def processes_for(cores: int) -> int:
    """Return how many processes compile at once, this one among them."""
    asked = os.environ.get(PROCESSES, "")
    return max(int(asked) if asked.isdigit() else min(cores, MAX_PROCESSES), 1)


def _helpers(many: int, folder: str) -> list[BaseProcess]:
    """So many processes that run `_help`, or as many as can be had."""
    made: list[BaseProcess] = []
    try:
        for _ in range(many):
            helper = get_context("spawn").Process(target=_help, args=(folder, os.getpid()), daemon=True)
            helper.start()
            made.append(helper)
    except OSError:  # no memory, or no processes
        pass
    return made


class _Ended(event.Listener):
    """Calls a function whenever something has been compiled."""

    def __init__(self, then: Callable[[], None]):
        self.then = then

    def on_start(self, _event: Any) -> None:
        pass

    def on_end(self, _event: Any) -> None:
        self.then()


def _help(folder: str, parent: int) -> None:
    """Compile in another process for this one, in silence."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it ends with the process that it helps
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")
    claims = Claims(folder)
    disk.share(claims)
    _work(claims, lambda: os.getppid() == parent)


def _work(claims: Claims, goes_on: Callable[[], bool] = lambda: True) -> None:
    """Jobs that nobody has claimed."""
    for job in JOBS:
        if goes_on() and claims.claim(_claim(job)):
            job()
            claims.finish(_claim(job))


def _claim(job: Callable[[], None]) -> str:
    return f"{__name__}.{job.__name__}"


def _fit(model: Any, method: str = "auto", **options: Any) -> MCMCResult:
    fit = model.fit(method, **SHORT | options)
    if fit.interrupted:
        raise KeyboardInterrupt
    return fit


def _use(fit: MCMCResult) -> None:
    """All that is asked of results."""
    for kind in ("mean", "density", "quantile", "cluster"):
        fit.predict(kind=kind, draws=5)
    fit.simulate()
    fit.log_density()
    fit.similarity()
    fit.summary()
    cast("Model", fit.model).prior_predictive(draws=1, rng=1)


def _draw(fit: MCMCResult) -> None:
    """All pictures."""
    with TemporaryDirectory(prefix="nrmmix-", ignore_cleanup_errors=True) as folder:
        fit.report(Path(folder) / "report.html")


def _density_regression() -> None:
    import nrmmix as nm

    mcycle = nm.datasets.load_mcycle()
    fit = _fit(nm.Model("accel_g ~ times_ms", mcycle))
    _use(fit)
    _draw(fit)
    _use(_fit(nm.Model("accel_g ~ times_ms", mcycle, prior=nm.NGGP(), kernel=nm.SquaredExponential(nm.LogNormal(-2, 1)))))


def _mixtures() -> None:
    import nrmmix as nm

    faithful = nm.datasets.load_faithful()
    fit = _fit(nm.Model("eruptions_min + waiting_min ~ 1", faithful))
    _use(fit)
    _draw(fit)
    for mass in (nm.Gamma(1, 1), nm.LogNormal(0, 1)):
        _use(_fit(nm.Model("waiting_min ~ 1", faithful, prior=nm.NGGP(mass))))
    _use(_fit(nm.Model("eruptions_min + waiting_min ~ 1", faithful.where(faithful < 90), missing="marginalize")))


def _trees() -> None:
    import nrmmix as nm

    for data in (nm.datasets.load_faithful(), nm.datasets.load_iris().select_dtypes(float)):
        model = nm.Model(data=data)
        _use(_fit(model, "tree"))
        for method in ("bhc", "ibhc"):
            model.fit(method, rng=1, progress=False)


def _other_methods() -> None:
    import nrmmix as nm

    faithful, mcycle = nm.datasets.load_faithful(), nm.datasets.load_mcycle()
    for model in (
        nm.Model("eruptions_min + waiting_min ~ 1", faithful), nm.Model("accel_g ~ times_ms", mcycle),
        nm.Model("accel_g ~ times_ms", mcycle, prior=nm.FiniteMixture(50)),
    ):
        table = model.methods()
        for method, moves in table.loc[table["suits"], "moves"].items():
            if moves.startswith("Cycle"):
                _fit(model, str(method))
    _use(nm.Model("accel_g ~ times_ms", mcycle).fit(nm.VB(starts=1), rng=1, progress=False))


def _many_rows() -> None:
    import numpy as np

    import nrmmix as nm

    y = np.random.default_rng(1).normal(size=(20_000, 2))
    _fit(nm.Model(data=y), "gibbs", draws=1, tune=1)


def _other_kernels() -> None:
    import nrmmix as nm

    mcycle = nm.datasets.load_mcycle()
    for kernel in (nm.SquaredExponential(0.2), nm.Box(nm.LogNormal(-2, 1))):
        _use(_fit(nm.Model("accel_g ~ times_ms", mcycle, prior=nm.NGGP(), kernel=kernel)))


def _other_priors() -> None:
    import nrmmix as nm

    nm.Model("waiting_min ~ 1", nm.datasets.load_faithful(), prior=nm.PitmanYor()).prior_predictive(draws=1, rng=1)
    nm.Model("accel_g ~ times_ms", nm.datasets.load_mcycle(), prior=nm.FiniteMixture(50)).prior_predictive(draws=1, rng=1)


def _several_families() -> None:
    import nrmmix as nm

    faithful = nm.datasets.load_faithful()
    wait, long = faithful["waiting_min"].astype(int), faithful["eruptions_min"] > 3
    several = faithful.assign(
        half=wait / 2, third=wait / 3, fourth=wait / 4, root=faithful["waiting_min"] ** 0.5, count=wait, long=long,
        kind=long.map({True: "long", False: "short"}), tens=wait // 10, rest=wait % 10 + 1, late=(wait - 70.0).clip(lower=0),
    )
    family = {
        "eruptions_min": nm.Regression("1 + waiting_min"), "half": nm.Gaussian("diagonal"), "third": nm.Gaussian("spherical"),
        "fourth": nm.Gaussian("tied"), "root": nm.SemiconjugateGaussian(), "count": nm.Poisson(), "long": nm.Bernoulli(),
        "kind": nm.Categorical(), "tens + rest": nm.Multinomial(), "late": nm.Hurdle(),
    }
    fit = _fit(nm.Model(f"{' + '.join(family)} ~ 1", several, family=family))
    fit.predict(several.iloc[:5], draws=5)
    fit.predict(kind="density", draws=5)


# About how many seconds each takes in one process, in this order; what takes longest comes first.
JOBS = {
    _density_regression: 45.0, _trees: 32.0, _other_methods: 22.0, _several_families: 10.0, _many_rows: 7.0, _mixtures: 5.0,
    _other_kernels: 2.0, _other_priors: 2.0,
}
