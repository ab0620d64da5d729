"""Presentation of results: summaries, pictures, reports, files; and which pictures there are, for completion."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from nrmmix.common.messages import guided

if TYPE_CHECKING:
    from statsmodels.iolib.summary import Summary

PlotKind = Literal[
    "components", "density", "mean", "effects", "importance", "surface", "contrasts", "quantiles", "conditional", "slices", "profiles",
    "survival", "ppc", "clusters", "uncertainty", "similarity", "n_clusters", "prior_posterior", "trace", "autocorrelation",
    "dendrogram",
    "responsibilities", "elbo",
]


class Bands(TypedDict, total=False):
    """Options of predictions, handed on to `MCMCResult.predict`: see there."""

    draws: int
    interval: float
    rng: Any


class PlotOptions(Bands, total=False):
    """Options of all pictures; which take which stands in `nrmmix.plots.plot`, what they mean at the function of the kind."""

    response: str | Sequence[str] | None
    points: int | None
    name: str | None
    lags: int
    loss: Literal["vi", "binder"]
    curve: Literal["density", "ecdf"]
    q: float | Sequence[float]
    x: Any
    at: Mapping[str, Any] | None
    average: bool
    by: str | None
    values: Mapping[str, Any] | None
    kind: str
    units: Literal["formula", "response"]
    y: float | None
    clusters: int
    words: int
    leaves: bool | None
    skip: int


class Shown:
    """Base of all that a result can be shown as; each class of results makes its own summary."""

    _summary: Callable[[], Summary]

    @guided
    def summary(self) -> Summary:
        """Tables of the model, the run, the hyperparameters and the clusters; of chains also a verdict on convergence in words.

        Returns
        -------
        statsmodels.iolib.summary.Summary
            Prints as text; `as_html()`, `as_latex()` and `as_csv()` give other formats.

        Examples
        --------
        >>> import nrmmix as nm
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> "velocity_km_s ~ 1" in fit.summary().as_text()
        True
        >>> found = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="ibhc", rng=1)
        >>> "not samples from the posterior" in found.summary().as_text()
        True
        """
        return self._summary()

    def _repr_html_(self) -> str:
        return self.summary().as_html()

    def plot(self, picture: PlotKind | None = None, /, ax: Any = None, **options: Unpack[PlotOptions]) -> Any:
        """Draw the fit; see `nrmmix.plots.plot`.

        Parameters
        ----------
        picture : str, optional
            One of `nrmmix.plots.available(fit)`; None draws what suits the model best.
        ax : matplotlib Axes or array of them, optional
            Where to draw; default a new figure.
        **options
            Those of the picture, among them the `kind` of those of several kinds, as in `plot("effects", kind="quantile")`; all are in what
            `help(nrmmix.plots.plot)` lists: draws, points, interval, rng, response and others.

        Returns
        -------
        Axes, or an array of them

        Raises
        ------
        ValueError
            If the kind is unknown or does not suit the model.

        Examples
        --------
        >>> import nrmmix as nm, matplotlib.figure as figure
        >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), draws=50, tune=50, chains=2, rng=1)
        >>> fit.plot(ax=figure.Figure().subplots(), draws=20).get_xlabel()
        'velocity_km_s'
        """
        from nrmmix.plots import plot

        own: Any = self  # a result
        return plot(own, picture, ax, **options)

    @guided
    def report(self, path: Any) -> Path:
        """Write a report as one HTML file that needs nothing else: verdict, summary, pictures, and the code that fits the same again.

        Parameters
        ----------
        path : str or path-like
            File to write, its name ending in .html; one that exists is replaced once the new one is complete.

        Returns
        -------
        Path
            Of the file.

        Raises
        ------
        ValueError, OSError
            If the file cannot be written, or the fit has no draws yet.

        Examples
        --------
        >>> import tempfile, nrmmix as nm
        >>> found = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), method="ibhc", rng=1)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     "dendrogram" in found.report(f"{folder}/galaxy.html").read_text()
        True
        """
        from nrmmix.report.html import write

        own: Any = self
        return write(own, path)


class Saved:
    """Results that can be written to a file and read back."""

    @guided
    def save(self, path: Any) -> Path:
        """Write the fit to a file that `nrmmix.load` reads; see `nrmmix.results.saving.save`."""
        from nrmmix.results.saving import save

        own: Any = self
        return save(own, path)
