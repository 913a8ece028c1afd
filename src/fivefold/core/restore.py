"""What is put back behind a compaction: files read lately, attachments, hook texts, each within its budget (C2, C3, C5)."""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import NamedTuple

from . import ops
from .edits.shorten import head_and_tail
from .entries import Entry, HideEntries, HideSpan
from .events import RestoredFile
from .log import Log
from .messages import Text, ToolResult, ToolUse
from .pairing import pair
from .state import State
from .tools import file_of, purpose_of
from .view import View
from .window import scaled

READ_AGAIN = "Read the file again for the rest."
SHORTENED = "[… shortened to the room that is kept for it]"


class Read(NamedTuple):
    """A file that was read, and the result that showed it."""

    path: str
    entry: str


def material(log: Log) -> list[Entry]:
    """The entries that a summary is made from and files are put back for: all that was said and not thrown away by a snip or a rewind."""
    gone: set[str] = set()
    spans: list[tuple[int, int]] = []
    for placed in log.folds:
        for change in placed.fold.changes:
            if isinstance(change, HideEntries):
                gone.update(change.ids)
            elif isinstance(change, HideSpan) and not change.stand_ins and placed.fold.level != "server":
                spans.append((0 if change.first is None else log.position(change.first), log.position(change.last)))
    if not gone and not spans:
        return list(log.entries())
    return [
        entry
        for position, entry in enumerate(log.entries(), log.base)
        if entry.id not in gone and not any(low <= position <= high for low, high in spans)
    ]


def recent_files(entries: Sequence[Entry], count: int) -> list[Read]:
    """The files read most recently, the newest first, each once."""
    found: dict[str, str] = {}
    for call, result, _ in sorted(pair(entries).pairs, key=lambda one: one.result, reverse=True):
        use = entries[call.entry].blocks[call.block]
        block = entries[result.entry].blocks[result.block]
        if isinstance(use, ToolUse) and purpose_of(use.name) == "read" and isinstance(block, ToolResult) and not block.is_error:
            path = file_of(use)
            if path is not None:
                found.setdefault(path, entries[result.entry].id)
        if len(found) >= count:
            break
    return [Read(path, entry) for path, entry in found.items()]


def kept_files(view: View, kept_from: int, shrunk: Container[str] = ()) -> set[str]:
    """The files that a part of a view shows in full; ``shrunk``: entries of it that are about to show less."""
    shown = [item for item in view.shown()[kept_from:] if not item.edits.texts and item.entry.id not in shrunk]
    entries = [item.entry for item in shown]
    by_id = {item.entry.id for item in shown}
    return {read.path for read in recent_files(entries, len(entries)) if read.entry in by_id}


def files(state: State, read: Sequence[RestoredFile], share: float, kept: set[str]) -> tuple[RestoredFile, ...]:
    """The files to put back, each and all together within their budgets; a share of them where the ladder asks for less (A8)."""
    policy, window = state.setup.policy.restore, state.setup.window
    wanted = [file for file in read if file.path not in kept][: int(policy.files * share + 0.5)]
    each, left = scaled(policy.file_tokens, window), int(scaled(policy.files_tokens, window) * share)
    chosen = []
    for file in wanted:
        text = _within(state, file.text, min(each, left), READ_AGAIN)
        left -= ops.tokens_of(state, text)
        if left < 0:
            break
        chosen.append(RestoredFile(file.path, text))
    return tuple(chosen)


def texts(state: State, given: Sequence[str], budget: int, *, each: int | None = None) -> tuple[str, ...]:
    """Attachments or hook texts within one budget, in order, ``each`` within its own; what is already verbatim in view is not put
    back twice."""
    window = state.setup.window
    left = scaled(budget, window)
    most = left if each is None else scaled(each, window)
    chosen: list[str] = []
    for text in given:
        if not text.strip() or text in chosen or left <= 0:
            continue
        short = _within(state, text, min(most, left), SHORTENED)
        left -= ops.tokens_of(state, short)
        chosen.append(short)
    return tuple(chosen)


def not_shown(view: View, given: Sequence[str], kept: range | Sequence[int]) -> list[str]:
    """The texts that no kept entry shows verbatim."""
    shown = view.shown()
    seen = "\n".join(_words(shown[i].entry) for i in kept) if given else ""
    return [text for text in given if text.strip() not in seen]


def _words(entry: Entry) -> str:
    return "\n".join(block.text for block in entry.blocks if isinstance(block, Text))


def _within(state: State, text: str, tokens: int, pointer: str) -> str:
    size = ops.tokens_of(state, text)
    return text if size <= tokens else head_and_tail(text, max(1, len(text) * max(0, tokens) // size), pointer)
