"""Message lists that look like OpenAI's or Anthropic's and are of another interface: by what they are told apart."""

from __future__ import annotations

from collections.abc import Mapping

from ..core.messages import JSON
from .fields import list_at

_CONVERSE_PARTS = ("text", "toolUse", "toolResult", "image", "document", "reasoningContent", "cachePoint", "guardContent")
_SDK_PARTS = ("tool-call", "tool-result")


def is_foreign_part(part: Mapping[str, JSON]) -> bool:
    """Whether a content part is of neither API: it names no type, or its text is an object."""
    kind = part.get("type")
    return not isinstance(kind, str) or (kind == "text" and isinstance(part.get("text"), dict))


def is_thread_message(message: Mapping[str, JSON]) -> bool:
    """A message of OpenAI's Assistants API."""
    return message.get("object") == "thread.message"


def is_converse_message(message: Mapping[str, JSON]) -> bool:
    """A message of Amazon Bedrock's Converse API: its parts have the name of their kind as the key."""
    parts = list_at(message, "content")
    return message.get("role") in ("user", "assistant") and any(
        isinstance(part, dict) and "type" not in part and any(key in part for key in _CONVERSE_PARTS) for part in parts
    )


def is_sdk_message(message: Mapping[str, JSON]) -> bool:
    """A message of Vercel's AI SDK that holds a call or a result."""
    return "role" in message and any(isinstance(part, dict) and part.get("type") in _SDK_PARTS for part in list_at(message, "content"))
