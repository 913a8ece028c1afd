"""Short ways to write entries in tests."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from fivefold.core.entries import Entry, Kind
from fivefold.core.messages import Block, Message, Text, ToolResult, ToolUse, encode_message

DATA = Path(__file__).parent / "data"

_spec = importlib.util.spec_from_file_location("invariants", DATA / "checks" / "invariants.py")
assert _spec is not None and _spec.loader is not None
invariants: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(invariants)


def refused(messages: Sequence[Message], *, open_end: bool = True) -> list[str]:
    """What the independent validator says against a request."""
    return list(invariants.check([encode_message(m) for m in messages], allow_pending=open_end, strict_alternation=True))


def user(id: str, *blocks: Block | str, **more: Any) -> Entry:
    return entry(id, "user", *blocks, **more)


def assistant(id: str, *blocks: Block | str, **more: Any) -> Entry:
    return entry(id, "assistant", *blocks, **more)


def entry(id: str, kind: Kind, *blocks: Block | str, **more: Any) -> Entry:
    return Entry(id=id, kind=kind, blocks=tuple(Text(b) if isinstance(b, str) else b for b in blocks), **more)


def call(id: str, name: str = "Bash", **input: Any) -> ToolUse:
    return ToolUse(id, name, input)


def result(id: str, content: Any = "done") -> ToolResult:
    return ToolResult(id, content)
