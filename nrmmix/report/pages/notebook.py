"""A vignette that was run as a Jupyter notebook, format 4.5."""

from __future__ import annotations

import base64
import json
import platform
from typing import Any

from nrmmix.report.vignette import Page, Part, prose_code

FILLED = "from IPython.display import Markdown\n\nMarkdown({})"


def as_notebook(page: Page) -> str:
    """The cells of the page with their output, as the JSON of an .ipynb file.

    Prose becomes a cell of Python that fills it in, and shell commands become a cell of `%%bash`.

    Examples
    --------
    >>> from nrmmix.report.vignette import Cell
    >>> page = Page("sum", (Part(Cell("python", False, 2, "1 + 1"), "2"),), {}, {})
    >>> json.loads(as_notebook(page))["cells"][0]["source"]
    ['1 + 1']
    """
    cells = [_cell(number, part, page.pictures) for number, part in enumerate(page.parts, 1)]
    for number, cell in enumerate((one for one in cells if one["cell_type"] == "code"), 1):
        cell["execution_count"] = number
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python", "version": platform.python_version(), "file_extension": ".py", "mimetype": "text/x-python"},
        "title": page.title,
    }
    return json.dumps({"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, indent=1, ensure_ascii=False) + "\n"


def _cell(number: int, part: Part, pictures: dict[str, bytes]) -> dict[str, Any]:
    cell = part.cell
    base: dict[str, Any] = {"id": f"cell-{number:03d}", "metadata": {"tags": ["raises-exception"]} if cell.raises else {}}
    if cell.kind == "markdown":
        return {"cell_type": "markdown", **base, "source": _lines(cell.text)}
    outputs: list[dict[str, Any]] = []
    if cell.kind == "prose":
        source = FILLED.format(prose_code(cell.text))
        outputs.append({"output_type": "display_data", "metadata": {}, "data": {"text/markdown": _lines(part.text)}})
    else:
        source = f"%%bash\n{cell.text}" if cell.kind == "bash" else cell.text
        if part.text.strip():
            outputs.append({"output_type": "stream", "name": "stdout", "text": _lines(part.text)})
    for name in part.pictures:
        data = {"image/png": base64.b64encode(pictures[name]).decode(), "text/plain": ["<Figure>"]}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    return {"cell_type": "code", **base, "execution_count": None, "outputs": outputs, "source": _lines(source)}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)
