"""A request under construction: turns of pieces, and the findings made on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from .entries import Entry
from .messages import (
    Block,
    Compaction,
    Document,
    Image,
    Opaque,
    RedactedThinking,
    Role,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    encode_block,
    result_text,
)

Family: TypeAlias = Literal["anthropic", "openai"]


class Finding(NamedTuple):
    """What a provider would refuse, where, and what is sent instead."""

    rule: str
    entry: str
    line: int | None
    text: str
    repair: str


class Piece(NamedTuple):
    """A block on its way out, and the entry it comes from."""

    entry: Entry
    block: Block


@dataclass(slots=True)
class Turn:
    """A message being built; results go in front of everything else."""

    role: Role
    results: list[Piece] = field(default_factory=list)
    pieces: list[Piece] = field(default_factory=list)
    sources: list[Entry] = field(default_factory=list)

    def all(self) -> list[Piece]:
        """The pieces in the order in which they are sent."""
        return self.results + self.pieces


class Findings(list[Finding]):
    """What was found so far."""

    def add(self, rule: str, entry: Entry, text: str, repair: str) -> None:
        """One more, at the place of ``entry``."""
        self.append(Finding(rule, entry.id, entry.line, text, repair))


def clean(entry: Entry, block: Block, family: Family, findings: Findings) -> Block | None:
    """A block as a provider takes it; None where it is left out."""
    match block:
        case Text(text) if not text.strip():
            findings.add("I3", entry, "empty text block", "left out")
            return None
        case Text(text) if not is_whole(text):
            findings.add("I3", entry, "half a surrogate pair in text", "replaced by U+FFFD")
            return msgspec.structs.replace(block, text=whole(text))
        case Thinking(_, "") if family == "anthropic":
            findings.add("I2", entry, "thinking block without signature", "left out")
            return None
        case ToolResult():
            return _clean_result(entry, block, family, findings)
        case _:
            return block


def _clean_result(entry: Entry, block: ToolResult, family: Family, findings: Findings) -> ToolResult:
    if isinstance(block.content, str):
        if is_whole(block.content):
            return block
        findings.add("I3", entry, "half a surrogate pair in a tool result", "replaced by U+FFFD")
        return msgspec.structs.replace(block, content=whole(block.content))
    if block.content is None:
        return block
    parts = [clean(entry, part, family, findings) for part in block.content]
    kept = tuple(part for part in parts if part is not None)
    return block if kept == block.content else msgspec.structs.replace(block, content=kept)


SENDABLE_SOURCES = frozenset({"base64", "url", "file", "text", "content"})
"""Source types of images and documents that a request may hold."""


def naturalised(block: Block) -> Block:
    """A block from another wire format without that format's own keys; what has no counterpart becomes text (I6)."""
    match block:
        case ToolResult(id, content, error):
            parts = tuple(naturalised(part) for part in content) if isinstance(content, tuple) else content
            return ToolResult(id, parts, error)
        case Image(source) | Document(source) if source.get("type") not in SENDABLE_SOURCES:
            return Text(f"[{type(block).__name__.lower()}: {source.get('path', 'not in the file')}]")
        case ServerToolUse() | ServerToolResult() | Opaque() | Compaction():
            return Text(msgspec.json.encode(encode_block(block)).decode())
        case Text() | Thinking() | RedactedThinking() | ToolUse() | Image() | Document():
            return msgspec.structs.replace(block, extra={}) if block.extra else block


def as_text(block: ToolResult | ToolUse) -> str:
    """A call or a result where it can only be sent as text."""
    if isinstance(block, ToolResult):
        return result_text(block) or "(empty)"
    return msgspec.json.encode(encode_block(block)).decode()


def is_whole(text: str) -> bool:
    """Whether text has no half surrogate pair, which UTF-8 cannot hold."""
    if text.isascii():
        return True
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def whole(text: str) -> str:
    """Text with half surrogate pairs as U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
