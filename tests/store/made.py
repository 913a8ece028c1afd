"""Hand-made conversations for the tests of the store."""

from __future__ import annotations

import msgspec

from fivefold.core.entries import (
    Boundary,
    Entry,
    Fold,
    Head,
    HideEntries,
    HideSpan,
    HideThinking,
    Record,
    ReplaceBlocks,
    Target,
    Unfold,
    Usage,
)
from fivefold.core.log import Log
from fivefold.core.messages import Document, Image, Opaque, Text, Thinking, ToolResult, ToolUse

HEAD = Head(id="s1", model="m", system=(Text("be kind"),), tools=({"name": "Bash"},), cwd="/home/user", name="made", extra={"x": [None]})
PICTURE = Image({"type": "base64", "media_type": "image/png", "data": "aGVsbG8="})


def said(id: str, text: str = "hello") -> Entry:
    """A user entry."""
    return Entry(id=id, kind="user", blocks=(Text(text),))


def call(id: str, command: str) -> Entry:
    """An assistant entry with thinking and a call of Bash."""
    blocks = (Thinking("hm", "sig"), ToolUse(f"t{id}", "Bash", {"command": command}))
    return Entry(id=id, kind="assistant", blocks=blocks, api_id=f"api-{id}", usage=Usage(10, 20, 30, 40), model="m", time=1.5)


def answer(id: str, call_id: str, text: str) -> Entry:
    """The result of a call."""
    return Entry(id=id, kind="user", blocks=(ToolResult(f"t{call_id}", text),), time=2.5)


def compaction(id: str, last: str) -> Fold:
    """A fold that hides all up to ``last`` behind a boundary and a summary."""
    boundary = Entry(id=f"{id}-boundary", kind="boundary", boundary=Boundary("auto", 100, 10, last, ("a", "b")))
    summary = Entry(id=f"{id}-summary", kind="user", blocks=(Text(f"the summary of {id}"),), summary=True)
    tail = Entry(id=f"{id}-tail", kind="attachment", blocks=(Text("a file"),), raw=msgspec.Raw(b'{"of" : "tail"}'))
    return Fold(id=id, level="auto", changes=(HideSpan(last, None, (boundary, summary), (tail,)), HideThinking(last)), why="full", time=3.0)


def all_kinds() -> list[Record]:
    """A conversation with each kind of record, block and change in it."""
    odd = (PICTURE, Document({"type": "text", "data": "a document"}), Opaque({"type": "new", "n": None}), Text("", {"cache_control": None}))
    return [
        said("e1", "héllo 世界 😀"),
        call("e2", "ls"),
        answer("e3", "e2", "a\nb\r\n\u2028c\x85d\0"),
        Entry(id="e4", kind="user", blocks=odd, line=7, raw=msgspec.Raw(b'{"uuid" : "e4", "x":null}'), extra={"k": 1}),
        Fold(id="f1", level="micro", changes=(ReplaceBlocks((Target("e3", 0),)),)),
        call("e5", "cat x"),
        answer("e6", "e5", "x" * 5000),
        compaction("f2", "e4"),
        Fold(id="f3", level="snip", changes=(HideEntries(("e6",)),)),
        Unfold(fold="f3", time=9.0),
        said("e7", "go on"),
    ]


def log_of(*records: Record) -> Log:
    """A log under the common head."""
    return Log(HEAD, records)
