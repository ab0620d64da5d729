"""A vignette that was run as one HTML file: no scripts, no fonts, no files from elsewhere."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from functools import partial
from html import escape

from nrmmix.report.vignette import Page

STYLE = """\
body { font: 17px/1.55 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 52rem; margin: 0 auto; padding: 1rem 1.2rem; }
h1, h2, h3 { line-height: 1.25; margin: 2rem 0 0.6rem; } h2 { border-bottom: 1px solid #ccc; }
a { color: #00558c; }
pre { background: #f5f5f5; padding: 0.7rem 0.9rem; overflow-x: auto; font-size: 0.82rem; line-height: 1.4; }
pre.output { background: #fff; border-left: 0.3rem solid #ccc; }
code { font-family: ui-monospace, monospace; font-size: 0.9em; }
table { border-collapse: collapse; display: block; overflow-x: auto; font-size: 0.9rem; margin: 1rem 0; }
th, td { border: 1px solid #ccc; padding: 0.25rem 0.6rem; text-align: left; } th { background: #f5f5f5; }
img { max-width: 100%; height: auto; }
@media print { pre { white-space: pre-wrap; } img { break-inside: avoid; } }"""
RULE = re.compile(r"^\|?[\s:|-]*-[\s:|-]*$")
BEGINS = re.compile(r"^(```|#{1,6} |\||[-*] |\d+\. |> |    |<!--)")
INLINE = re.compile(
    r"`(?P<code>[^`]+)`|!\[(?P<alt>[^\]]*)\]\((?P<image>[^)\s]+)\)|\[(?P<text>[^\]]+)\]\((?P<link>[^)\s]+)\)"
    r"|\*\*(?P<strong>[^*]+)\*\*|(?<![\w*])\*(?P<em>[^*\s][^*]*)\*(?![\w*])"
)


def as_html(page: Page) -> str:
    """The page as one HTML document, its pictures within it."""
    pictures = {
        f"{page.stem}/{name}": f"data:image/png;base64,{base64.b64encode(content).decode()}" for name, content in page.pictures.items()
    }
    body = "\n".join(blocks(page.markdown().splitlines(), pictures))
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<meta name="viewport" content="width=device-width">\n'
        f"<title>{escape(page.title)}</title>\n<style>\n{STYLE}\n</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def blocks(lines: list[str], pictures: dict[str, str]) -> Iterator[str]:
    """Elements of a text in the part of Markdown that pages use: headings, paragraphs, code, lists, tables, quotes.

    Examples
    --------
    >>> list(blocks(["- one", "  more", "- two", "", "```text", "a < b", "```"], {}))
    ['<ul><li>one more</li><li>two</li></ul>', '<pre class="output"><code>a &lt; b</code></pre>']
    """
    at = 0
    while at < len(lines):
        line = lines[at]
        first = at
        if not line.strip() or line.startswith("<!--"):
            at += 1
        elif line.startswith("```"):
            at = next((j for j in range(at + 1, len(lines)) if lines[j].startswith("```")), len(lines)) + 1
            kind = ' class="output"' if line[3:].strip() == "text" else ""
            yield f"<pre{kind}><code>{escape(chr(10).join(lines[first + 1 : at - 1]))}</code></pre>"
        elif line.startswith("    "):
            at = _until(lines, at, lambda one: not one.startswith("    ") and bool(one.strip()))
            yield f"<pre><code>{escape(chr(10).join(one[4:] for one in lines[first:at]).rstrip())}</code></pre>"
        elif heading := re.match(r"(#{1,6}) +(.*)", line):
            level, at = len(heading[1]), at + 1
            yield f"<h{level}>{inline(heading[2], pictures)}</h{level}>"
        elif line.startswith("|") and at + 1 < len(lines) and RULE.match(lines[at + 1]):
            at = _until(lines, at, lambda one: not one.startswith("|"))
            yield _table(lines[first:at], pictures)
        elif found := re.match(r"([-*]|\d+\.) ", line):
            kind, marker = ("ol", r"\d+\. ") if found[1][0].isdigit() else ("ul", r"[-*] ")
            at = _until(lines, at, partial(_is_none, rf"{marker}|\s+\S"))
            items = re.split(rf"(?m)^{marker}", "\n".join(lines[first:at]))[1:]
            yield f"<{kind}>{''.join(f'<li>{inline(_joined(item), pictures)}</li>' for item in items)}</{kind}>"
        elif line.startswith("> "):
            at = _until(lines, at, lambda one: not one.startswith(">"))
            yield f"<blockquote><p>{inline(' '.join(one[1:].strip() for one in lines[first:at]), pictures)}</p></blockquote>"
        else:
            at = _until(lines, at + 1, lambda one: not one.strip() or bool(BEGINS.match(one)))
            yield f"<p>{inline(_joined(chr(10).join(lines[first:at])), pictures)}</p>"


def _is_none(pattern: str, line: str) -> bool:
    return not re.match(pattern, line)


def _until(lines: list[str], at: int, ends: Callable[[str], bool]) -> int:
    return next((j for j in range(at, len(lines)) if ends(lines[j])), len(lines))


def _joined(text: str) -> str:
    return " ".join(text.split())


def _table(rows: list[str], pictures: dict[str, str]) -> str:
    def cells(row: str, tag: str) -> str:
        parts = re.split(r"(?<!\\)\|", row.strip().strip("|"))
        return "<tr>" + "".join(f"<{tag}>{inline(part.strip(), pictures)}</{tag}>" for part in parts) + "</tr>"

    return f"<table>{cells(rows[0], 'th')}{''.join(cells(row, 'td') for row in rows[2:])}</table>"


def inline(text: str, pictures: dict[str, str]) -> str:
    """Code, links, pictures and emphasis within a line.

    Examples
    --------
    >>> inline("`a < b` and [**this**](trees.md)", {})
    '<code>a &lt; b</code> and <a href="trees.md"><strong>this</strong></a>'
    """
    parts, end = [], 0
    for found in INLINE.finditer(text):
        parts.append(escape(text[end : found.start()], quote=False))
        end = found.end()
        if found["code"]:
            parts.append(f"<code>{escape(found['code'], quote=False)}</code>")
        elif found["image"]:
            parts.append(f'<img alt="{escape(found["alt"])}" src="{pictures.get(found["image"], escape(found["image"]))}">')
        elif found["link"]:
            parts.append(f'<a href="{escape(found["link"])}">{inline(found["text"], pictures)}</a>')
        else:
            tag = "strong" if found["strong"] else "em"
            parts.append(f"<{tag}>{inline(found[tag], pictures)}</{tag}>")
    return "".join([*parts, escape(text[end:], quote=False)])
