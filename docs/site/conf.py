"""Configuration of Sphinx: the pages that `build.py` has assembled, as HTML that asks nothing of the network."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from latex2mathml.converter import convert

import nrmmix

sys.path.insert(0, str(Path(__file__).parent))
from lines import wrapped

project = "nrmmix"
author = "The nrmmix developers"
copyright = author
version = release = nrmmix.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.viewcode"]
myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_heading_anchors = 3
default_role = "literal"
smartquotes = False
suppress_warnings = [
    "misc.highlighting_failure",  # output of programs is shown as it is
    "ref.python",  # words of docstrings that several classes have as attributes
]
exclude_patterns: list[str] = []

autodoc_member_order = "bysource"
autodoc_typehints = "none"  # docstrings say what arguments are
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_custom_sections = [("Attributes", "params_style")]  # a line may name several
napoleon_use_rtype = False
napoleon_use_param = False

html_theme = "furo"
html_title = f"nrmmix {release}"
html_static_path = ["static"]
html_css_files = ["nrmmix.css"]
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"


def _inline(self: Any, node: nodes.math) -> None:
    self.body.append(convert(node.astext()))
    raise nodes.SkipNode


def _displayed(self: Any, node: nodes.math_block) -> None:
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise nodes.SkipNode


def _wrap(_app: Any, _name: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    if "body" in context:
        context["body"] = wrapped(context["body"])


def setup(app: Any) -> dict[str, bool]:
    """Formulas become MathML when the pages are made, which browsers draw without scripts or fonts; sentences in output wrap."""
    app.connect("html-page-context", _wrap)
    app.add_html_math_renderer("mathml", (_inline, None), (_displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
