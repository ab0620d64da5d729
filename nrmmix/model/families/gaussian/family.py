"""Gaussian components."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from nrmmix.common.registry import plugin
from nrmmix.model.families.base import MAX_NU, check_variances, none_or_positive, positive_definite, shaped
from nrmmix.model.families.form import FormFamily
from nrmmix.model.families.gaussian.conjugate_prior import KNOWN, ConjugatePrior
from nrmmix.model.families.gaussian.known_covariance import KnownCovariance, KnownCovarianceWithGaps
from nrmmix.model.families.gaussian.normal_gamma import NormalGamma
from nrmmix.model.families.gaussian.normal_wishart import NormalWishart
from nrmmix.model.families.gaussian.spherical import Spherical
from nrmmix.model.families.gaussian.tied import Tied
from nrmmix.model.frame.arrays import reals
from nrmmix.model.frame.summary import Summary
from nrmmix.model.frame.tables import Levels
from nrmmix.model.priors.hyperpriors import Gamma

COVARIANCES = ("full", "tied", "diagonal", "spherical")
WORDS = {"diag": "diagonal", "VVV": "full", "EEE": "tied", "VVI": "diagonal", "VII": "spherical"}  # of other packages
OTHER_WORDS = ("full", *WORDS)  # that stand for a family where others have Gaussian components alone
# Defaults, chosen by held-out score: benchmarks/default_scale.py.
EXTRA_NU = 1.0  # over d, or over 1 where the covariance is diagonal
MANY = 5  # responses, from which on other numbers suit
R, R_OF_MANY = 0.01, 0.1  # the latter with a full covariance whose scale follows the data
SHAPE, MEAN_OF_FEW, MEAN_OF_MANY = 0.5, 0.1, 0.2  # of the law of the scale, means over nu times the sample variances
SPREAD, SPREAD_ABOUT_KNOWN = 0.02, 0.2  # of a scale that is not sampled, over the same; means of its law over mean squares
KNOWN_COVARIANCE_R = 1.0  # over the mean of the sample variances as multiples of the known ones
UNBOUNDED = 1e150  # of responses in kernel coordinates: their squares are still numbers
MIN_NU = 0.05  # above d - 1; below, draws from the prior leave floating point


def is_law(scale: Any) -> bool:
    """Whether a scale is sampled: a law for all responses, or a sequence of them."""
    return isinstance(scale, Gamma) or (isinstance(scale, (tuple, list)) and any(isinstance(one, Gamma) for one in scale))


@plugin
@dataclass(frozen=True, eq=False)
class Gaussian(FormFamily):
    """Gaussian components with a conjugate prior: unknown mean and covariance, or one of them known.

    =========== ================ ==========================================================================================
    covariance  known            prior
    =========== ================ ==========================================================================================
    "full"                       precision Lambda ~ Wishart(nu, scale^-1), mean mu | Lambda ~ N(m, (r Lambda)^-1)
    "full"      known_mean       Lambda ~ Wishart(nu, scale^-1)
    "full"      known_covariance mu ~ N(m, S/r), S the known covariance
    "tied"                       one Sigma of all components ~ inverse Wishart(nu, scale), mu | Sigma ~ N(m, Sigma/r)
    "diagonal"                   lambda_j ~ Gamma(nu/2, rate scale_j/2), mu_j | lambda_j ~ N(m_j, 1/(r lambda_j)), j = 1..d
    "diagonal"  known_mean       lambda_j ~ Gamma(nu/2, rate scale_j/2)
    "diagonal"  known_covariance mu_j ~ N(m_j, S_j/r), S_j the known variances
    "spherical"                  lambda ~ Gamma(nu/2, rate scale/2), mu | lambda ~ N(m, 1/(r lambda) I)
    "spherical" known_mean       lambda ~ Gamma(nu/2, rate scale/2)
    =========== ================ ==========================================================================================

    Hyperparameters that are not given follow the data, so that fits do not depend on the units of the responses: see Notes.

    Parameters
    ----------
    covariance : "full", "tied", "diagonal" or "spherical", default "full"
        One covariance matrix a component; or one matrix for all components, as scikit-learn's "tied"; or one variance of
        each response: within a component responses then are independent; or one variance for all responses, which then should have one
        unit.  "diag" and mclust's VVV, EEE, VVI and VII are these too.  Variances of each response that all components share are
        `nrmmix.SemiconjugateGaussian(shared_precision=True)`.
    known_mean : float or array_like, (d,), optional
        Mean of every component; a single number is that of all responses.  m and r then do not apply.
    known_covariance : array_like, (d, d), or (d,) variances with covariance="diagonal", optional
        Covariance of every component.  nu and scale then do not apply.  Not of spherical covariance: equal variances are diagonal; nor of
        tied: a full one that is known is that of all components.
    m : array_like, (d,), optional
        Prior mean of the component means, in the units of the responses; default the sample mean.
    r : float, optional
        Prior weight of m, in observations; default 0.01, of five responses or more with a full covariance and the default scale 0.1, with
        known_covariance 1 / mean(V_j/S_jj), V_j the sample variances.
    nu : float, optional
        Degrees of freedom; default d + 1, at least d - 0.95.  With covariance="diagonal" or "spherical" default 2, at least 0.05.
    scale : array_like, (d, d), or (d,) with covariance="diagonal", or Gamma, or d of them; a number with "spherical"; optional
        Positive definite scale matrix, or the diagonal of one, squared units of the responses.  The prior mean of the precision is
        nu scale^-1.  With a law, or one for each response, the scale is diagonal, the same in all components, and sampled:
        s_j ~ Gamma(shape, rate).  So it is by default, by laws of shape 1/2 and mean 0.1 nu V_j, V_j the sample variances, of five
        responses or more 0.2 nu V_j; with known_mean 0.2 nu times the mean squares about it.  Draws of it are ``fit.draws["scale"]``, as
        multiples of the prior mean.  Of tied covariance it is a matrix, not sampled, by default 0.02 nu diag(sample variances).  Of
        spherical covariance it is a number, not sampled: by default 0.02 nu times the mean of the sample variances, with known_mean
        0.2 nu times that of the mean squares.

    Raises
    ------
    ValueError
        If a hyperparameter is out of range, does not apply or has the wrong shape, here or when the family meets the data.

    Notes
    -----
    No fixed scale suits all tables.  With a small share of the variances one lump of few rows, or of many independent columns, falls into
    many components; with a large one separate groups are joined, and columns that are nearly dependent need scales far smaller.  So the
    scale is sampled, as Richardson & Green (1997) do in one dimension and Huang & Wand (2013) for one covariance matrix: given the
    precisions of K components s_j ~ Gamma(shape + K nu/2, rate + sum_k Lambda_k,jj/2).  Searches draw it between two passes, variational
    inference holds it at the values that are best for all components together.  Benchmark: benchmarks/number_of_clusters.py.

    With r = 0.01 component means spread over ten standard deviations of a component: components can be anywhere in the data.  nu = d + 1
    is the weakest whole number of degrees of freedom with which the predictive has a mean.  Among 88 candidates, with fixed scales and
    sampled ones, these defaults had the smallest mean regret of held-out log density over six problems from galaxy, acidity, faithful,
    iris and mcycle, 0.020 nats an observation, 0.037 at worst; the best with a fixed scale 0.033, and 0.127 at worst
    (`python -m benchmarks.default_scale full`; of many responses `many`).  With a diagonal covariance the same numbers are kept, so that
    one response has one default.  A known covariance leaves r, with which the component means vary as much as the observations: the least
    of seven candidates, 0.009 nats over nine problems.  In one dimension all hyperparameters may be scalars.

    Means and variances of samples are those of all values, unless some lie far from all others: beyond a quartile by more than ten
    quartile ranges, and by more than ten times as much as any value before them, and no more than 5% of the values (of codes for
    missing ones, such as -999, 50%).  Then they are those of the others, and a warning names the rows.  So it is for rows that are loaded
    part by part too, their quartiles exact up to 200,000 distinct values.

    A tied covariance is drawn once a sweep given the partition, the means integrated out: with Psi_n the scale and all squares about the
    posterior means, Sigma ~ inverse Wishart(nu + n, Psi_n).  It is ``fit.draws["covariance"]``, in squared units of the responses, the
    lower triangle row by row: y1 y1, y2 y1, y2 y2, y3 y1, ....  All rows speak for it, so that its prior matters little, and one lump is
    one cluster whatever the number of responses.  But partition and covariance hold each other: chains start from cuts of a Ward tree
    of all rows, of the largest posterior density and into twice as many clusters, and `"auto"` takes trees.  Chains, searches and density
    regression have it; missing cells, censored responses, variational inference and `"tree_published"` do not.

    Missing cells (`missing="marginalize"`) are integrated out where responses are independent within a component or the covariance is
    known.  Under a Wishart prior no closed form is known: a row's own missing cells are integrated out when its cluster is drawn, then
    they are drawn given its other cells and the cluster, an exact Gibbs step for cluster and cells together.

    References
    ----------
    Murphy (2007), Conjugate Bayesian analysis of the Gaussian distribution, sections 3, 4, 8 and 9.

    Richardson & Green (1997), On Bayesian analysis of mixtures with an unknown number of components, JRSS B 59.

    Huang & Wand (2013), Simple marginally noninformative prior distributions for covariance matrices, Bayesian Analysis 8.

    Examples
    --------
    >>> family = Gaussian(m=20, r=0.01, nu=4, scale=2).resolve(np.array([[19.0], [22.0]]))
    >>> family.scale
    array([[2.]])
    >>> Gaussian("diagonal", known_mean=0).resolve(np.array([[1.0, 30.0], [-1.0, 40.0]])).describe()[1]
    'mu = [0., 0.], nu = 2'
    """

    in_shell: ClassVar[dict[str, dict[str, Any]]] = {"gaussian": {}} | {name: {"covariance": name} for name in COVARIANCES[1:]}
    covariance: str = "full"
    known_mean: Any = None
    known_covariance: Any = None
    m: Any = None
    r: float | None = None
    nu: float | None = None
    scale: Any = None
    takes_missing: ClassVar[bool] = True
    takes_censored: ClassVar[bool] = True

    def __init__(self, covariance: str = "full", *, known_mean: Any = None, known_covariance: Any = None, m: Any = None,
                 r: float | None = None, nu: float | None = None, scale: Any = None) -> None:
        covariance = WORDS.get(covariance, covariance) if isinstance(covariance, str) else covariance
        if not (isinstance(covariance, str) and covariance in COVARIANCES):
            raise ValueError(f'Gaussian: covariance must be "full", "tied", "diagonal" or "spherical", not {covariance!r}.')
        if covariance == "tied" and not (known_mean is None and known_covariance is None):
            known = "known_covariance is that of all components as it is" if known_mean is None else "components of one mean would be one"
            raise ValueError(f"Gaussian: {known}; leave {'known_mean' if known_mean is not None else 'covariance'} out.")
        if isinstance(scale, str):
            raise ValueError(f"Gaussian: scale must hold real numbers, not {scale!r}; or be nm.Gamma(shape, rate).")
        if covariance == "spherical" and is_law(scale):
            raise ValueError('Gaussian: the scale of spherical covariance is not sampled; give a number, or take "diagonal".')
        if covariance == "tied" and is_law(scale):
            raise ValueError("Gaussian: a tied covariance is itself sampled, and needs no scale that is; give scale as a matrix.")
        if covariance == "spherical" and known_covariance is not None:
            raise ValueError('Gaussian: known_covariance is of "full" or "diagonal" covariance; give equal variances with "diagonal".')
        if known_mean is not None and known_covariance is not None:
            raise ValueError("Gaussian: with known_mean and known_covariance nothing is left to learn; give one of them.")
        for known, value, without, left in (
            ("known_mean", known_mean, {"m": m, "r": r}, "nu and scale"),
            ("known_covariance", known_covariance, {"nu": nu, "scale": scale}, "m and r"),
        ):
            for name, other in without.items():
                if value is not None and other is not None:
                    raise ValueError(f"Gaussian: {name} does not apply with {known}; {left} do.")
        values = {"m": m, "r": none_or_positive("Gaussian", "r", r), "nu": none_or_positive("Gaussian", "nu", nu), "scale": scale}
        values |= {"covariance": covariance, "known_mean": known_mean, "known_covariance": known_covariance}
        for name, value in values.items():
            object.__setattr__(self, name, value)

    @property
    def is_diagonal(self) -> bool:
        return self.covariance == "diagonal"

    def resolve(self, y: Any, names: tuple[str, ...] | None = None, inputs: np.ndarray | None = None, levels: Levels = None) -> Gaussian:
        return self.resolve_from(Summary(y), names or tuple(f"y{j + 1}" for j in range(y.shape[1])))

    def resolve_from(self, summary: Summary, names: tuple[str, ...], levels: Levels = None) -> Gaussian:
        d, usual = summary.d, summary.usual()
        if self.known_covariance is not None:
            return self._with_known_covariance(summary, usual, names)
        nu = self._degrees(d)
        if self.covariance == "tied" and summary.has_missing:
            raise ValueError(
                f'Gaussian("tied") has no way with missing responses ({", ".join(names)}); leave such rows out, missing="drop", or take '
                'covariance="full".'
            )
        if self.known_mean is not None:
            known = reals(self.known_mean, "Gaussian: known_mean")
            centre = self._shaped("known_mean", np.full(d, known) if known.ndim == 0 else known, (d,))
            own: dict[str, Any] = {"known_mean": centre}
            r = KNOWN
        else:
            centre = usual.means() if self.m is None else self._shaped("m", self.m, (d,))
            usual_r = R_OF_MANY if d >= MANY and self.covariance == "full" and self.scale is None else R
            r = float(usual_r if self.r is None else self.r)
            own = {"m": centre, "r": r}
        form: ConjugatePrior
        scale: Any
        laws: tuple[Gamma, ...]
        if self.covariance == "spherical":
            scale = self._default_scale(usual, names, nu) if self.scale is None else none_or_positive("Gaussian", "scale", self.scale)
            form = Spherical(centre, np.full(d, math.sqrt(scale)), names, summary.has_missing, r, nu)
            return self.with_values(nu=nu, scale=scale, names=names, form=form, **own)
        scale, laws = self._default_scale(usual, names, nu) if self.scale is None else self.scale, ()
        if is_law(scale):
            scale = laws = self._laws(scale, d)
            mean = np.array([law.mean for law in laws])
        else:
            scale = mean = self._checked_matrix("scale", scale, d)
        if self.covariance == "tied":
            form = Tied(centre, np.ones(d), names, False, r, nu, mean)
        elif self.is_diagonal:
            spread = np.sqrt(mean)
            form = NormalGamma(centre, spread, names, summary.has_missing, r, nu, summary.max_distance(centre, spread), laws)
        else:
            mean = np.diag(mean) if laws else mean
            form = NormalWishart(centre, np.sqrt(np.diag(mean)), names, summary.has_missing, r, nu, mean, laws)
        return self.with_values(nu=nu, scale=scale, names=names, form=form, **own)

    def with_censored(self) -> Gaussian:
        """Refuse a known covariance that is full, whose kernel coordinates are not those of the responses one by one, and a tied one."""
        if self.covariance == "tied":
            raise ValueError(
                f'Gaussian("tied") has no way with censored responses ({", ".join(self.names)}); take covariance="full" or "diagonal".'
            )
        if isinstance(self.form, KnownCovariance) and self.form.dim > 1 and not self.is_diagonal:
            raise ValueError(
                f"Gaussian(known_covariance=) of several responses has no way with censored ones ({', '.join(self.form.names)}); leave "
                'known_covariance out, or take covariance="diagonal".'
            )
        if isinstance(self.form, NormalGamma):  # values that are drawn may be further out than all that were seen
            return self.with_values(form=replace(self.form, bound=UNBOUNDED))
        return self

    def _with_known_covariance(self, summary: Summary, usual: Summary, names: tuple[str, ...]) -> Gaussian:
        d = summary.d
        covariance = self._checked_matrix("known_covariance", self.known_covariance, d)
        m = usual.means() if self.m is None else self._shaped("m", self.m, (d,))
        variances = covariance if self.is_diagonal else np.diag(covariance)
        if self.r is None:
            with np.errstate(over="ignore", invalid="ignore"):
                ratio = float(np.mean(self._sample_variances(usual, names, "r") / variances))
            if not 0 < ratio < math.inf:
                raise ValueError(f"Gaussian: the responses vary {ratio:g} times as much as known_covariance says; give r=, or correct it.")
            r = KNOWN_COVARIANCE_R / ratio
        else:
            r = self.r
        full = d > 1 and not self.is_diagonal
        kind = KnownCovarianceWithGaps if full and summary.has_missing else KnownCovariance
        form = kind(m, np.sqrt(variances), names, summary.has_missing, r, covariance if full else variances)
        return self.with_values(known_covariance=covariance, m=m, r=r, names=names, form=form)

    def _degrees(self, d: int) -> float:
        least = d - 1 if self.covariance in ("full", "tied") else 0
        nu = float(least + 1 + EXTRA_NU if self.nu is None else self.nu)
        if nu <= least:
            raise ValueError(f"Gaussian: nu must be greater than d - 1 = {least} for {d} responses, not {nu:g}.")
        if nu < least + MIN_NU:
            near = "0" if self.covariance in ("diagonal", "spherical") else f"d - 1 = {least}"
            raise ValueError(f"Gaussian: nu = {nu:g} is so near {near} that draws overflow; take {least + MIN_NU:g} or more.")
        if nu > MAX_NU:
            raise ValueError(
                f"Gaussian: nu = {nu:g} is lost in rounding; take {MAX_NU:g} or less, or known_covariance= where components have one."
            )
        return nu

    @staticmethod
    def _laws(scale: Any, d: int) -> tuple[Gamma, ...]:
        """One law for each response."""
        laws = (scale,) * d if isinstance(scale, Gamma) else tuple(scale)
        if len(laws) != d or not all(isinstance(law, Gamma) for law in laws):
            raise ValueError(f"Gaussian: a scale that is sampled must be one nm.Gamma(shape, rate), or {d} of them, not {scale!r}.")
        return laws

    def _default_scale(self, summary: Summary, names: tuple[str, ...], nu: float) -> Any:
        """Laws about nu times variances, or mean squares about the known mean; of tied and spherical covariance multiples of these."""
        if self.known_mean is None:
            variance, what = self._sample_variances(summary, names, "scale"), "variance"
        else:
            with np.errstate(over="ignore"):
                variance = summary.squares(reals(self.known_mean, "Gaussian: known_mean")) / summary.counts()
            what = "mean square about known_mean"
        check_variances("Gaussian", names, variance, what)
        if self.covariance == "tied":
            return np.diag(SPREAD * nu * variance)
        if self.covariance == "spherical":
            return float((SPREAD if self.known_mean is None else SPREAD_ABOUT_KNOWN) * nu * variance.mean())
        mean = SPREAD_ABOUT_KNOWN if self.known_mean is not None else MEAN_OF_MANY if summary.d >= MANY else MEAN_OF_FEW
        return tuple(Gamma(SHAPE, SHAPE / (mean * nu * one)) for one in variance)

    @staticmethod
    def _sample_variances(summary: Summary, names: tuple[str, ...], wanted: str) -> np.ndarray:
        for name, count in zip(names, summary.counts(), strict=True):
            if count < 2:
                where = f" of the response {name!r}" if summary.n > 1 else ""
                raise ValueError(f"Gaussian: the default {wanted} needs at least 2 observations{where}; give {wanted}=, or more data.")
        with np.errstate(over="ignore", invalid="ignore"):
            return summary.variances()

    def _checked_matrix(self, name: str, value: Any, d: int) -> np.ndarray:
        """A positive definite matrix, or the diagonal of one."""
        if not self.is_diagonal:
            matrix, _ = positive_definite("Gaussian", name, value, d, "these responses")
            return (matrix + matrix.T) / 2
        array = self._shaped(name, value, (d,))
        if not (array > 0).all():
            raise ValueError(f"Gaussian: {name} must be greater than 0, not {array.tolist()}.")
        return array

    @staticmethod
    def _shaped(name: str, value: Any, shape: tuple[int, ...]) -> np.ndarray:
        return shaped("Gaussian", name, value, shape, "these responses")

    # ---- what the form does; it needs resolved hyperparameters

    @property
    def dim(self) -> int:
        return self.resolved.dim

    def coordinates(self, x: Any) -> np.ndarray:
        """Kernel coordinates of points (..., d)."""
        return self.resolved.coordinates(x)

    def cells(self, values: np.ndarray, which: np.ndarray) -> np.ndarray:
        return values * self.resolved.spread[which] + self.resolved.centre[which]

    @property
    def independent(self) -> bool:  # type: ignore[override]
        return self.is_diagonal

    def describe(self) -> list[str]:
        if self.form is not None:
            return self.form.describe()
        known = " of known mean" if self.known_mean is not None else " of known covariance" if self.known_covariance is not None else ""
        return [f"Gaussian, {self.covariance} covariance{known}"]


def lee_choi_base(X: Any) -> Gaussian:
    """The base measure of Lee & Choi (2015, section 4): r = 0.1, nu = d + 6, m the sample mean, scale = S / (10 det S)^(1/d).

    S is the sample covariance.  The scale has determinant 1/10 whatever the units of X: it is not scale-equivariant, and the
    default of `Gaussian` is another.

    Parameters
    ----------
    X : array_like, (n, d)
        The data.

    Returns
    -------
    Gaussian

    Raises
    ------
    ValueError
        If X is not a finite matrix with at least d + 1 rows and a positive definite covariance.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> round(float(np.linalg.det(lee_choi_base(rng.normal(size=(20, 2))).scale)), 6)
    0.1
    """
    X = np.array(X, dtype=float)
    X = X[:, None] if X.ndim == 1 else X
    if X.ndim != 2 or not np.isfinite(X).all() or len(X) <= X.shape[1]:
        raise ValueError("lee_choi_base needs a finite matrix X with more rows than columns.")
    d = X.shape[1]
    S = np.cov(X.T).reshape(d, d)
    sign, log_det = np.linalg.slogdet(S)
    if sign <= 0 or not np.isfinite(log_det):
        raise ValueError("lee_choi_base needs columns that are not linearly dependent.")
    return Gaussian("full", m=X.mean(axis=0), r=0.1, nu=d + 6.0, scale=S / math.exp((log_det + math.log(10.0)) / d))
