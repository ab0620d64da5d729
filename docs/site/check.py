"""Whether a built site needs nothing from elsewhere, and whether its links lead somewhere: `python docs/site/check.py site/html`.

With a Chromium on the machine every page is also opened at 1280 and at 400 pixels, where it must not be wider than its window; without one
a line says so.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {  # attributes by which a page loads something
    "img": ("src", "srcset"), "script": ("src",), "iframe": ("src",), "source": ("src", "srcset"), "video": ("src",), "audio": ("src",),
    "embed": ("src",), "object": ("data",), "image": ("href", "xlink:href"), "use": ("href", "xlink:href"),
}
WIDTHS = (1280, 400)
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--hide-scrollbars", "--disable-component-update", "--disable-sync", "--allow-file-access-from-files",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
IN_STYLES = re.compile(r"""url\(\s*['"]?([^'")]+)|@import\s+['"]([^'"]+)""")


class Page(HTMLParser):
    """What a page loads, where it links to, and the places in it that links can name."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.loads: list[str] = []
        self.links: list[str] = []
        self.places: set[str] = set()
        self.in_style = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value for name, value in attrs if value is not None}
        self.places |= {values[name] for name in ("id", "name") if name in values}
        for name in LOADED.get(tag, ()):
            if name in values:
                self.loads += [part.split()[0] for part in values[name].split(",")] if name == "srcset" else [values[name]]
        if tag == "link" and "href" in values and set(values.get("rel", "").split()) & {"stylesheet", "icon", "preload", "manifest"}:
            self.loads.append(values["href"])
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if "style" in values:
            self.loads += in_styles(values["style"])
        self.in_style = tag == "style"

    handle_startendtag = handle_starttag

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.loads += in_styles(data)
            self.in_style = False


def in_styles(text: str) -> list[str]:
    """What a style sheet loads."""
    return [first or second for first, second in IN_STYLES.findall(text)]


def problems(site: Path) -> Iterator[str]:
    """Everything that is wrong with a site, a line each."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"{site}: no pages"
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        for target in page.loads:
            yield from _of_target(name, path, target, "loads")
        for target in page.links:
            parts = urlsplit(target)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            yield from _of_target(name, path, target, "links to")
            where = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if parts.fragment and where in pages and unquote(parts.fragment) not in pages[where].places:
                yield f"{name}: links to {target}, a place that is not there"
    for path in sorted(site.rglob("*.css")):
        for target in in_styles(path.read_text(encoding="utf-8")):
            yield from _of_target(path.relative_to(site), path.resolve(), target, "loads")


def _of_target(name: Path, path: Path, target: str, verb: str) -> Iterator[str]:
    parts = urlsplit(target)
    if parts.scheme == "data" or (verb == "links to" and not parts.path):
        return
    if parts.scheme or parts.netloc:
        yield f"{name}: {verb} {target}, from the network"
    elif parts.path.startswith("/"):
        yield f"{name}: {verb} {target}, which is not relative"
    elif parts.path and not (path.parent / unquote(parts.path)).exists():
        yield f"{name}: {verb} {target}, which is not there"


# ---- in a browser


def browser() -> str | None:
    """A Chromium, if there is one."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def widths(program: str, site: Path, pages: list[Path]) -> Iterator[tuple[str, int, int]]:
    """Of each page and width of window, how wide the page is: all pages in frames of one that reads them."""
    names = [page.resolve().as_uri() for page in pages]
    script = f"""<!DOCTYPE html><meta charset="utf-8"><pre id="found"></pre><script>
const names = {json.dumps(names)}, widths = {json.dumps(WIDTHS)}, found = [];
async function look() {{
  for (const name of names) for (const width of widths) {{
    const frame = document.createElement("iframe");
    frame.style = `width: ${{width}}px; height: 900px; border: 0`;
    const loaded = new Promise((resolve) => {{ frame.onload = resolve; }});
    frame.src = name;
    document.body.append(frame);
    await loaded;
    found.push([name, width, frame.contentDocument.documentElement.scrollWidth]);
    frame.remove();
  }}
  document.getElementById("found").textContent = JSON.stringify(found);
}}
look();
</script>"""
    with tempfile.TemporaryDirectory() as folder:
        harness = Path(folder) / "frames.html"
        harness.write_text(script, encoding="utf-8")
        command = [program, *FLAGS, f"--user-data-dir={folder}/profile", "--virtual-time-budget=600000", "--dump-dom", harness.as_uri()]
        dom = subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout
    found = json.loads(html.unescape(re.search(r'<pre id="found">(.*?)</pre>', dom, re.DOTALL)[1]))
    assert len(found) == len(names) * len(WIDTHS)
    root = site.resolve().as_uri()
    return ((name.removeprefix(root + "/"), width, wide) for name, width, wide in found)


def main(site: Path) -> int:
    """Print what is wrong; the number of problems, at most 1."""
    found = list(problems(site))
    program = browser()
    if program is None:
        print("no Chromium on this machine: widths of pages are not checked")
    else:
        wide = widths(program, site, sorted(site.rglob("*.html")))
        found += [f"{name}: {pixels} pixels wide in a window of {width}" for name, width, pixels in wide if pixels > width]
    seen = "" if program is None else f", none wider than windows of {' and '.join(map(str, WIDTHS))} pixels"
    print("\n".join(found) or f"{len(list(site.rglob('*.html')))} pages: nothing from the network, no dead link{seen}")
    return int(bool(found))


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1])))
