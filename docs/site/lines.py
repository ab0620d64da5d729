"""Printed output on a page of the site: sentences wrap to the page, tables keep their columns and scroll within their block."""

from __future__ import annotations

import html
import re

OUTPUT = re.compile(r'(<div class="highlight-text notranslate"><div class="highlight"><pre>(?:<span></span>)?)(.*?)(</pre>)', re.DOTALL)
GAP = re.compile(r"(?<![.:;?!])  +|[.:;?!]   +")  # between columns; two spaces may end a sentence
WIDTH = 96  # of summaries, whose sentences are cut into lines
NARROW = 40  # characters that fit a telephone
MAX_HANG = 16  # column up to which what stands there is text with or without a label, and beyond which it is in the middle


def column(line: str) -> int | None:
    """The column at which the text of a line begins, after its label if it has one; None where it is a rule or has several columns."""
    words = line.lstrip()
    indent = len(line) - len(words)
    gaps = list(GAP.finditer(words))
    if len(gaps) > 1 or not re.search(r"[^\W\d_]{2}", words):
        return None
    start = indent + (gaps[0].end() if gaps else 0)
    return start if start <= MAX_HANG else None


def whole(lines: list[str]) -> list[str]:
    """Lines of a summary with what was cut at its width put together again; other output as it is."""
    if not any(line == "=" * WIDTH for line in lines):
        return lines
    found, end = lines[:1], len(lines[0])  # where the last line of the last one ends
    for line in lines[1:]:
        words = line.split(maxsplit=1)
        begun = column(found[-1])
        goes_on = begun is not None and begun == column(line) == len(line) - len(line.lstrip()) and end <= WIDTH
        if words and goes_on and end + 1 + len(words[0]) > WIDTH:
            found[-1] += " " + line.lstrip()
        else:
            found.append(line)
        end = len(line)
    return found


def wrapped(body: str) -> str:
    """The HTML of a page in which long sentences of printed output may wrap."""

    def block(found: re.Match[str]) -> str:
        lines = whole(html.unescape(found[2]).split("\n"))
        return found[1] + "".join(map(_shown, lines[:-1])) + html.escape(lines[-1], quote=False) + found[3]

    return OUTPUT.sub(block, body)


def _shown(line: str) -> str:
    text = html.escape(line, quote=False) + "\n"
    start = column(line) if len(line) > NARROW else None
    if start is None:
        return text
    hang = start or 2
    return f'<span class="wraps" style="padding-left: {hang}ch; text-indent: -{hang}ch">{text}</span>'
