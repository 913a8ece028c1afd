"""The lines of a Claude Code session file, each decoded once into the few envelope fields that matter.

The envelope is about five times what the model saw (``toolUseResult``, snapshots, progress), so fields that are not
named here are skipped by the decoder, and the line's bytes are kept by reference.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from ..core.messages import JSON, Object
from ..core.transcript import OtherRecord
from .source import Source, loads

NO_RAW = msgspec.Raw(b"")
CHAIN_TYPES = frozenset(("user", "assistant", "system", "attachment", "progress"))
"""Types of lines that parent links may run through."""
BOUNDARY = "compact_boundary"
MICRO_BOUNDARY = "microcompact_boundary"
OURS = "(fivefold) "
"""Before the names of what is not in the file."""


class WireMessage(msgspec.Struct, gc=False):
    """The API message inside a user or assistant line. Decoded JSON has no cycles, so the collector need not look at it."""

    content: JSON = None
    id: str | None = None
    model: str | None = None
    usage: msgspec.Raw = NO_RAW


class Node(msgspec.Struct, rename="camel", gc=False):
    """One line. The names are those of the file; ``number`` and ``raw`` are set by the reader."""

    type: str = ""
    uuid: str | None = None
    parent_uuid: str | None = None
    logical_parent_uuid: str | None = None
    session_id: str | None = None
    timestamp: str | None = None
    message: WireMessage | None = None
    is_sidechain: bool | None = None
    agent_id: str | None = None
    team_name: str | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    source_tool_use_id: str | None = msgspec.field(default=None, name="sourceToolUseID")
    cwd: str | None = None
    subtype: str | None = None
    content: JSON = None
    level: str | None = None
    error: msgspec.Raw = NO_RAW
    attachment: msgspec.Raw = NO_RAW
    compact_metadata: msgspec.Raw = NO_RAW
    wire_metadata: msgspec.Raw = msgspec.field(default=NO_RAW, name="compact_metadata")
    microcompact_metadata: msgspec.Raw = NO_RAW
    custom_title: str | None = None
    ai_title: str | None = None
    summary: str | None = None
    number: int = msgspec.field(default=0, name=f"{OURS}number")
    raw: bytes = msgspec.field(default=b"", name=f"{OURS}raw")

    @property
    def is_message(self) -> bool:
        """Whether the line is something said: each of these becomes an entry."""
        return self.type == "user" or self.type == "assistant"

    @property
    def is_boundary(self) -> bool:
        """Whether a full compaction stands here."""
        return self.subtype == BOUNDARY and self.type == "system"


_decode_node = msgspec.json.Decoder(Node).decode
_decode_message = msgspec.json.Decoder(WireMessage).decode


@dataclass(slots=True)
class Lines:
    """A file's lines: those of the chains in file order, the others, and what was put right."""

    nodes: list[Node] = field(default_factory=list)
    other: list[OtherRecord] = field(default_factory=list)
    repairs: list[tuple[int, str]] = field(default_factory=list)
    """Line and words for everything that was not as it should be and could be read all the same."""
    place: dict[str, int] = field(default_factory=dict)
    """uuid -> place in ``nodes`` of its last line."""
    title: str = ""

    def repair(self, line: int, why: str) -> None:
        """Note what was put right."""
        self.repairs.append((line, why))


def read_lines(source: Source) -> Lines:
    """All lines, decoded; what is no JSON object is listed as bad in the source."""
    lines = Lines()
    for number, data in source.lines():
        try:
            node = _decode_node(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            tolerated = _tolerant(data, number, source, lines)
            if tolerated is None:
                continue
            node = tolerated
        node.number = number
        node.raw = data
        if node.type in CHAIN_TYPES:
            _sort_in(node, source, lines)
        else:
            lines.title = node.custom_title or lines.title or node.ai_title or node.summary or ""
            lines.other.append(OtherRecord(number, data))
    return lines


def _sort_in(node: Node, source: Source, lines: Lines) -> None:
    """Take a line of a chain type into the nodes, or see that it is a copy or holds nothing."""
    if node.is_message and node.message is None:
        source.bad(node.number, f"a line of type {node.type!r} without a message")
        return
    uuid = node.uuid
    if not uuid:
        if not node.is_message and not node.is_boundary:
            lines.other.append(OtherRecord(node.number, node.raw))
            return
        node.uuid = uuid = f"line{node.number}"
        lines.repair(node.number, "no uuid: named after its line")
    earlier = lines.place.get(uuid)
    if earlier is not None:
        first = lines.nodes[earlier]
        if first.raw == node.raw or (first.type, first.message, first.content) == (node.type, node.message, node.content):
            lines.repair(node.number, f"the same as line {first.number} (uuid {uuid}): left out")
            lines.other.append(OtherRecord(node.number, node.raw))
            return
        lines.repair(node.number, f"has the uuid of line {first.number} ({uuid}) and other content: kept under a new id")
    lines.place[uuid] = len(lines.nodes)
    lines.nodes.append(node)


def _tolerant(data: bytes, number: int, source: Source, lines: Lines) -> Node | None:
    """A line that is not strict JSON, or whose fields have other types: read without those fields. None: bad."""
    try:
        value = loads(data)
    except ValueError as error:
        source.bad(number, str(error))
        return None
    if not isinstance(value, dict):
        source.bad(number, f"a {type(value).__name__} where an object was expected")
        return None
    dropped: list[str] = []
    message = value.get("message")
    if isinstance(message, dict):
        value = {**value, "message": _fitting(message, WireMessage, dropped)}
    fitting = _fitting(value, Node, dropped)
    if dropped:
        lines.repair(number, f"of an unexpected type and passed over: {', '.join(dropped)}")
    return _decode_node(msgspec.json.encode(fitting))


def _fitting(value: Mapping[str, JSON], struct: type[msgspec.Struct], dropped: list[str]) -> Object:
    """The fields that are known and have the type expected of them."""
    decode = _decode_message if struct is WireMessage else _decode_node
    kept: Object = {}
    for name in (known.encode_name for known in msgspec.structs.fields(struct)):
        if name not in value or name.startswith(OURS):
            continue
        try:
            decode(msgspec.json.encode({name: value[name]}))
            kept[name] = value[name]
        except (msgspec.MsgspecError, ValueError, RecursionError):
            dropped.append(name)
    return kept
