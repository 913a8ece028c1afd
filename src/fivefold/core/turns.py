"""A request under construction: turns of pieces, and the findings made on the way."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from .entries import Entry
from .messages import (
    JSON,
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
    decode_block,
    encode_block,
)

Family: TypeAlias = Literal["anthropic", "openai-responses", "other"]
REFUSED_BY: dict[Family, frozenset[str]] = {
    "anthropic": frozenset({"I1", "I2", "I3", "I4", "I5", "I8", "I9", "R4", "V1"}),
    "openai-responses": frozenset({"I1", "I8"}),
    "other": frozenset({"I1", "I8", "I9"}),
}
"""Which of the rules a provider enforces: pairing all of them, OpenAI's Responses wherever the result stands."""


MODELLED = frozenset(
    {"text", "thinking", "redacted_thinking", "tool_use", "tool_result", "server_tool_use", "mcp_tool_use", "image", "document"}
)
"""Types of blocks that are read into classes of their own."""


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
        case Thinking(_, "") if family == "anthropic":
            findings.add("I2", entry, "thinking block without signature", "left out")
            return None
        case Opaque(data) if family == "anthropic" and not (isinstance(data, dict) and _is_other_kind(data.get("type"))):
            findings.add("V1", entry, "a block without the fields of its kind", "sent as text")
            return Text(json_text(block))
        case ToolUse(input=input) if family == "anthropic" and not isinstance(input, dict):
            findings.add("V1", entry, f"input of call {block.id} is no object", "sent as the text of one")
            return clean(entry, msgspec.structs.replace(block, input={"input": input}), family, findings)
        case ToolResult(content=tuple(parts)):
            kept = tuple([part for part in (clean(entry, part, family, findings) for part in parts) if part is not None])
            return block if kept == parts else msgspec.structs.replace(block, content=kept)
        case _:
            return _whole_block(entry, block, findings)


def _is_other_kind(kind: JSON) -> bool:
    """Whether a block kept as it came is of a kind of its own, as against a broken one of a kind that is modelled."""
    return isinstance(kind, str) and kind not in MODELLED


def _whole_block(entry: Entry, block: Block, findings: Findings) -> Block | None:
    """A block without half surrogate pairs, which UTF-8 cannot hold. Thinking is left out rather than changed (I2)."""
    if is_whole(block):
        return block
    if isinstance(block, Thinking | RedactedThinking):
        findings.add("I2", entry, "half a surrogate pair in thinking", "the block is left out")
        return None
    findings.add("I3", entry, f"half a surrogate pair in a {type(block).__name__}", "replaced by U+FFFD")
    return decode_block(scrubbed(encode_block(block)))


def is_whole(block: Block) -> bool:
    """Whether a block can be written as UTF-8."""
    if isinstance(block, Text) and block.text.isascii() and not block.extra:
        return True
    try:
        msgspec.json.encode(block)
    except UnicodeEncodeError:
        return False
    return True


def scrubbed(value: JSON) -> JSON:
    """A value with each half of a surrogate pair as U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    if isinstance(value, list):
        return [scrubbed(item) for item in value]
    if isinstance(value, dict):
        return {str(scrubbed(key)): scrubbed(item) for key, item in value.items()}
    return value


SENDABLE_SOURCES = frozenset({"base64", "url", "file", "text", "content"})
"""Source types of images and documents that a request may hold."""


def naturalised(block: Block, *, keep_thinking: bool) -> Block | None:
    """A block from another wire format without that format's own keys; what has no counterpart becomes text (I6).

    Thinking is signed by who made it: ``keep_thinking`` where that is who it goes back to, else it is left out (I2).
    """
    match block:
        case Thinking() | RedactedThinking():
            return msgspec.structs.replace(block, extra={}) if keep_thinking else None
        case ToolResult(id, content, error):
            if isinstance(content, tuple):
                content = tuple([part for part in (naturalised(part, keep_thinking=False) for part in content) if part is not None])
            return ToolResult(id, content, error)
        case Image(source) | Document(source) if source.get("type") not in SENDABLE_SOURCES:
            return Text(f"[{type(block).__name__.lower()}: {source.get('path', 'not in the file')}]")
        case ServerToolUse() | ServerToolResult() | Opaque() | Compaction():
            return Text(json_text(block))
        case Text() | ToolUse() | Image() | Document():
            return msgspec.structs.replace(block, extra={}) if block.extra else block


def json_text(block: Block) -> str:
    """A block's object on the wire as text."""
    return msgspec.json.encode(scrubbed(encode_block(block))).decode()


def as_blocks(block: ToolResult) -> list[Block]:
    """A result where it can only be sent outside of a pair: its text and its parts."""
    if isinstance(block.content, tuple):
        return list(block.content) or [Text("(empty)")]
    return [Text(block.content or "(empty)")]
