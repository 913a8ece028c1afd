"""A session memory's text as it goes into a summary: each section within a limit (S4, S9)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import accumulate

_HEADING = re.compile(r"#{1,6}\s+\S")
_FENCE = re.compile(r"\s*(```|~~~)")
_IS_LOG = re.compile(r"#+\s.*\b(?:log|journal|history)\b", re.I)


def within(text: str, section_tokens: float, path: str, estimate: Callable[[str], float]) -> str:
    """The text, sections of more than ``section_tokens`` cut at a line, with a note that names the file that holds the whole. Of a log
    the newest lines stay, of any other section the first ones."""
    return "\n".join(_cut(section, section_tokens, path, estimate) for section in _sections(text))


def _sections(text: str) -> Iterator[list[str]]:
    """The lines of each section; what looks like a heading inside a fenced block is none."""
    section: list[str] = []
    fenced = ""
    for line in text.split("\n"):
        fence = _FENCE.match(line)
        if fence and fenced in ("", fence[1]):
            fenced = "" if fenced else fence[1]
        elif not fenced and _HEADING.match(line) and section:
            yield section
            section = []
        section.append(line)
    yield section


def _cut(lines: list[str], most: float, path: str, estimate: Callable[[str], float]) -> str:
    if estimate("\n".join(lines)) <= most:
        return "\n".join(lines)
    head = lines[:1] if _HEADING.match(lines[0]) else []
    rest = lines[len(head) :]
    newest = bool(head) and _IS_LOG.match(head[0]) is not None
    if newest:
        rest.reverse()
    fits = [size <= most for size in accumulate(estimate(f"{line}\n") for line in rest)]
    kept = rest[: fits.index(False)] if False in fits else rest
    note = f"[… {len(rest) - len(kept):,} more lines{f': the whole section is in {path}' if path else ''}]"
    return "\n".join([*head, note, *reversed(kept)] if newest else [*head, *kept, note])
