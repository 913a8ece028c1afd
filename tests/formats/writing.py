"""What the tests of the writers share: recorded conversations, a fold over one, and reading back what was written."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fivefold.core.entries import SHOWN_AS, Boundary, Entry, Fold, Head, HideSpan, HideThinking, ReplaceBlocks, Target
from fivefold.core.log import Log
from fivefold.core.messages import Block, Message, Text, ToolResult
from fivefold.core.pairing import legal_cuts
from fivefold.core.repair import outgoing
from fivefold.core.transcript import Transcript
from fivefold.core.view import View, view_of
from fivefold.formats.registry import read_transcript
from fivefold.formats.write import Target as To
from fivefold.formats.write import render
from tests.corpus import DATA, samples

EXAMPLE = Path(__file__).parents[2] / "examples" / "session.jsonl"
SAMPLES = [*(sample.path for sample in samples() if sample.path.is_relative_to(DATA)), EXAMPLE]
"""Recorded sessions of every format."""
SUMMARY = "Summary: the work so far."
_read: dict[Path, Transcript] = {}


def name_of(path: Path) -> str:
    return f"{path.parent.name}/{path.name}"


def read(path: Path) -> Transcript:
    if path not in _read:
        _read[path] = read_transcript(path)
    return _read[path]


def folded(log: Log, keep: int = 12) -> Log:
    """The log with all but about ``keep`` entries behind a summary, two of the kept results cleared and the thinking hidden."""
    shown = view_of(log).shown()
    cuts = legal_cuts([item.entry for item in shown])
    at = next((i for i in range(len(shown) - keep, len(shown)) if i > 0 and cuts[i] and shown[i - 1].side == 0), 0)
    if not at:
        return log
    tail = [item.entry for item in shown[at:]]
    results = [Target(entry.id, i) for entry in tail for i, block in enumerate(entry.blocks) if isinstance(block, ToolResult)]
    stand_ins = (
        Entry(id="b-fold", kind="boundary", boundary=Boundary("auto", 150_000, 20_000)),
        Entry(id="s-fold", kind="user", blocks=(Text(SUMMARY),), bare=True, summary=True),
    )
    cleared = (ReplaceBlocks(tuple(results[:2])),) if results else ()
    changes = (HideSpan(shown[at - 1].entry.id, None, stand_ins), *cleared, HideThinking(tail[-1].id))
    return log.append(Fold(id="fold", level="auto", changes=changes))


def views() -> Iterator[tuple[str, Path, Head, Log, View]]:
    """Each recorded conversation as it was and folded, where there is enough of it."""
    for path in SAMPLES:
        for number, conversation in enumerate(read(path).conversations):
            log = conversation.log
            for what, grown in (("as read", log), ("folded", folded(log, max(3, len(log) // 2)) if len(log) > 8 else log)):
                if (what == "as read" or grown is not log) and messages_of(log.head, view_of(grown)):
                    yield f"{name_of(path)} {number} {what}", path, log.head, grown, view_of(grown)


def messages_of(head: Head, view: View) -> tuple[Message, ...]:
    """What a provider of Anthropic's kind is sent."""
    return outgoing(list(view.sent()), foreign=head.wire not in ("", "anthropic")).messages


def said(view: View) -> list[tuple[str, tuple[Block, ...]]]:
    """Role and blocks of everything shown that is sent."""
    return [(SHOWN_AS[entry.kind], entry.blocks) for entry in view.sent() if entry.blocks]


def written(log: Log, to: To, *, head: Head | None = None, lines: list[bytes] | None = None, now: float | None = None) -> bytes:
    return render(head or log.head, log, view_of(log), to, source_lines=lines, now=now)


def document(log: Log, to: To, head: Head | None = None) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(written(log, to, head=head))
    return found


def reread(data: bytes, folder: Path) -> Transcript:
    path = folder / "written"
    path.write_bytes(data)
    return read_transcript(path)
