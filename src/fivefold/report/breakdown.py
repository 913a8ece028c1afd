"""What fills the view: tokens by kind, by tool, by file, and the largest entries."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ..core.entries import Entry
from ..core.estimate import Measure
from ..core.messages import (
    Block,
    Compaction,
    Document,
    Image,
    RedactedThinking,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    result_text,
)
from ..core.pairing import pair
from ..core.tools import file_of
from .model import Large, Part

BlockSize = Callable[[Block], int]
LARGEST = 10
FILES = 20


class _Item(NamedTuple):
    """One block of the view, with what is to be told of it."""

    entry: int
    kind: str
    tool: str | None
    file: str | None
    tokens: int
    call: bool


class Breakdown(NamedTuple):
    """The tables of a view."""

    by_kind: dict[str, Part]
    by_tool: dict[str, Part]
    by_file: dict[str, Part]
    largest: tuple[Large, ...]


def break_down(
    entries: Sequence[Entry], measures: Sequence[Measure], size_of: BlockSize, used: int, overhead: int, cwd: str | None
) -> Breakdown:
    """The tables of a view that measures ``used`` tokens, ``overhead`` of them system prompt and tools; ``measures`` are the
    entries', ``size_of`` measures the blocks of those that have several.

    Estimates of the blocks are scaled to what is known of the whole, so that the parts add up to it.
    """
    items = list(_items(entries, measures, size_of, cwd))
    total = sum(item.tokens for item in items)
    scale = max(0, used - overhead) / total if total else 0.0
    kinds = [(item.kind, item.tokens * scale, 1) for item in items]
    if overhead > 0:
        kinds.append(("system prompt and tools", float(overhead), 1))
    tools = [(item.tool, item.tokens * scale, int(item.call)) for item in items if item.tool is not None]
    files = [(item.file, item.tokens * scale, int(item.call)) for item in items if item.file is not None]
    return Breakdown(_table(kinds, used), _table(tools, used), _table(files, used, FILES), _largest(entries, items, scale, cwd))


def _table(rows: Sequence[tuple[str, float, int]], used: int, most: int = 1000) -> dict[str, Part]:
    sums: dict[str, list[float]] = {}
    for name, tokens, count in rows:
        row = sums.setdefault(name, [0.0, 0.0])
        row[0] += tokens
        row[1] += count
    ordered = sorted(sums.items(), key=lambda item: (-item[1][0], item[0]))[:most]
    return {name: Part(round(tokens), int(count), round(tokens / used, 4) if used else 0.0) for name, (tokens, count) in ordered}


def _items(entries: Sequence[Entry], measures: Sequence[Measure], size_of: BlockSize, cwd: str | None) -> Iterator[_Item]:
    calls: dict[tuple[int, int], ToolUse] = {}
    for found in pair(entries).pairs:
        block = entries[found.call.entry].blocks[found.call.block]
        if isinstance(block, ToolUse):
            calls[found.result.entry, found.result.block] = block
    for i, entry in enumerate(entries):
        if entry.kind in ("note", "boundary"):
            continue
        for j, block in enumerate(entry.blocks):
            call = block if isinstance(block, ToolUse | ServerToolUse) else calls.get((i, j))
            path = None if call is None else file_of(call)
            tool = None if call is None else call.name
            if tool is None and isinstance(block, ToolResult | ServerToolResult):
                tool = "(no call)"
            tokens = measures[i].tokens if len(entry.blocks) == 1 else size_of(block)
            yield _Item(i, _kind(entry, block), tool, path and shorten(path, cwd), tokens, isinstance(block, ToolUse | ServerToolUse))


def _kind(entry: Entry, block: Block) -> str:
    match block:
        case Thinking() | RedactedThinking():
            return "thinking"
        case ToolUse() | ServerToolUse():
            return "tool calls"
        case ToolResult() | ServerToolResult():
            return "tool results"
        case Image() | Document():
            return "images and documents"
        case Compaction():
            return "summaries"
        case _:
            return _text_kind(entry)


def _text_kind(entry: Entry) -> str:
    if entry.summary:
        return "summaries"
    match entry.kind:
        case "assistant":
            return "assistant text"
        case "system":
            return "system text"
        case "attachment":
            return "attachments"
        case _:
            return "harness text" if entry.meta else "user text"


def _largest(entries: Sequence[Entry], items: Sequence[_Item], scale: float, cwd: str | None) -> tuple[Large, ...]:
    sums: dict[int, int] = {}
    for item in items:
        sums[item.entry] = sums.get(item.entry, 0) + item.tokens
    heaviest = {
        i: max((item for item in items if item.entry == i), key=lambda item: item.tokens)
        for i in sorted(sums, key=lambda i: (-sums[i], i))[:LARGEST]
    }
    return tuple(
        Large(
            entries[i].id,
            entries[i].line,
            item.kind,
            item.tool,
            item.file if item.tokens * 2 > sums[i] else None,
            round(sums[i] * scale),
            preview(entries[i], cwd),
        )
        for i, item in heaviest.items()
    )


def preview(entry: Entry, cwd: str | None = None, width: int = 100) -> str:
    """The first words of an entry, on one line; paths as seen from ``cwd``."""
    folder = cwd.rstrip("/") + "/" if cwd else ""
    for block in entry.blocks:
        match block:
            case Text(text) | Thinking(text):
                words = text
            case ToolResult():
                words = result_text(block)
            case ToolUse(_, name, input):
                words = f"{name} {input}"
            case Image():
                words = "[image]"
            case _:
                words = ""
        words = words[: width * 4]
        line = " ".join((words.replace(folder, "") if folder else words).split())
        if line:
            return line if len(line) <= width else line[: width - 1] + "…"
    return ""


def shorten(path: str, cwd: str | None) -> str:
    """A path as seen from the agent's working directory, for display and for counting two spellings as one."""
    return path[len(cwd.rstrip("/")) + 1 :] if cwd and path.startswith(cwd.rstrip("/") + "/") else path
