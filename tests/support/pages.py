"""What a page must hold of its script."""

import re

from nrmmix.report.vignette import BRACES, Cell


def parts_of(cell: Cell) -> list[str]:
    """Text of a cell as its page has it, in parts: what stands between the braces of prose is filled in."""
    if cell.kind == "bash":
        return re.split(r"(?<!\\)\n", cell.text)
    if cell.kind != "prose":
        return [cell.text]
    plain = BRACES.sub("\0", cell.text.replace("{{", "\1").replace("}}", "\2"))
    return [part.strip("\n") for part in plain.replace("\1", "{").replace("\2", "}").split("\0")]
