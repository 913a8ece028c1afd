"""What passes between the query loop and whoever calls a model: the request with its settings, parts as they arrive, the whole reply.

Everything may be plain or a coroutine; the async loop awaits what can be awaited, and runs plain calls in a thread. A refusal comes
back as a value (``Rejection``), so that the loop can decide on it; what is raised instead is no refusal and ends the turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Literal, Protocol, TypeAlias, TypeVar

import msgspec

from .core.actions import Send
from .core.entries import Usage
from .core.messages import JSON, Block, Object, Thinking, ToolUse
from .core.rejection import Rejection
from .core.repair import Request

T = TypeVar("T")
MaybeAwaitable: TypeAlias = T | Awaitable[T]


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One request to a model."""

    request: Request
    """System prompt and messages, repaired."""
    send: Send
    """How it is to be sent: output limit, server-side edits, cache edits, whether thinking may be dropped."""
    model: str
    tools: tuple[Object, ...] = ()
    """Schemas as the provider takes them."""
    system: tuple[Block, ...] = ()
    """The conversation's own system prompt (``Head.system``), in front of the request's."""


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of a reply as it arrives. ``index``: of the block it belongs to; ``name``: of the tool, for the first part of a call."""

    kind: Literal["text", "thinking", "call"]
    text: str = ""
    index: int = 0
    name: str = ""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """A whole response."""

    blocks: tuple[Block, ...]
    stop_reason: str
    """The provider's own word."""
    usage: Usage | None = None
    api_id: str | None = None
    model: str | None = None
    context_management: JSON = None
    """What the provider says that it has cleared (E6)."""
    extra: Object = {}
    """Keys of the message itself, which go back to the provider with it (I6)."""
    told: Object = {}
    """What else the response says, as it came: why thinking was dropped (I7), the raw usage, a container. Never sent back."""

    @property
    def calls(self) -> tuple[ToolUse, ...]:
        """The tool calls in it, in order."""
        return tuple(block for block in self.blocks if isinstance(block, ToolUse))

    @property
    def has_content(self) -> bool:
        """Whether anything stands in it beside thinking."""
        return any(not isinstance(block, Thinking) for block in self.blocks)


class Stream(Protocol):
    """A reply that is on its way."""

    def next(self) -> MaybeAwaitable[Part | Reply | Rejection]:
        """The next part; at the end the whole reply, or why there is none."""

    def close(self) -> MaybeAwaitable[None]:
        """Stop listening; does nothing where it has ended."""


CallModel: TypeAlias = Callable[[Call], MaybeAwaitable[Stream | Reply | Rejection]]
"""Sends a request. A ``Reply`` at once, for callers that don't stream."""


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that the agent may call."""

    name: str
    run: Callable[[Object], MaybeAwaitable[object]]
    """Takes the call's input; gives a text, a list of blocks, or anything else, which goes out as JSON. What it raises becomes the text
    of an error result."""
    description: str = ""
    schema: Object = {}
    """JSON schema of the input; empty: an object of anything."""
    concurrent: bool = False
    """May run beside others of the same response."""


__all__ = ["Call", "CallModel", "Part", "Rejection", "Reply", "Stream", "Tool"]
