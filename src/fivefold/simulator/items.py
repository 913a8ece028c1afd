"""OpenAI's messages and items: counted, and known by their bytes, so that a growing history is tokenised once."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any, NamedTuple

import msgspec

from ..core.media import image_size, image_tokens
from .refusal import Object, openai_invalid
from .shapes import Item as Shape
from .shapes import misfit
from .tokens import MESSAGE_TOKENS, Counter

_BOUND = 100_000


class Item(NamedTuple):
    """A message or an item. ``kind`` is its role in Chat Completions, its type in Responses."""

    kind: str
    value: Object
    tokens: int
    digest: bytes


class ItemReader:
    """Reads messages and items for one model; each is decoded and counted once."""

    def __init__(self, counter: Counter, image_cap: int) -> None:
        self._counter = counter
        self._cap = image_cap
        self._known: dict[bytes, Item] = {}

    def read(self, raw: msgspec.Raw) -> Item:
        """An item as it stands in the request. Raises Refused where it is none."""
        key = blake2b(memoryview(raw), digest_size=16).digest()
        item = self._known.get(key)
        if item is None:
            if len(self._known) >= _BOUND:
                for old in list(self._known)[: _BOUND // 2]:
                    del self._known[old]
            value = msgspec.json.decode(raw)
            if wrong := misfit(value, Shape):
                raise openai_invalid(f"Invalid type for '{wrong[0]}' of a message or item: {wrong[1]}.", code="invalid_type")
            item = self._known[key] = self.item(value)
        return item

    def item(self, value: Object) -> Item:
        """An item that was not read from a request."""
        kind = str(value.get("type") or "message") if "type" in value or "role" not in value else str(value["role"])
        plain = {key: part for key, part in value.items() if key not in ("id", "status", "annotations", "logprobs")}
        return Item(kind, value, self._tokens(value), blake2b(msgspec.json.encode(plain, order="sorted"), digest_size=16).digest())

    def _tokens(self, value: Object) -> int:
        counter = self._counter
        if value.get("type") == "compaction":
            return counter.count(summary_of(value) or "")
        if value.get("type") == "reasoning":
            return 0  # it is not shown again once the turn is over, and the simulator keeps no text of it
        total = MESSAGE_TOKENS + self._content(value.get("content")) + self._content(value.get("output"))
        calls = [
            call["function"] for call in value.get("tool_calls") or () if isinstance(call, dict) and isinstance(call.get("function"), dict)
        ]
        for call in (*calls, value):
            total += counter.count(str(call.get("name") or "")) + counter.count(str(call.get("arguments") or ""))
        return total

    def _content(self, content: Any) -> int:
        if isinstance(content, str):
            return self._counter.count(content)
        return sum(self._part(part) for part in content if isinstance(part, dict)) if isinstance(content, list) else 0

    def _part(self, part: Object) -> int:
        given = part.get("image_url")
        url = given.get("url") if isinstance(given, dict) else given
        if isinstance(url, str):
            return image_tokens(image_size(url.partition("base64,")[2]) if url.startswith("data:") else None, self._cap)
        text = part.get("text") if isinstance(part.get("text"), str) else part.get("refusal")
        return self._counter.count(text) if isinstance(text, str) else self._counter.count_json(part)


def summary_of(item: Object) -> str | None:
    """The text that a compaction item of this simulator stands for."""
    content = item.get("encrypted_content")
    return content.partition(":")[2] if isinstance(content, str) and content.startswith(("all:", "rest:")) else None
