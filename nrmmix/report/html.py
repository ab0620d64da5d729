"""A report on a fit as one HTML file that needs nothing else: no scripts, no fonts, no pictures from elsewhere."""

from __future__ import annotations

import base64
import io
import platform
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from html import escape
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from nrmmix import plots
from nrmmix.common import files
from nrmmix.common.messages import listed
from nrmmix.common.registry import arguments_of, code, default_of, is_own, plugin_of
from nrmmix.inference.methods import code_of
from nrmmix.model.families import Family
from nrmmix.model.priors.covariate_kernels import CovariateKernel
from nrmmix.model.priors.measures import Prior
from nrmmix.plots.kinds import KINDS
from nrmmix.plots.methods import variational
from nrmmix.posterior.convergence import converged, verdict
from nrmmix.report.frames import quantities
from nrmmix.report.summary import variational_verdict
from nrmmix.results.mcmc import MCMCResult
from nrmmix.results.variational import VariationalResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 110
FEW = 6  # responses that a title names
WIDE = 1.6  # times the height, from which on a picture is scrolled on a narrow screen instead of shrunk
HEADINGS = {"ppc": "posterior predictive check"}  # of kinds that are abbreviations
LONGEST = 20  # numbers of a hyperparameter that are written one by one where they are all the same
LIBRARIES = ("numpy", "scipy", "numba", "pandas")

STYLE = """\
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 62rem; margin: 0 auto; padding: 1rem 1.5rem; }
h1 { font-size: 1.6rem; margin-bottom: 0.3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
h3 { font-size: 1.05rem; margin-bottom: 0.3rem; }
a { color: #00558c; }
pre { background: #f5f5f5; padding: 0.8rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.85rem; }
.verdict { border-left: 0.4rem solid; padding: 0.5rem 1rem; }
.good { border-color: #009e73; background: #e8f6f1; }
.doubtful { border-color: #d55e00; background: #fcefe6; }
.nrmmix { overflow-x: auto; }
figure { margin: 0 0 1.5rem; }
figcaption { color: #444; font-size: 0.9rem; }
img { max-width: 100%; height: auto; }
@media (max-width: 40em) { figure { overflow-x: auto; } img.wide { max-width: none; width: 40rem; } }
@media print { nav { display: none; } figure { break-inside: avoid; } .nrmmix { font-size: 0.75rem; } }"""


def write(fit: MCMCResult | VariationalResult, path: Any) -> Path:
    """Write a report as one HTML file; see `MCMCResult.report`."""
    where = files.target(path, ".html", "a report")
    page = _page(fit).encode()
    with files.replaced(where) as file:
        file.write(page)
    return where


class _Parts(NamedTuple):
    """What the page of a fit says."""

    verdict: str
    is_good: bool
    kinds: tuple[str, ...]
    code: str


def _parts(fit: MCMCResult | VariationalResult) -> _Parts:
    if isinstance(fit, VariationalResult):
        return _Parts(variational_verdict(fit), fit.has_converged and not fit.interrupted, variational.available(fit), reproduce(fit))
    numbers = quantities(fit)
    said = verdict(fit.evidence, numbers, fit.curve_diagnostics())
    return _Parts(said, converged(numbers) and fit.evidence.clean, plots.available(fit.model), reproduce(fit))


def _page(fit: MCMCResult | VariationalResult) -> str:
    model, parts = fit.model, _parts(fit)
    names = model.frame.response_names
    what = model.formula or (listed(names) if len(names) <= FEW else f"{listed(names[:2])} and {len(names) - 2} responses more")
    title = escape(f"{model.title}: {what}")
    fit.partition()  # pictures need it, and the summary shows what is there, whatever it took
    pictures = "\n".join(_picture(fit, kind) for kind in parts.kinds)
    state = "good" if parts.is_good else "doubtful"
    links = ", ".join(f'<a href="#{kind}">{_heading(kind)}</a>' for kind in parts.kinds)
    return f"""\
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{STYLE}
</style>
</head>
<body>
<header>
<h1>{title}</h1>
<p class="verdict {state}"><strong>{escape(parts.verdict)}</strong></p>
</header>
<nav aria-label="Contents">
<ul>
<li><a href="#model">Model</a></li>
<li><a href="#summary">Summary</a></li>
<li><a href="#pictures">Pictures</a>: {links}</li>
<li><a href="#run">How it was run</a></li>
</ul>
</nav>
<main>
<section id="model">
<h2>Model</h2>
<pre>{escape(str(model))}</pre>
</section>
<section id="summary">
<h2>Summary</h2>
{fit.summary().as_html()}
</section>
<section id="pictures">
<h2>Pictures</h2>
{pictures}
</section>
<section id="run">
<h2>How it was run</h2>
{_run(fit, parts.code)}
</section>
</main>
</body>
</html>
"""


# ------------------------------------------------------------------------------------------------- pictures


def _picture(fit: MCMCResult | VariationalResult, kind: str) -> str:
    """A figure with the first sentences of the plot function's description; the reason where there is none for these data."""
    name = _heading(kind)
    heading = f'<h3 id="{kind}">{name[0].upper()}{name[1:]}</h3>'
    try:
        with _figure(fit, kind) as figure:
            data = io.BytesIO()
            figure.savefig(data, format="png", dpi=DPI)
            width, height = (round(float(size)) for size in figure.get_size_inches() * DPI)
    except ValueError as error:
        return f"{heading}\n<p>Not drawn: {escape(str(error))}</p>"
    text = variational.description(kind) if isinstance(fit, VariationalResult) else KINDS[kind].draw.__doc__ or name
    caption = escape(" ".join(text.split("\n\n")[0].split()))
    coded = base64.b64encode(data.getvalue()).decode()
    kind_of = ' class="wide"' if width > WIDE * height else ""
    image = f'<img{kind_of} alt="{caption}" width="{width}" height="{height}" src="data:image/png;base64,{coded}">'
    return f"{heading}\n<figure>\n{image}\n<figcaption>{caption}</figcaption>\n</figure>"


def _heading(kind: str) -> str:
    return HEADINGS.get(kind, kind.replace("_", " "))


@contextmanager
def _figure(fit: MCMCResult | VariationalResult, kind: str) -> Iterator[Figure]:
    """A plot's figure, closed afterwards; the figures of the user, and the one that is current, stay as they are."""
    from matplotlib import pyplot

    before = set(pyplot.get_fignums())
    try:
        with pyplot.ioff():
            axes = fit.plot(kind)
            yield np.ravel(np.array(axes, dtype=object))[0].figure
    finally:
        for number in set(pyplot.get_fignums()) - before:
            pyplot.close(number)


# ------------------------------------------------------------------------------------------- how it was run


def _run(fit: MCMCResult | VariationalResult, call: str) -> str:
    from nrmmix import __version__

    versions = {"nrmmix": __version__, "Python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}
    rows = {
        "Seed": str(fit.seed), "Versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "Platform": platform.platform(), "Written": f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}",
    }
    listed = "\n".join(f"<dt><strong>{name}</strong></dt><dd>{escape(text)}</dd>" for name, text in rows.items())
    return (
        f"<dl>\n{listed}\n</dl>\n<p>On the same data, the same machine and with the same versions this draws the same again (if starting "
        f"labels were given as <code>init</code>, give them too):</p>\n<pre>{escape(call)}</pre>"
    )


def reproduce(fit: MCMCResult | VariationalResult) -> str:
    """Python code that fits the same model to `data` and draws the same again; hyperparameters are the numbers that were used.

    Examples
    --------
    >>> import nrmmix as nm
    >>> family = nm.Gaussian(m=20000, r=0.01, nu=4, scale=1e6)
    >>> fit = nm.fit("velocity_km_s ~ 1", nm.datasets.load_galaxy(), family=family, draws=50, tune=50, chains=2, rng=1)
    >>> print(reproduce(fit))
    import nrmmix as nm
    <BLANKLINE>
    model = nm.Model(
        'velocity_km_s ~ 1',
        data,
        family=nm.Gaussian(covariance='full', m=[20000.0], r=0.01, nu=4.0, scale=[[1000000.0]]),
        prior=nm.DirichletProcess(mass=nm.Gamma(shape=1.0, rate=1.0)),
    )
    fit = model.fit('gibbs', draws=50, tune=50, thin=1, chains=2, rng=1)
    """
    model = fit.model
    arguments = [repr(model.formula), "data", f"family={_code(model.family)}", f"prior={_code(model.prior)}"]
    if model.kernel is not None:
        arguments.append(f"kernel={_code(model.kernel)}")
    if not model.frame.is_sparse and np.isnan(model.frame.response).any():
        arguments.append("missing='marginalize'")
    lines = "\n".join(f"    {argument}," for argument in arguments)
    if isinstance(fit, VariationalResult):
        return f"import nrmmix as nm\n\nmodel = nm.Model(\n{lines}\n)\nfit = model.fit({code(fit.options)}, rng={fit.seed})"
    run = f"draws={fit.draws.n_draws}, tune={fit.tune}, thin={fit.thin}, chains={fit.draws.n_chains}, rng={fit.seed}"
    return f"import nrmmix as nm\n\nmodel = nm.Model(\n{lines}\n)\nfit = model.fit({code_of(fit.method, fit.cycle)}, {run})"


def _code(value: Any) -> str:
    known = plugin_of(value)
    if known is not None:
        values = arguments_of(value)
        given = [name for name in values if values[name] is not None or default_of(known.made, name) is not None]
        return f"{_name(value)}({', '.join(f'{name}={_code(values[name])}' for name in given)})"
    if isinstance(value, (Family, Prior, CovariateKernel)):  # of the user's own; its arguments are known if it is registered
        return f"{_name(value)}(...)"
    if isinstance(value, tuple):
        return f"({', '.join(map(_code, value))},)"
    if isinstance(value, list):
        return f"[{', '.join(map(_code, value))}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{key!r}: {_code(own)}' for key, own in value.items())}}}"
    if isinstance(value, np.ndarray) and value.ndim == 1 and len(value) > LONGEST and (value == value[0]).all():
        return repr(value[0].item())  # of so many one for all does
    return repr(value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value)


def _name(value: Any) -> str:
    return f"{'nm.' if is_own(type(value)) else ''}{type(value).__name__}"
