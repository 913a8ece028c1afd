"""A conversation as inert text for the model that summarises it (L1, L11, L7): who speaks in a line of its own, results
shortened, media by their names, no thinking, nothing that could pass for a tag or a turn of ours.

What does not fit is shortened step by step, the largest texts first; then the oldest rounds go, whole, and a line says so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from ..core.entries import SHOWN_AS, Entry
from ..core.estimate import CALL_FRAME_TOKENS, RESULT_FRAME_TOKENS, encode_json, measure_blocks
from ..core.messages import (
    JSON,
    Block,
    Compaction,
    Document,
    Image,
    Object,
    Opaque,
    ServerToolResult,
    ServerToolUse,
    Text,
    ToolResult,
    ToolUse,
)
from ..core.pairing import pair, rounds
from .frame import escape, unframed
from .parse import shortened
from .redact import redact
from .units import is_person, strings

Kind: TypeAlias = Literal["result", "words", "earlier"]

STILL_OPEN = "[Not finished when the summary was asked for.]"
PINNED = -1
"""The round of what is never left out: an earlier summary, and the first message of a person."""
PINNED_CHARS = 600
"""Once rounds had to go, so much of that first message stays: it tells what the rest is about."""
_NAMES = ("title", "filename", "name", "path", "url", "file_id")
_BLOB = re.compile(r"(?:data:[\w.+-]{1,40}/[\w.+-]{1,80};base64,)?[A-Za-z0-9+/_-]{256,}={0,2}")
"""Base64 and its like: nothing in it can be read."""
_REMINDER = re.compile(r"<system-reminder>(?:(?!</system-reminder>).)*</system-reminder>", re.S)
_TAG = re.compile(r"<(?=/?\s*conversation\b)", re.I)
_SPEAKER = re.compile(r"^--- (?=(?:person|assistant|harness|system|call|result|earlier|left out)\b)", re.M)


class Piece(NamedTuple):
    """One text of the conversation. ``label`` is who speaks; ``round`` counts from 0."""

    entry: str
    round: int
    label: str
    text: str
    kind: Kind


class Level(NamedTuple):
    """Most characters of a text of each kind."""

    result: int
    words: int
    earlier: int


_FLOOR = Level(240, 400, 4_000)
LEVELS = (
    *(Level(chars, 8_000, 40_000) for chars in (2_000, 1_400, 1_000, 700, 500, 350, _FLOOR.result)),
    *(Level(_FLOOR.result, chars, max(_FLOOR.earlier, 4 * chars)) for chars in (4_000, 2_800, 2_000, 1_400, 1_000, 700, 500)),
    _FLOOR,
    Level(120, 200, 2_000),
    Level(60, 100, 800),
    Level(30, 50, 300),
)
"""From the fullest to the shortest; the ones behind the floor only where one round is all there is left."""
FLOOR = LEVELS.index(_FLOOR)


class Rendered(NamedTuple):
    """The conversation at one level. ``unseen``: entries left out whole; ``shortened``: texts that are not whole."""

    text: str
    dropped: int
    level: int
    unseen: tuple[str, ...]
    shortened: int


@dataclass(frozen=True, slots=True)
class Sheet:
    """A conversation in pieces, ready to be written at any length."""

    pieces: tuple[Piece, ...]
    rounds: tuple[int, ...]
    """The rounds that may be dropped, oldest first."""

    @classmethod
    def of(cls, entries: Sequence[Entry]) -> Sheet:
        """The pieces of what is sent of these entries."""
        pieces = tuple(_pieces(entries))
        return cls(pieces, tuple(sorted({piece.round for piece in pieces} - {PINNED})))

    def at(self, dropped: int, level: int) -> Rendered:
        """The text with so many of the oldest rounds left out."""
        gone = set(self.rounds[:dropped])
        most = LEVELS[level]
        unseen: dict[str, None] = {}
        lines: list[str] = []
        speaker, mark, shorter = ("", ""), -1, 0
        for piece in self.pieces:
            if piece.round in gone:
                unseen[piece.entry] = None
                mark = len(lines) if mark < 0 else mark
                continue
            chars = _most(piece, most, bool(dropped))
            text = shortened(piece.text, chars)
            shorter += text != piece.text
            if (piece.entry, piece.label) != speaker:
                lines.append(f"--- {piece.label}")
            speaker = piece.entry, piece.label
            lines.append(text)
        if mark >= 0:
            lines.insert(mark, f"--- left out here, because of the size: the {len(unseen)} oldest messages")
        seen = {piece.entry for piece in self.pieces if piece.round not in gone}
        return Rendered("\n".join(lines), dropped, level, tuple(id for id in unseen if id not in seen), shorter)

    def fitted(self, fits: Callable[[str], bool], *, dropped: int = 0, level: int = 0) -> Rendered | None:
        """The fullest text that fits, from ``dropped`` and ``level`` on downwards; None where even the shortest does not (L11)."""
        last = max(level, FLOOR)
        if not fits(self.at(dropped, last).text):
            most = max(dropped, len(self.rounds) - 1)
            if not fits(self.at(most, last).text):
                end = len(LEVELS) - 1
                return self._level(fits, most, last, end) if fits(self.at(most, end).text) else None
            dropped = _first(lambda count: fits(self.at(count, last).text), dropped + 1, most)
        return self._level(fits, dropped, level, last)

    def _level(self, fits: Callable[[str], bool], dropped: int, first: int, last: int) -> Rendered:
        return self.at(dropped, _first(lambda level: fits(self.at(dropped, level).text), first, last))

    def smaller(self, now: Rendered, gap: float | None, percent: float, estimate: Callable[[str], float]) -> Rendered | None:
        """What to send after a refusal (L7): without the oldest rounds that cover the ``gap`` in tokens, by unpadded estimates, or
        without so many percent of the rounds where the gap is unknown, at least one, never all. Where that is not enough, texts
        get shorter, the largest first. None where nothing is left that could cover it."""
        left = len(self.rounds) - now.dropped
        size = estimate(now.text)
        target = size * (1 - percent / 100) if gap is None else size - gap
        made = now
        if left >= 2 and gap is None:
            made = self.at(now.dropped + min(left - 1, max(1, int(left * percent / 100))), now.level)
            target = size
        elif left >= 2:
            most = now.dropped + left - 1
            enough = _first(lambda count: estimate(self.at(count, now.level).text) <= target, now.dropped + 1, most)
            made = self.at(enough, now.level)
        if made.text != now.text and estimate(made.text) <= target:
            return made
        for level in range(now.level + 1, len(LEVELS)):
            made = self.at(made.dropped, level)
            if estimate(made.text) <= target and made.text != now.text:
                return made
        return None


def _first(holds: Callable[[int], bool], low: int, high: int) -> int:
    """The first number from ``low`` on that holds; ``high`` where none before it does."""
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


def _most(piece: Piece, level: Level, short: bool) -> int:
    match piece.kind:
        case "result":
            return level.result
        case "earlier":
            return level.earlier
        case "words":
            return min(level.words, PINNED_CHARS) if short and piece.round == PINNED else level.words


# --- pieces


def _pieces(entries: Sequence[Entry]) -> Iterator[Piece]:
    names: dict[str, str] = {}
    first = True
    for number, found in enumerate(rounds(entries)):
        for entry in entries[found.start : found.stop]:
            if entry.kind not in SHOWN_AS:
                continue
            person = is_person(entry)
            round = PINNED if entry.summary or (person and first) else number
            first = first and not person
            for label, text, kind in _told(entry, names):
                text = clean(text)
                if text.strip():
                    yield Piece(entry.id, PINNED if kind == "earlier" else round, label, text, kind)


def _told(entry: Entry, names: dict[str, str]) -> Iterator[tuple[str, str, Kind]]:
    """Who says what in an entry. ``names``: of the tools by call, added to."""
    who = "assistant" if entry.kind == "assistant" else "system" if entry.kind == "system" else "person" if is_person(entry) else "harness"
    for block in entry.blocks:
        match block:
            case Text(text) if entry.summary:
                yield "earlier summary", unframed(text) or text, "earlier"
            case Compaction({"content": str(text)}):
                yield "earlier summary", text, "earlier"
            case Text(text):
                yield "harness" if is_reminder(text) else who, text, "words"
            case ToolUse(id, name, input) | ServerToolUse(id, name, input):
                names[id] = name
                yield f"call {clean(name)}", _input(input), "result"
            case ToolResult(id, content, is_error):
                yield _result(names, id, is_error), "\n".join(_parts(content)), "result"
            case ServerToolResult(id, content):
                yield _result(names, id, False), "\n".join(strings(content)), "result"
            case Image() | Document() | Opaque():
                yield who, _medium(block), "words"
            case _:
                continue


def is_reminder(text: str) -> bool:
    """Whether a text in a person's message is a harness's and no person's: one reminder from end to end."""
    return _REMINDER.fullmatch(text.strip()) is not None


def _result(names: dict[str, str], id: str, is_error: bool) -> str:
    return f"result of {clean(names.get(id, 'a call'))}{', an error' if is_error else ''}"


def _parts(content: str | tuple[Block, ...] | None) -> Iterable[str]:
    if not isinstance(content, tuple):
        return [content or "(empty)"]
    return [part.text if isinstance(part, Text) else _medium(part) for part in content] or ["(empty)"]


def _input(input: JSON) -> str:
    return input if isinstance(input, str) else encode_json(input).decode("utf-8", "surrogatepass")


def _medium(block: Block) -> str:
    """What stands for a block without words: what it is, and its name, so that it can be looked at again (T7)."""
    match block:
        case Image(source, extra):
            return _named("image", source, extra)
        case Document({"type": "text", "data": str(text)} as source, extra):
            return f"{_named('document', source, extra)}\n{text}"
        case Document(source, extra):
            return _named("document", source, extra)
        case Opaque(dict(data)) if isinstance(kind := data.get("type"), str):
            told = "\n".join(strings({key: value for key, value in data.items() if key != "type"}))
            return f"[{kind}]\n{told}" if told else f"[{kind}]"
        case _:
            return f"[{type(block).__name__.lower()}]"


def _named(what: str, source: Object, extra: Object) -> str:
    kind = source.get("media_type")
    name = _name(source, extra) or (kind if isinstance(kind, str) else "")
    return f"[{what} {name}]" if name else f"[{what}]"


def _name(source: Object, extra: Object) -> str:
    return next((value for data in (extra, source) for key in _NAMES if isinstance(value := data.get(key), str) and value), "")


def clean(text: str) -> str:
    """A text that is nothing but text: secrets and base64 gone, and no tag, turn or speaker's line of ours in it (H1, H2)."""
    text = _BLOB.sub(lambda match: f"[{len(match[0]):,} characters of encoded data]", redact(text))
    return _SPEAKER.sub(" --- ", _TAG.sub("&lt;", escape(text)))


# --- a conversation that is sent as it is


def open_results(entries: Sequence[Entry]) -> tuple[Block, ...]:
    """A result for each call that waits for one: it was not interrupted, it is only not there yet (I1)."""
    waiting = [entries[place.entry].blocks[place.block] for place in pair(entries).open]
    return tuple(ToolResult(block.id, STILL_OPEN) for block in waiting if isinstance(block, ToolUse))


def media_names(entries: Iterable[Entry]) -> list[str]:
    """The names of images and documents, each once."""
    parts = (part for entry in entries for block in entry.blocks for part in _inner(block))
    named = (_name(part.source, part.extra) for part in parts if isinstance(part, Image | Document))
    return list(dict.fromkeys(clean(name) for name in named if name))


def _inner(block: Block) -> tuple[Block, ...]:
    return block.content if isinstance(block, ToolResult) and isinstance(block.content, tuple) else (block,)


def first_words(entries: Iterable[Entry]) -> str:
    """The first text of the user's side, by which the place where a part begins is told."""
    texts = (block.text for entry in entries if entry.kind == "user" for block in entry.blocks if isinstance(block, Text))
    return next((clean(text) for text in texts if text.strip()), "")


def sent_tokens(entries: Iterable[Entry], estimate: Callable[[str], float]) -> float:
    """Unpadded tokens of entries as they are sent."""
    return sum(_tokens(block, estimate) for entry in entries if entry.kind in SHOWN_AS for block in entry.blocks)


def _tokens(block: Block, estimate: Callable[[str], float]) -> float:
    match block:
        case Text(text):
            return estimate(text)
        case ToolUse(_, name, input):
            return CALL_FRAME_TOKENS + estimate(name) + estimate(_input(input))
        case ToolResult(content=tuple(parts)):
            return RESULT_FRAME_TOKENS + sum(_tokens(part, estimate) for part in parts)
        case ToolResult(content=str(text)):
            return RESULT_FRAME_TOKENS + estimate(text)
        case _:
            return measure_blocks((block,)).tokens
