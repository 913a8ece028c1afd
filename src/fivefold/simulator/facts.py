"""What is known of one message of a request by itself: its blocks with their tokens, digests, cache marks and media.

A history grows at its end, so nearly all messages of a request have been seen before. They are known by the digest of their bytes:
a message is decoded, checked and tokenised once, however often it is sent.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any, Final, NamedTuple

import msgspec

from ..core.media import document_tokens, image_size, image_tokens, pdf_pages
from .fields import BLOCK_KEYS, MESSAGE_KEYS, RESULT_PARTS
from .refusal import Object
from .seals import Seal, digest_of, seal_of
from .shapes import Block, misfit
from .tokens import MESSAGE_TOKENS, Counter

HERE: Final = "\0"
"""In the text of a fault: where the place of the message, ``messages.N``, goes."""
SERVER_USES: Final = ("server_tool_use", "mcp_tool_use")
_SIMPLE: Final = frozenset(("text", "tool_use", "tool_result", "thinking", "redacted_thinking"))
_USE_ID = re.compile(r"[a-zA-Z0-9_-]+")
_BOUND = 100_000
"""Messages that are kept; the oldest half goes when they are more."""


class Media(NamedTuple):
    """An image or a document. ``place`` is behind the message's: ``.content.1`` or ``.content.0.tool_result.content.2``."""

    kind: str
    place: str
    source: str
    """``base64``, ``url``, ``file``, ``text``."""
    chars: int
    width: int
    height: int
    pages: int


class BlockFacts(NamedTuple):
    """One block. ``digest`` is of all but its cache mark, and of the role; ``mark`` is the lifetime of its mark, or None."""

    kind: str
    value: Object
    tokens: int
    digest: bytes
    mark: str | None
    marks: int
    """Marks in it, those inside of a tool result too."""
    use_id: str
    """The id of a call, or the one that a result answers; else empty."""
    seal: Seal | None = None
    """What the signature of thinking holds."""
    seal_id: str = ""
    whole: bool = True
    """Whether thinking is the one that was signed."""


class MessageFacts(NamedTuple):
    """One message. ``fault``: what is wrong with it by itself, with HERE where its place goes."""

    role: str
    blocks: tuple[BlockFacts, ...]
    value: Object
    fault: str | None
    media: tuple[Media, ...]
    uses: tuple[str, ...]
    """Ids of its client-side calls."""
    results: tuple[str, ...]
    """Ids that its tool results answer, in order."""
    leading: int
    """How many blocks at its start are tool results."""
    simple: bool
    """Whether it holds nothing but text without citations, thinking, calls and results, so that few rules apply."""
    plain: bool
    """Whether it is simple, and without thinking too."""
    marked: bool
    """Whether there is a cache mark in it."""
    key: bytes
    """The digest of its bytes."""


class Reader:
    """Reads messages for one counter and one cap of an image's tokens."""

    def __init__(self, counter: Counter, image_cap: int) -> None:
        self.counter = counter
        self._cap = image_cap
        self._known: dict[bytes, MessageFacts] = {}

    def read(self, raw: msgspec.Raw) -> MessageFacts:
        """The facts of a message as it stands in the request. Raises msgspec.DecodeError where it is no JSON."""
        key = blake2b(memoryview(raw), digest_size=16).digest()
        facts = self._known.get(key)
        if facts is None:
            if len(self._known) >= _BOUND:
                for old in list(self._known)[: _BOUND // 2]:
                    del self._known[old]
            facts = self._known[key] = self._facts(msgspec.json.decode(raw))._replace(key=key)
        return facts

    def block(self, value: Object, role: str) -> BlockFacts:
        """The facts of a block that stands alone: of the system prompt, or one that the server puts in place of another."""
        kind = str(value.get("type"))
        bare = {key: part for key, part in value.items() if key != "cache_control"}
        digest = blake2b(role.encode() + msgspec.json.encode(bare), digest_size=16).digest()
        use_id = value.get("id") if kind.endswith("tool_use") else value.get("tool_use_id")
        use_id = use_id if isinstance(use_id, str) else ""
        facts = BlockFacts(kind, value, self.tokens_of(value), digest, mark_of(value), len(list(marks_in(value))), use_id)
        return _with_seal(facts) if kind in ("thinking", "redacted_thinking") else facts

    def _facts(self, value: Any) -> MessageFacts:
        fault = _shape_fault(value)
        if fault is not None:
            return MessageFacts("", (), {}, fault, (), (), (), 0, False, False, False, b"")
        role, content = value["role"], value["content"]
        values = [{"type": "text", "text": content}] if isinstance(content, str) and content else content or []
        fault = next((found for i, block in enumerate(values) if (found := block_fault(block, role, f"{HERE}.content.{i}"))), None)
        if fault is not None:
            return MessageFacts(role, (), value, fault, (), (), (), 0, False, False, False, b"")
        blocks = [self.block(block, role) for block in values]
        if blocks:
            # Thinking may be left out of what is shown, and its message stays.
            first = next((i for i, block in enumerate(blocks) if block.kind not in ("thinking", "redacted_thinking")), 0)
            blocks[first] = blocks[first]._replace(tokens=blocks[first].tokens + MESSAGE_TOKENS)
        kinds = [block.kind for block in blocks]
        simple = role != "system" and set(kinds) <= _SIMPLE and not any(block.value.get("citations") for block in blocks)
        return MessageFacts(
            role=role,
            blocks=tuple(blocks),
            value=value,
            fault=None,
            media=tuple(media_in(values, "")),
            uses=tuple(block.use_id for block in blocks if block.kind == "tool_use"),
            results=tuple(block.use_id for block in blocks if block.kind == "tool_result"),
            leading=next((i for i, kind in enumerate(kinds) if kind != "tool_result"), len(kinds)),
            simple=simple,
            plain=simple and not any("thinking" in kind for kind in kinds),
            marked=any(block.marks for block in blocks),
            key=b"",
        )

    def tokens_of(self, value: Object) -> int:
        """Tokens of a block, without the frame of its message."""
        match value:
            case {"type": "text", "text": str(text)}:
                return self.counter.count(text)
            case {"type": "thinking", "thinking": str(text), "signature": str(token)}:
                seal = seal_of(token)
                return self.counter.count(text) if seal is None else seal.tokens
            case {"type": "redacted_thinking", "data": str(token)} if seal := seal_of(token):
                return seal.tokens
            case {"type": "tool_use", "name": name, "input": given, "id": id}:
                return self.counter.count(str(id)) + self.counter.count(str(name)) + self.counter.count_json(given)
            case {"type": "tool_result", "tool_use_id": id}:
                return self.counter.count(str(id)) + self._parts(value.get("content"))
            case {"type": "compaction"}:
                return self.counter.count(value.get("content") or "")
            case {"type": "image"} | {"type": "document"}:
                return self._media_tokens(value)
        return self.counter.count_json(value)

    def _parts(self, content: object) -> int:
        if isinstance(content, str):
            return self.counter.count(content)
        return sum(map(self.tokens_of, content)) if isinstance(content, list) else 0

    def _media_tokens(self, value: Object) -> int:
        found = next(media_in([value], ""))
        if found.kind == "image":
            return image_tokens(image_size(value["source"]["data"]) if found.source == "base64" else None, self._cap)
        if found.source == "text":
            return self.counter.count(str(value["source"].get("data")))
        if found.source == "content":
            return self._parts(value["source"].get("content"))
        return document_tokens(found.pages or None, self._cap)


def _with_seal(facts: BlockFacts) -> BlockFacts:
    value = facts.value
    token, text = (value["data"], "") if facts.kind == "redacted_thinking" else (value["signature"], value["thinking"])
    seal = seal_of(token)
    return facts._replace(seal=seal, seal_id=digest_of(token), whole=seal is not None and seal.text == digest_of(text))


def mark_of(value: Object) -> str | None:
    """The lifetime of a block's cache mark: ``5m``, ``1h``; that of a part inside a tool result counts as the result's."""
    return next(iter(marks_in(value)), None)


def marks_in(value: Object) -> Iterator[str]:
    """The cache marks of a block and of the parts inside it."""
    if isinstance(mark := value.get("cache_control"), dict):
        yield mark.get("ttl") or "5m"
    content = value.get("content")
    if value.get("type") == "tool_result" and isinstance(content, list):
        for part in content:
            yield from marks_in(part)


def media_in(values: list[Object], place: str) -> Iterator[Media]:
    """The images and documents of these blocks, those inside tool results too."""
    for i, value in enumerate(values):
        kind, at, source = value.get("type"), f"{place}.content.{i}", value.get("source")
        if kind in ("image", "document") and isinstance(source, dict):
            data = source.get("data")
            chars = len(data) if isinstance(data, str) else 0
            size = image_size(data) if kind == "image" and isinstance(data, str) else None
            pages = (pdf_pages(data) or 0) if kind == "document" and source.get("type") == "base64" and isinstance(data, str) else 0
            yield Media(kind, at, str(source.get("type")), chars, *(size or (0, 0)), pages)
        elif kind == "tool_result" and isinstance(value.get("content"), list):
            yield from media_in(value["content"], f"{at}.tool_result")


# --- what is wrong with a message by itself


def _shape_fault(value: Any) -> str | None:
    if not isinstance(value, dict):
        return f"{HERE}: Input should be a valid dictionary or object to extract fields from"
    for key in ("role", "content"):
        if key not in value:
            return f"{HERE}.{key}: Field required"
    role = value["role"]
    if not isinstance(role, str) or role not in MESSAGE_KEYS:
        return f"{HERE}.role: Input should be 'user', 'assistant' or 'system'"
    for key in value:
        if key not in MESSAGE_KEYS[role]:
            return f"{HERE}.{key}: Extra inputs are not permitted"
    if not isinstance(value["content"], str | list):
        return f"{HERE}.content: Input should be a valid list"
    if isinstance(value["content"], str) and value["content"] and not value["content"].strip():
        return "messages: text content blocks must contain non-whitespace text"
    return None


def block_fault(value: Any, role: str, place: str) -> str | None:
    """What is wrong with a block by itself; ``place`` is its path."""
    if not isinstance(value, dict) or "type" not in value:
        return f"{place}: Input should be a valid dictionary or object to extract fields from"
    kind = value["type"]
    keys = BLOCK_KEYS.get(kind) if isinstance(kind, str) else None
    if keys is None:
        tags = ", ".join(f"'{tag}'" for tag in BLOCK_KEYS)
        return f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}"
    for key in value:
        if key not in keys:
            return f"{place}.{kind}.{key}: Extra inputs are not permitted"
    if wrong := misfit(value, Block):
        return f"{place}.{kind}.{wrong[0]}: {wrong[1]}"
    return _mark_fault(value, f"{place}.{kind}") or _kind_fault(value, kind, role, place)


def _kind_fault(value: Object, kind: str, role: str, place: str) -> str | None:
    match kind:
        case "text":
            return _text_fault(value, place)
        case "tool_use":
            return _use_fault(value, role, place)
        case "tool_result":
            return _result_fault(value, role, place)
        case "thinking" | "redacted_thinking":
            needed = ("thinking", "signature") if kind == "thinking" else ("data",)
            missing = next((key for key in needed if not isinstance(value.get(key), str)), None)
            if missing:
                return f"{place}.{kind}.{missing}: Field required"
            return None if role == "assistant" else f"{HERE}: `{kind}` blocks can only be in `assistant` messages"
        case "image" | "document" if not isinstance(value.get("source"), dict):
            return f"{place}.{kind}.source: Field required"
        case "image" | "document" if value["source"]["type"] in ("base64", "text") and not value["source"].get("data"):
            return f"{place}.{kind}.source.{value['source']['type']}.data: Field required"
        case "compaction" if not isinstance(value.get("content"), str | None):
            return f"{place}.compaction.content: Input should be a valid string"
        case "compaction" if value.get("content") == "":
            return f"{place}.compaction.content: String should have at least 1 character"
    return None


def _text_fault(value: Object, place: str) -> str | None:
    text = value.get("text")
    if not isinstance(text, str):
        return f"{place}.text.text: " + ("Field required" if text is None else "Input should be a valid string")
    if not text:
        if value.get("cache_control"):
            return f"{place}.text: cache_control cannot be set for empty text blocks"
        return "messages: text content blocks must be non-empty"
    return None if text.strip() else "messages: text content blocks must contain non-whitespace text"


def _use_fault(value: Object, role: str, place: str) -> str | None:
    if role != "assistant":
        return f"{HERE}: `tool_use` blocks can only be in `assistant` messages"
    for key in ("id", "name"):
        if not isinstance(value.get(key), str):
            return f"{place}.tool_use.{key}: Field required"
    if not _USE_ID.fullmatch(value["id"]):
        return f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    return None if isinstance(value.get("input"), dict) else f"{place}.tool_use.input: Input should be a valid dictionary"


def _result_fault(value: Object, role: str, place: str) -> str | None:
    if role != "user":
        return f"{HERE}: `tool_result` blocks can only be in `user` messages"
    if not isinstance(value.get("tool_use_id"), str):
        return f"{place}.tool_result.tool_use_id: Field required"
    content = value.get("content")
    if content is None or isinstance(content, str):
        return None
    if not isinstance(content, list):
        return f"{place}.tool_result.content: Input should be a valid list"
    for i, part in enumerate(content):
        at = f"{place}.tool_result.content.{i}"
        if not isinstance(part, dict) or str(part.get("type")) not in RESULT_PARTS:
            return f"{at}: Input should be one of the types {', '.join(sorted(RESULT_PARTS))}"
        if part["type"] != "tool_reference" and (fault := block_fault(part, role, at)):
            return fault
    return None


def _mark_fault(value: Object, place: str) -> str | None:
    mark = value.get("cache_control")
    if mark is None:
        return None
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
        return f"{place}.cache_control.type: Input should be 'ephemeral'"
    if mark.get("ttl") not in (None, "5m", "1h"):
        return f"{place}.cache_control.ttl: Input should be '5m' or '1h'"
    unknown = next((key for key in mark if key not in ("type", "ttl", "scope")), None)
    return f"{place}.cache_control.{unknown}: Extra inputs are not permitted" if unknown else None
