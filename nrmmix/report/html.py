"""A report on a fit as one HTML file that needs nothing else: no scripts, no fonts, no pictures from elsewhere."""

from __future__ import annotations

import base64
import io
import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from html import escape
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from nrmmix import __version__, plots
from nrmmix.common import files
from nrmmix.common.messages import listed
from nrmmix.common.registry import arguments_of, code, default_of, is_own, plugin_of
from nrmmix.inference.methods import code_of
from nrmmix.model.families import Family
from nrmmix.model.priors.covariate_kernels import CovariateKernel
from nrmmix.model.priors.measures import Prior
from nrmmix.plots.kinds import KINDS
from nrmmix.plots.methods import trees, variational
from nrmmix.report.findings import DRAWS, findings
from nrmmix.report.summary import Checked, search_summary, search_verdict, summary, variational_summary, variational_verdict
from nrmmix.results.base import Result
from nrmmix.results.mcmc import MCMCResult
from nrmmix.results.search import SearchResult
from nrmmix.results.shown import PlotKind, PlotOptions
from nrmmix.results.variational import VariationalResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 110
MAX_NAMED = 6  # responses that a title names
WIDE = 1.6  # times the height, from which on a picture is much wider where it is enlarged on a narrow screen
HEADINGS = {  # of kinds whose names are no words of their own
    "mean": "conditional mean", "conditional": "conditional density", "slices": "conditional densities at a few values",
    "importance": "importance of covariates", "survival": "survival beside the Kaplan-Meier curve",
    "ppc": "posterior predictive check",
    "elbo": "evidence lower bound", "n_clusters": "number of clusters",
    "prior_posterior": "hyperparameters, prior and posterior", "similarity": "posterior similarity", "trace": "traces of the chains",
}
LONGEST = 20  # numbers of a hyperparameter that are written one by one where they are all the same
LIBRARIES = ("numpy", "scipy", "numba", "pandas")
GOOD, DOUBTFUL, PLAIN = "good", "doubtful", "plain"  # what a verdict says

STYLE = """\
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 62rem; margin: 0 auto; padding: 1rem 1.5rem; }
h1 { font-size: 1.6rem; margin-bottom: 0.3rem; overflow-wrap: anywhere; }
h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid #ccc; }
h3 { font-size: 1.05rem; margin-bottom: 0.3rem; }
a { color: #00558c; }
nav li { margin-bottom: 0.2rem; }
pre { background: #f5f5f5; padding: 0.8rem 1rem; white-space: pre-wrap; overflow-wrap: anywhere; font-size: 0.85rem; }
dd { margin: 0 0 0.4rem 1.5rem; overflow-wrap: anywhere; }
.verdict { border-left: 0.4rem solid; padding: 0.5rem 1rem; }
.good { border-color: #009e73; background: #e8f6f1; }
.doubtful { border-color: #d55e00; background: #fcefe6; }
.plain { border-color: #00558c; background: #eaf2f8; }
.nrmmix { overflow-x: auto; }
figure { margin: 0 0 1.5rem; overflow-x: auto; }
figcaption { color: #444; font-size: 0.9rem; max-width: 46rem; }
img { max-width: 100%; height: auto; }
.enlarge input { position: absolute; opacity: 0; }
.narrow { display: none; }
@media (max-width: 40em) {
  body { padding: 0.5rem 0.9rem; }
  h1 { font-size: 1.3rem; }
  pre { font-size: 0.72rem; padding: 0.6rem; }
  .narrow { display: block; }
  img { width: 100%; }
  .enlarge { cursor: zoom-in; }
  .enlarge input:focus-visible + img { outline: 2px solid #00558c; }
  .enlarge input:checked + img { max-width: none; width: 40rem; }
  .enlarge input:checked + img.wide { width: 62rem; }
}
@media print {
  @page { margin: 1.5cm; }
  body { font-size: 10pt; max-width: none; padding: 0; }
  nav, .narrow { display: none; }
  h2, h3 { break-after: avoid; }
  h3 + figure, tr { break-inside: avoid; }
  .nrmmix { font-size: 0.7rem; overflow: visible; }
  .verdict, .good, .doubtful, .plain, pre { background: none; }
  img, img.wide { max-width: 100%; max-height: 9.5cm; width: auto; }
}"""


def write(fit: Result, path: Any) -> Path:
    """Write a report as one HTML file; see `nrmmix.results.shown.Shown.report`."""
    where = files.target(path, ".html", "a report")
    page = _page(fit).encode()
    with files.replaced(where) as file:
        file.write(page)
    return where


class _Parts(NamedTuple):
    """Parts of the page of a fit; each kind of result has parts of its own."""

    verdict: str
    state: str  # GOOD, DOUBTFUL or PLAIN
    summary: str  # as HTML, without the verdict
    kinds: tuple[str, ...]  # of pictures
    drawing: Callable[[str], Callable[..., Any]]  # the function that draws a kind, whose description is its caption


def _parts(fit: Result) -> _Parts:
    if isinstance(fit, SearchResult):
        return _Parts(search_verdict(fit), PLAIN, search_summary(fit, says=False).as_html(), trees.available(fit), trees.drawing)
    if isinstance(fit, VariationalResult):
        state = GOOD if fit.has_converged and not fit.interrupted else DOUBTFUL
        shown = variational_summary(fit, says=False).as_html()
        return _Parts(variational_verdict(fit), state, shown, variational.available(fit), variational.drawing)
    assert isinstance(fit, MCMCResult)
    fit._insist_on_draws()
    if not fit.lacking:
        fit.partition()  # pictures need it, and the summary shows what is there, whatever it took
    checked = Checked.of(fit)
    state = GOOD if checked.agree else DOUBTFUL
    shown = summary(fit, checked, says=False).as_html()
    return _Parts(checked.verdict, state, shown, plots.available(fit.model), lambda kind: KINDS[kind].draw)


def _page(fit: Result) -> str:
    model, parts = fit.model, _parts(fit)
    names = model.frame.response_names
    what = model.formula or (listed(names) if len(names) <= MAX_NAMED else f"{listed(names[:2])} and {len(names) - 2} responses more")
    title = escape(f"{model.title}: {what}")
    pictures = "\n".join(_picture(fit, kind, parts.drawing(kind)) for kind in parts.kinds)
    note = f"<p>Predictions are averaged over {DRAWS} draws at most, evenly spaced; bands have a probability of 90%.</p>\n"
    if not any(_takes_draws(parts.drawing(kind)) for kind in parts.kinds):
        note = ""
    found = "<ul>\n" + "\n".join(f"<li>{escape(sentence)}</li>" for sentence in findings(fit, parts.state != DOUBTFUL)) + "\n</ul>"
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
<p class="verdict {parts.state}"><strong>{escape(parts.verdict)}</strong></p>
</header>
<section>
<h2>What was found</h2>
{found}
</section>
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
{parts.summary}
</section>
<section id="pictures">
<h2>Pictures</h2>
<p class="narrow">A picture that is tapped is enlarged.</p>
{note}{pictures}
</section>
<section id="run">
<h2>How it was run</h2>
{_run(fit)}
</section>
</main>
</body>
</html>
"""


# ------------------------------------------------------------------------------------------------- pictures


def _picture(fit: Result, kind: str, drawing: Callable[..., Any]) -> str:
    """A figure with the first sentences of the plot function's description; the reason where there is none for these data."""
    name = _heading(kind)
    heading = f'<h3 id="{kind}">{name[0].upper()}{name[1:]}</h3>'
    try:
        with _figure(fit, kind, drawing) as figure:
            data = _as_png(figure)
            width, height = (round(float(size)) for size in figure.get_size_inches() * DPI)
    except ValueError as error:
        return f"{heading}\n<p>Not drawn: {escape(str(error))}</p>"
    text = drawing.__doc__ or name
    caption = escape(" ".join(text.split("\n\n")[0].replace("`", "").split()))
    coded = base64.b64encode(data).decode()
    kind_of = ' class="wide"' if width > WIDE * height else ""
    image = f'<img{kind_of} alt="{caption}" width="{width}" height="{height}" src="data:image/png;base64,{coded}">'
    label = f'<label class="enlarge"><input type="checkbox" aria-label="enlarge">{image}</label>'
    return f"{heading}\n<figure>\n{label}\n<figcaption>{caption}</figcaption>\n</figure>"


def _as_png(figure: Figure) -> bytes:
    """As `Figure.savefig`, which draws a figure twice, the first time to lay it out: drawing does that too."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    data = io.BytesIO()
    figure.set_dpi(DPI)
    FigureCanvasAgg(figure).print_png(data)
    return data.getvalue()


def _heading(kind: str) -> str:
    return HEADINGS.get(kind, kind.replace("_", " "))


def _takes_draws(drawing: Callable[..., Any]) -> bool:
    """Whether a picture is of predictions, whose options are those of `Bands`."""
    return any(one.kind is one.VAR_KEYWORD for one in signature(drawing).parameters.values())


@contextmanager
def _figure(fit: Result, kind: str, drawing: Callable[..., Any]) -> Iterator[Figure]:
    """A plot's figure, closed afterwards; the figures of the user, and the one that is current, stay as they are."""
    from matplotlib import pyplot

    before = set(pyplot.get_fignums())
    options: PlotOptions = {"draws": DRAWS} if _takes_draws(drawing) else {}
    try:
        with pyplot.ioff():
            axes = fit.plot(cast(PlotKind, kind), **options)
            yield np.ravel(np.array(axes, dtype=object))[0].figure
    finally:
        for number in set(pyplot.get_fignums()) - before:
            pyplot.close(number)


# ------------------------------------------------------------------------------------------- how it was run


def _run(fit: Result) -> str:
    versions = {"nrmmix": __version__, "Python": platform.python_version(), **{name: version(name) for name in LIBRARIES}}
    rows = {
        "Seed": str(fit.seed), "Versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        "Platform": platform.platform(), "Written": f"{datetime.now().astimezone():%Y-%m-%d %H:%M %Z}",
    }
    listed = "\n".join(f"<dt><strong>{name}</strong></dt><dd>{escape(text)}</dd>" for name, text in rows.items())
    return (
        f"<dl>\n{listed}\n</dl>\n<p>On the same data, the same machine and with the same versions this draws the same again (if a start "
        "was given as <code>init</code>, or weights of rows to chains or searches, give them too):</p>\n"
        f"<pre>{escape(reproduce(fit))}</pre>"
    )


def reproduce(fit: Result) -> str:
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
    if model.frame.is_weighted:
        arguments.append(f"weights={'weights' if model.frame.weighed_by is None else repr(model.frame.weighed_by)}")
    lines = "\n".join(f"    {argument}," for argument in arguments)
    if isinstance(fit, (SearchResult, VariationalResult)):
        method = fit.search if isinstance(fit, SearchResult) else fit.options
        return f"import nrmmix as nm\n\nmodel = nm.Model(\n{lines}\n)\nfit = model.fit({code(method)}, rng={fit.seed})"
    assert isinstance(fit, MCMCResult)
    run = f"draws={fit.draws.n_draws}, tune={fit.tune}, thin={fit.thin}, chains={fit.draws.n_chains}, rng={fit.seed}"
    run += ", init=init" if fit.run.init_given else ""  # a name, labels, or fits: the run does not keep which
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
