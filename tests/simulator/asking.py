"""What the simulator's tests share: a client for a simulator, bodies and images made small."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import openai

from fivefold.simulator.serve import Simulator

MODEL = "claude-opus-5-5"
OLD = "claude-haiku-4-5"


class Clock:
    """A clock that moves when it is told to."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@contextmanager
def client_of(sim: Simulator, **options: Any) -> Iterator[anthropic.Anthropic]:
    """The official client, which does not try again by itself."""
    with anthropic.Anthropic(base_url=sim.url, api_key="key", **{"max_retries": 0, **options}) as client:
        yield client


@contextmanager
def openai_of(sim: Simulator, **options: Any) -> Iterator[openai.OpenAI]:
    """The official client, which does not try again by itself."""
    with openai.OpenAI(base_url=f"{sim.url}/v1", api_key="key", **{"max_retries": 0, **options}) as client:
        yield client


def user(*content: Any) -> dict[str, Any]:
    """A user message: a text alone, or blocks; texts become text blocks."""
    return {"role": "user", "content": content[0] if len(content) == 1 and isinstance(content[0], str) else blocks(content)}


def assistant(*content: Any) -> dict[str, Any]:
    """An assistant message, as ``user``."""
    return {**user(*content), "role": "assistant"}


def blocks(content: tuple[Any, ...]) -> list[Any]:
    return [text(part) if isinstance(part, str) else part for part in content]


def text(value: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": value, **more}


def use(id: str, name: str = "bash", **given: Any) -> dict[str, Any]:
    """A tool call."""
    return {"type": "tool_use", "id": id, "name": name, "input": given}


def result(id: str, content: Any = "ok", **more: Any) -> dict[str, Any]:
    """Its result."""
    return {"type": "tool_result", "tool_use_id": id, "content": content, **more}


def png(width: int, height: int, chars: int = 0) -> dict[str, Any]:
    """An image block of this size; its pixels are not there. ``chars``: of its base64, at least."""
    head = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + width.to_bytes(4, "big") + height.to_bytes(4, "big") + b"\x08\x02\0\0\0"
    data = base64.b64encode(head.ljust(chars * 3 // 4, b"\0")).decode()
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}


MARK = {"cache_control": {"type": "ephemeral"}}
LONG_MARK = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
TOOL = {"name": "bash", "description": "Run a command.", "input_schema": {"type": "object", "properties": {"command": {"type": "string"}}}}


def words(count: int, word: str = " word") -> str:
    """A text of exactly so many tokens in the o200k vocabulary (one for each word)."""
    return word * count
