"""The command that runs vignettes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nrmmix.cli.output import say
from nrmmix.common import files
from nrmmix.common.messages import SHELL, did_you_mean

GROUPS = ("guide", "papers")


def vignettes(options: argparse.Namespace) -> int:
    """Run vignettes by name, or list them; one that fails does not keep the others from running."""
    from nrmmix.report.recorded import MissingResults
    from nrmmix.report.vignette import VignetteError

    known = scripts()
    if options.list:
        for name, (group, path) in known.items():
            print(f"{name:<32}{group:<8}{title_of(path)}")
        return 0
    chosen = _chosen(options.names, known, options.fast)
    folder = _writable(Path(options.to))
    status = 0
    with _as_a_script(options.fast):
        for number, name in enumerate(chosen, 1):
            say(f"{number} of {len(chosen)}: {name}")
            try:
                for path in _written(known[name][1], folder, options.format):
                    print(path, flush=True)
            except MissingResults as error:
                say(f"error: {name}: {error}")
                status = max(status, 2)
            except VignetteError as error:
                say(f"error: {' / '.join(line.strip() for line in str(error).splitlines() if line.strip())[-600:]}")
                status = max(status, 1)
    return status


def scripts() -> dict[str, tuple[str, Path]]:
    """Vignettes by name: the group, and the script."""
    from nrmmix.report.recorded import vignettes as folder

    place = folder()
    found = {path.stem: ("guide", path) for path in sorted(place.glob("*.py")) if path.stem != "__init__"}
    return found | {path.stem: ("papers", path) for path in sorted((place / "papers").glob("*.py"))}


def title_of(path: Path) -> str:
    """The first heading of a script."""
    from nrmmix.report.vignette import cells

    texts = (cell.text for cell in cells(path.read_text(encoding="utf-8")) if cell.kind in ("markdown", "prose"))
    return next((line[2:] for text in texts for line in text.splitlines() if line.startswith("# ")), path.stem)


def _chosen(names: list[str], known: dict[str, tuple[str, Path]], fast: bool) -> list[str]:
    """Names in the order of the list, groups spelt out."""
    wanted = names or (["papers"] if fast else list(GROUPS))
    for name in wanted:
        if name not in known and name not in GROUPS:
            raise ValueError(f"there is no vignette {name!r}; there are {', '.join(known)}, and the groups {' and '.join(GROUPS)}"
                             f"{did_you_mean(name, (*known, *GROUPS))}")
    chosen = [name for name, (group, _) in known.items() if name in wanted or group in wanted]
    if fast and (long := [name for name in chosen if known[name][0] != "papers"]):
        raise ValueError(f"--fast is for vignettes that have a short form, those of the group papers; {', '.join(long)} has none")
    return chosen


def _writable(folder: Path) -> Path:
    """A folder that files can be written to; it is made where its parent is there."""
    try:
        folder.mkdir(exist_ok=True)
    except FileNotFoundError:
        raise FileNotFoundError(f"--to {str(folder)!r}: there is no folder {str(folder.parent)!r}") from None
    except FileExistsError:
        raise NotADirectoryError(f"--to {str(folder)!r} is a file; give a folder") from None
    except PermissionError:
        raise PermissionError(f"--to {str(folder)!r}: permission denied") from None
    files.check(folder / "page.html")
    return folder


@contextmanager
def _as_a_script(fast: bool) -> Iterator[None]:
    """Vignettes run as they do by themselves, in their short forms if asked."""
    from nrmmix.report.recorded import FAST

    before = os.environ.get(FAST)
    if fast:
        os.environ[FAST] = "1"
    token = SHELL.set("")  # remedies on a page are in the words of Python
    try:
        yield
    finally:
        SHELL.reset(token)
        if fast:
            os.environ.pop(FAST)
            if before is not None:
                os.environ[FAST] = before


def _written(script: Path, folder: Path, endings: Any) -> Iterator[Path]:
    from nrmmix.report.pages.html import as_html
    from nrmmix.report.pages.notebook import as_notebook
    from nrmmix.report.vignette import play, written

    page = play(script)
    if "md" in endings:
        yield written(page, folder / f"{page.stem}.md")
    for ending, made in (("html", as_html), ("ipynb", as_notebook)):
        if ending in endings:
            out = folder / f"{page.stem}.{ending}"
            with files.replaced(out) as file:
                file.write(made(page).encode())
            yield out
