"""The sentences of a prose."""

from __future__ import annotations

import re

SENTENCE_CHARS = 400
LEAST_CHARS = 24
"""A shorter sentence in ASCII says nothing by itself."""
_END = re.compile(r"(?<=[.!?;])\s+(?=[^\s])|(?<=[。！？；])|\n+")


def prose_of(text: str) -> list[tuple[int, str]]:
    """The sentences of a text outside its fenced code."""
    if "```" not in text:
        return sentences_of(text)
    found: list[tuple[int, str]] = []
    at = 0
    for i, part in enumerate(text.split("```")):
        if i % 2 == 0:
            found += [(at + start, piece) for start, piece in sentences_of(part)]
        at += len(part) + 3
    return found


def sentences_of(text: str) -> list[tuple[int, str]]:
    """The sentences of a text with their places; very long ones are cut at ``SENTENCE_CHARS``."""
    found: list[tuple[int, str]] = []
    start = 0
    for end in [*(match.start() for match in _END.finditer(text)), len(text)]:
        piece = text[start:end]
        lead = len(piece) - len(piece.lstrip())
        for at in range(start + lead, end, SENTENCE_CHARS):
            part = text[at : min(end, at + SENTENCE_CHARS)].rstrip()
            if len(part) >= LEAST_CHARS or not part.isascii():
                found.append((at, part))
        start = end
    return found
