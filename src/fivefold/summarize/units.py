"""The texts of a conversation, one for each block that says something, with who speaks and in which round."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeAlias

from ..core.entries import Entry
from ..core.messages import JSON, Block, ServerToolResult, ServerToolUse, Text, ToolResult, ToolUse, result_text
from ..core.pairing import Round
from .references import Extractor

Voice: TypeAlias = Literal["assistant", "call", "result", "person", "harness", "system"]

TOOL_MARK = "<tool-use "
"""What the tool calls of one Markdown format begin with; they stand there in the assistant's text, results included."""
SPARSE_CHARS = 500
"""Fewer references than one in so many characters: a conversation without code, in which names and words count."""


class Unit(NamedTuple):
    """One text. ``entry`` and ``block`` count from 0; a call's text is the strings of its input, one a line."""

    entry: int
    block: int
    round: int
    voice: Voice
    text: str
    refs: frozenset[str]
    tool: str = ""


class Texts(NamedTuple):
    """The units of a conversation in order, and the extractor that knows the kind of each reference in them."""

    units: list[Unit]
    extractor: Extractor


def is_person(entry: Entry) -> bool:
    """Whether an entry holds what a person said (and not only what tools answered)."""
    return entry.kind == "user" and not entry.meta and not entry.summary and any(isinstance(block, Text) for block in entry.blocks)


def is_told_result(entry: Entry) -> bool:
    """Whether an assistant's entry holds nothing but results, as one Markdown format writes them."""
    return entry.kind == "assistant" and all(isinstance(block, Text) and block.text.startswith(TOOL_MARK) for block in entry.blocks)


def texts_of(entries: Sequence[Entry], rounds: Sequence[Round], known: Extractor | None = None) -> Texts:
    """All units with their references. Summaries, notes, thinking and media say nothing here. ``known``: what earlier calls
    on the same conversation have found."""
    texts = _texts(entries, rounds, known or Extractor())
    chars = sum(len(unit.text) for unit in texts.units if unit.voice != "system")
    if not texts.extractor.words and chars > SPARSE_CHARS * len(texts.extractor.kinds):
        return _texts(entries, rounds, Extractor(words=True))
    return texts


def _texts(entries: Sequence[Entry], rounds: Sequence[Round], extractor: Extractor) -> Texts:
    units: list[Unit] = []
    for number, found in enumerate(rounds):
        for index in range(found.start, found.stop):
            entry = entries[index]
            for block, voice, text, tool in spoken(entry):
                refs = extractor.of_call(text) if voice == "call" else extractor.of(text)
                units.append(Unit(index, block, number, voice, text, refs, tool))
    return Texts(units, extractor)


def spoken(entry: Entry) -> Iterator[tuple[int, Voice, str, str]]:
    """Block number, voice, text and tool name of each block of an entry that says something."""
    if entry.summary or entry.kind in ("note", "boundary"):
        return
    for i, block in enumerate(entry.blocks):
        match block:
            case Text(text) if text and not text.isspace():
                yield i, _voice(entry, text), text, ""
            case ToolUse(_, name, input) | ServerToolUse(_, name, input):
                yield i, "call", "\n".join(strings(input)), name
            case ToolResult() if text := result_text(block):
                yield i, "result", text, ""
            case ServerToolResult(_, content):
                yield i, "result", "\n".join(strings(content)), ""
            case _:
                continue


def _voice(entry: Entry, text: str) -> Voice:
    if entry.kind == "system":
        return "system"
    if entry.kind == "assistant":
        return "result" if text.startswith(TOOL_MARK) else "assistant"
    return "person" if is_person(entry) else "harness"


def strings(value: JSON) -> Iterator[str]:
    """The strings and numbers of a JSON value in order, keys left out."""
    if isinstance(value, str):
        if value:
            yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield str(value)


def is_unread(block: Block) -> bool:
    """Whether a block holds something that no unit shows (media, thinking, unknown kinds)."""
    return not isinstance(block, Text | ToolUse | ToolResult | ServerToolUse | ServerToolResult)


def refs_where(units: Iterable[Unit], wanted: Callable[[Unit], bool]) -> set[str]:
    """All references of the units that are wanted."""
    return set().union(*(unit.refs for unit in units if wanted(unit)))
