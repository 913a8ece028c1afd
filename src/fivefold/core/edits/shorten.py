"""Results shown head and tail, with their size and the way to the whole (M10, X9, R3). Pure text, no level of its own."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Sequence
from typing import NamedTuple

from ..entries import CLEARED, Entry, ReplaceBlocks, Target
from ..messages import Text, ToolResult, result_text
from ..view import Shown

LEAST_CHARS = 400
"""Nothing is shown shorter than this: head and tail of it would say nothing."""
_TRIES = 5
_CLOSER = 0.99
"""What is taken off once more where a text is still too large, so that few tries are needed."""
HEAD_SHARE = 0.6
"""The head tells what it is, the tail how it ended."""


class Candidate(NamedTuple):
    """One result that may be shortened: where it is, its text as shown, its tokens."""

    target: Target
    entry: str
    text: str
    tokens: int


def candidates(shown: Iterable[Shown], measure_text: Callable[[str], int], pinned: Container[str] = ()) -> list[Candidate]:
    """The tool results of these entries that hold enough text to be shortened, as they are shown; of pinned entries none (X7)."""
    found = []
    for item in shown:
        if item.entry.id in pinned:
            continue
        for index, block in _results(item.entry):
            text = result_text(block)
            if len(text) > LEAST_CHARS and text != CLEARED:
                found.append(Candidate(Target(item.entry.id, _original(item, index)), item.entry.id, text, measure_text(text)))
    return found


def _results(entry: Entry) -> Iterable[tuple[int, ToolResult]]:
    return ((i, block) for i, block in enumerate(entry.blocks) if isinstance(block, ToolResult))


def _original(item: Shown, index: int) -> int:
    """The place of a shown block among the blocks of its entry; hidden thinking does not stand in one with results."""
    return index + len(item.original.blocks) - len(item.entry.blocks) if item.edits.thinking_hidden else index


def shares(tokens: Sequence[int], most: int) -> list[int]:
    """What each of several results may keep so that together they hold at most ``most``: the largest are cut first, to one
    common height, and those under it stay whole."""
    if sum(tokens) <= most:
        return list(tokens)
    left, height = most, 0
    order = sorted(tokens)
    for i, size in enumerate(order):
        height = left // (len(order) - i)
        if size > height:
            break
        left -= size
    return [min(size, height) for size in tokens]


def head_and_tail(text: str, chars: int, pointer: str) -> str:
    """A text in about ``chars`` characters: its start and its end at line ends where they are near, and between them what is
    missing, of how much, and how to read the whole (K4). Cut between characters, never inside one."""
    if len(text) <= chars:
        return text
    note = f"\n[… {len(text):,} characters in all; the middle is left out. {pointer}]\n"
    room = max(LEAST_CHARS // 2, chars - len(note))
    head = int(room * HEAD_SHARE)
    start, end = text[:head], text[len(text) - (room - head) :]
    cut = start.rfind("\n")
    start = start[:cut] if cut > head // 2 else start
    cut = end.find("\n")
    end = end[cut + 1 :] if 0 <= cut < len(end) // 2 else end
    return _whole(start) + note + _whole(end)


def _whole(text: str) -> str:
    """Without half a surrogate pair at either end."""
    if text and "\ud800" <= text[-1] <= "\udbff":
        text = text[:-1]
    if text and "\udc00" <= text[0] <= "\udfff":
        text = text[1:]
    return text


def pointer_to(entry: str) -> str:
    """How the whole of a shortened result is read back."""
    return f"`recall` shows the whole: entry {entry}."


def replacing(cut: Iterable[tuple[Candidate, int]], measure_text: Callable[[str], int]) -> ReplaceBlocks | None:
    """The change that shows each candidate in at most so many tokens; None where nothing gets shorter."""
    targets: list[Target] = []
    texts: list[str] = []
    for found, tokens in cut:
        text = _within(found, tokens, measure_text)
        if len(text) < len(found.text):
            targets.append(found.target)
            texts.append(text)
    return ReplaceBlocks(tuple(targets), tuple(texts)) if targets else None


def _within(found: Candidate, tokens: int, measure_text: Callable[[str], int]) -> str:
    """Head and tail of a result in at most so many tokens. How many characters that are differs from place to place, so it is
    measured."""
    chars = int(tokens * len(found.text) / max(1, found.tokens))
    for _ in range(_TRIES):
        text = head_and_tail(found.text, max(LEAST_CHARS, chars), pointer_to(found.entry))
        size = measure_text(text)
        if size <= tokens or chars <= LEAST_CHARS:
            break
        chars = int(chars * tokens / size * _CLOSER)
    return text


def text_blocks_over(entry: Entry, chars: int) -> list[tuple[int, str]]:
    """Places and texts of an entry's own text blocks that are longer than ``chars``."""
    return [(i, block.text) for i, block in enumerate(entry.blocks) if isinstance(block, Text) and len(block.text) > chars]
