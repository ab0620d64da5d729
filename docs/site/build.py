"""Documentation as a site: `python docs/site/build.py` writes site/html from the pages of docs/ and the docstrings.

The pages are assembled in site/source first: those of docs/ as they are, with links that lead out of it made plain, those of docs/papers
where there are any, and generated ones: the reference of every public name, a gallery of all pictures, a list of the benchmarks.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import shutil
import subprocess
import sys
from pathlib import Path

import nrmmix

HERE = Path(__file__).resolve().parent
DOCS, ROOT = HERE.parent, HERE.parent.parent
GUIDE = (
    "getting_started", "analyses", "formulas", "priors", "density_regression", "families", "survival", "samplers", "trees", "variational",
    "beyond_memory", "kernels", "checking", "sensitivity", "results", "plots", "reporting", "command_line", "reliability",
    "troubleshooting", "glossary",
)
CHECKS = ("exactness", "exactness_regression", "calibration", "nightly")
ROOMS = {  # headings of the reference, by the beginning of a name's module
    "Models and fits": ("api", "common.registry"),
    "Results": ("results.", "report.", "posterior."),
    "Random measures": ("model.priors.measures", "model.priors.gibbs_type", "model.prior_predictive"),
    "Priors of numbers": ("model.priors.hyperpriors",),
    "Component families": ("model.families",),
    "Covariate kernels": ("model.priors.covariate_kernels", "model.priors.sparse_product", "model.priors.widths"),
    "Moves of Markov chains": ("inference.mcmc.",),
    "Searches": ("inference.search.",),
    "Variational inference": ("inference.variational.",),
}
METHODS = ("Moves of Markov chains", "Searches", "Variational inference")  # whose pages link to the call that runs them
MODULES = {
    "datasets": "Data sets", "diagnostics": "Diagnostics of chains", "plots": "Pictures", "sklearn": "Estimators for scikit-learn",
    "extending": "Names for extensions",
}
ESTIMATORS = ("NRMMixture", "NRMRegressor")
OF_SKLEARN = "set_fit_request, set_score_request, set_predict_request, set_params, get_params, get_metadata_routing"  # documented there
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\(([^)\s]+)\)")
PICTURE = re.compile(r"!\[([^\]]*)\]\(([^)\s]+)\)")
ROOT_PAGES = ("CONTRIBUTING.md", "CHANGELOG.md")


def assemble(source: Path) -> None:
    """Write the sources of the site to a folder, which is emptied first."""
    shutil.rmtree(source, ignore_errors=True)
    shutil.copytree(DOCS, source, ignore=lambda folder, names: [name for name in names if name in ("site", "__pycache__")])
    for page in (HERE / "pages").glob("*.md"):
        (source / page.name).write_text(moved(page.read_text(encoding="utf-8")), encoding="utf-8")
    for name in ROOT_PAGES:
        (source / name.lower()).write_text((ROOT / name).read_text(encoding="utf-8").replace("](docs/", "]("), encoding="utf-8")
    shutil.copytree(HERE / "static", source / "static")
    reference(source / "api")
    (source / "gallery.md").write_text(gallery(source), encoding="utf-8")
    (source / "benchmarks.md").write_text(benchmarks(), encoding="utf-8")
    papers = sorted(page.stem for page in (source / "papers").glob("*.md"))
    index = (source / "index.md").read_text(encoding="utf-8")
    (source / "index.md").write_text(index + contents(papers), encoding="utf-8")
    for page in source.rglob("*.md"):
        page.write_text(without_links_outside(page.read_text(encoding="utf-8"), page, source), encoding="utf-8")


def moved(text: str) -> str:
    """A page of docs/site/pages as it stands in the sources: links to other pages lead to their new places."""
    return text.replace("](../../../CONTRIBUTING.md)", "](contributing.md)").replace("](../../", "](")


def contents(papers: list[str]) -> str:
    """The tables of contents of the front page, which the sidebar shows."""
    parts = {
        "Guide": list(GUIDE), "Background": ["mathematics", "coming_from", "what_works"], "Evidence": [*CHECKS, "benchmarks"],
        "Papers": [f"papers/{name}" for name in papers], "Reference": ["gallery", "api/index", "contributing", "changelog"],
    }
    return "".join(
        f"\n```{{toctree}}\n:caption: {caption}\n:hidden:\n:maxdepth: 1\n\n" + "\n".join(pages) + "\n```\n"
        for caption, pages in parts.items() if pages
    )


def without_links_outside(text: str, page: Path, source: Path) -> str:
    """Links to files that the site does not have become their text: they are of the repository."""

    def plain(found: re.Match[str]) -> str:
        words, target = found[1], found[2]
        if "://" in target or target.startswith("#"):
            return found[0]
        where = page.parent / target.split("#")[0]
        if where.is_relative_to(source) and where.resolve().is_relative_to(source.resolve()) and where.exists() and where.is_file():
            return found[0]
        return words if words.startswith("`") else f"`{words}`" if "/" in words or "." in words else words

    parts = re.split(r"(^```.*?^```[ \t]*$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else LINK.sub(plain, part) for part in parts)


# ---- generated pages


def reference(folder: Path) -> None:
    """A page for each public name, and one for each public module, by subject."""
    folder.mkdir()
    grouped: dict[str, list[str]] = {heading: [] for heading in ROOMS}
    for name, home in nrmmix._HOMES.items():
        (heading,) = [heading for heading, starts in ROOMS.items() if home.startswith(starts)]
        grouped[heading].append(name)
        page = _page_of(name) + (_run_by(name) if heading in METHODS else "")
        (folder / f"{name}.rst").write_text(page, encoding="utf-8")
    about = "Every public name, from its docstring, with its source. `import nrmmix as nm` gives all but the last two modules."
    lines = ["# Reference", "", about, ""]
    for heading, names in grouped.items():
        lines += [f"## {heading}", "", "```{toctree}", ":maxdepth: 1", "", *names, "```", ""]
    lines += ["## Modules", "", "```{toctree}", ":maxdepth: 1", "", *MODULES, "```", ""]
    for name, heading in MODULES.items():
        (folder / f"{name}.rst").write_text(_module_page(name, heading), encoding="utf-8")
    (folder / "index.md").write_text("\n".join(lines), encoding="utf-8")


def _page_of(name: str) -> str:
    thing, title = getattr(nrmmix, name), f"nm.{name}"
    directive, options = "autofunction", ""
    if isinstance(thing, type) and issubclass(thing, Warning):
        directive = "autoexception"
    elif isinstance(thing, type):
        directive, options = "autoclass", "   :members:\n   :inherited-members:\n"
    return f"{title}\n{'=' * len(title)}\n\n.. {directive}:: nrmmix.{name}\n{options}"


def _run_by(name: str) -> str:
    """What a page of a method says of the call that runs it."""
    accepts = getattr(getattr(nrmmix, name), "accepts", nrmmix.Cycle.accepts)
    arguments = [one for one in inspect.signature(nrmmix.fit).parameters if one in accepts]
    given = f"``method=nm.{name}(...)``"
    return f"\nRun by :func:`nrmmix.fit` with {given}, which takes {', '.join(f'``{one}``' for one in arguments)} with it.\n"


def _module_page(name: str, heading: str) -> str:
    module = importlib.import_module(f"nrmmix.{name}")
    own = ESTIMATORS if name == "sklearn" else sorted(one for one in module.__all__ if callable(getattr(module, one)))
    text = f"{heading}\n{'=' * len(heading)}\n\n.. automodule:: nrmmix.{name}\n\n"
    if name == "extending":  # names from everywhere, which its own docstring explains
        return text
    for one in own:
        thing = getattr(module, one)
        directive = "autoclass" if isinstance(thing, type) else "autofunction"
        members = f"   :members:\n   :exclude-members: {OF_SKLEARN}\n" if isinstance(thing, type) else ""
        text += f".. {directive}:: nrmmix.{name}.{one}\n{members}\n"
    return text


def gallery(source: Path) -> str:
    """All pictures of all pages, each with a link to where it is made."""
    lines = ["# Gallery", "", "Every picture of the pages; each leads to its page.", ""]
    for page in [*(source / f"{name}.md" for name in GUIDE), *sorted((source / "papers").glob("*.md"))]:
        text = page.read_text(encoding="utf-8")
        pictures = PICTURE.findall(text)
        if not pictures:
            continue
        title, where = re.search(r"^# (.+)$", text, re.MULTILINE)[1], page.relative_to(source)
        lines += [f"## [{title}]({where})", "", "::::{container} gallery"]
        for alt, target in pictures:
            picture = (page.parent / target).relative_to(source)
            lines += [f":::{{image}} {picture}", f":alt: {alt or title}", f":target: {where.with_suffix('.html')}", ":::"]
        lines += ["::::", ""]
    return "\n".join(lines)


def benchmarks() -> str:
    """What each benchmark measures, and the pages whose tables they gave."""
    where = (
        "Each runs as `python -m benchmarks.NAME`; `make bench` has this commit beside another. What they gave is on the pages: "
        "held-out scores of [density regression](density_regression.md), [mixing and burn-in](samplers.md), [trees](trees.md), "
        "[variational inference](variational.md) and [data beyond memory](beyond_memory.md)."
    )
    lines = ["# Benchmarks", "", where, "", "| benchmark | what it measures |", "|---|---|"]
    for script in sorted((ROOT / "benchmarks").glob("[a-z]*.py")):
        about = ast.get_docstring(ast.parse(script.read_text(encoding="utf-8"))) or ""
        first = " ".join(about.split("\n\n")[0].split())
        lines.append(f"| `{script.stem}` | {first} |")
    return "\n".join([*lines, ""])


def main(to: Path = ROOT / "site") -> int:
    """Assemble, then build; warnings are errors."""
    assemble(to / "source")
    shutil.rmtree(to / "html", ignore_errors=True)
    options = ["-W", "--keep-going", "-q", "-b", "html", "-c", str(HERE), "-d", str(to / "doctrees")]
    return subprocess.run([sys.executable, "-m", "sphinx", *options, str(to / "source"), str(to / "html")], check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main())
