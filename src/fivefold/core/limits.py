"""Rules that hold for a request as a whole: unique tool ids, image limits, cache marks, its end (I3, I4, I5, I10, R4)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from .economics import MediaLimits
from .media import image_size
from .messages import Block, Image, Text, Thinking, ToolResult, ToolUse
from .turns import Findings, Piece, Turn

MAX_CACHE_MARKS = 4
IMAGE_LIMITS = MediaLimits(max_items=600, max_side=8000, many_items=21, many_side=2000, max_image_bytes=10_000_000)
"""Anthropic's, where a model's own are not known: over 20 images the limit of a side falls (its vision page)."""


def unique_ids(turns: list[Turn], findings: Findings) -> None:
    """Give a tool id that was used before a running number, in the call and in its result (I4, I10)."""
    used: set[str] = set()
    for i, turn in enumerate(turns):
        if turn.role != "assistant":
            continue
        for k, (entry, block) in enumerate(turn.pieces):
            if not isinstance(block, ToolUse):
                continue
            id = block.id
            if id in used:
                id = _free_id(id, used)
                findings.add("I4", entry, f"tool id {block.id} is used again", f"sent as {id}")
                turn.pieces[k] = Piece(entry, msgspec.structs.replace(block, id=id))
                _rename_result(turns[i + 1] if i + 1 < len(turns) else None, block.id, id, k, turn)
            used.add(id)


def _rename_result(answer: Turn | None, old: str, new: str, index: int, turn: Turn) -> None:
    """The result that answers the call at ``index``: of equal ids in one answer the calls before it come first."""
    if answer is None:
        return
    nth = sum(isinstance(piece.block, ToolUse) and piece.block.id == old for piece in turn.pieces[:index])
    places = [i for i, piece in enumerate(answer.results) if isinstance(piece.block, ToolResult) and piece.block.tool_use_id == old]
    if nth < len(places):
        entry, block = answer.results[places[nth]]
        if isinstance(block, ToolResult):
            answer.results[places[nth]] = Piece(entry, msgspec.structs.replace(block, tool_use_id=new))


def limit_images(turns: list[Turn], limits: MediaLimits, findings: Findings) -> None:
    """A text in place of each image that is larger than the provider takes, and of the oldest ones over its number (R4)."""
    images = [part for turn in turns for piece in turn.all() for part in _parts(piece.block) if isinstance(part, Image)]
    if not images:
        return
    side = limits.many_side if len(images) >= limits.many_items else limits.max_side
    surplus = max(0, len(images) - limits.max_items)
    stubs = {
        id(image): why for i, image in enumerate(images) if (why := "one of too many" if i < surplus else _too_large(image, side, limits))
    }

    def stubbed(part: Block) -> Block:
        return Text(f"[image left out: {stubs[id(part)]}]") if id(part) in stubs else part

    for turn in turns if stubs else ():
        for pieces in (turn.results, turn.pieces):
            for i, (entry, block) in enumerate(pieces):
                for why in (stubs[id(part)] for part in _parts(block) if id(part) in stubs):
                    findings.add("R4", entry, f"image: {why}", "a text says what was there")
                pieces[i] = Piece(entry, _map_parts(block, stubbed))


def _too_large(image: Image, side: int, limits: MediaLimits) -> str | None:
    data = image.source.get("data")
    if not isinstance(data, str):
        return None
    if len(data) > limits.max_image_bytes:
        return f"{len(data):,} bytes, over the limit of {limits.max_image_bytes:,}"
    size = image_size(data)
    if size is not None and max(size) > side:
        return f"{size.width} x {size.height} px, over the limit of {side} px a side"
    return None


def limit_marks(turns: list[Turn], findings: Findings) -> None:
    """At most four cache marks, the last ones, none on thinking (I5)."""
    marked = [
        (pieces, i) for turn in turns for pieces in (turn.results, turn.pieces) for i, piece in enumerate(pieces) if _is_marked(piece.block)
    ]
    on_thinking = [(pieces, i) for pieces, i in marked if isinstance(pieces[i].block, Thinking)]
    others = [(pieces, i) for pieces, i in marked if not isinstance(pieces[i].block, Thinking)]
    for pieces, i in on_thinking + (others[:-MAX_CACHE_MARKS] if len(others) > MAX_CACHE_MARKS else []):
        entry, block = pieces[i]
        findings.add("I5", entry, "cache mark on thinking, or more than four", "left out")
        pieces[i] = Piece(entry, _unmarked(block))


def strip_end(turn: Turn, findings: Findings) -> None:
    """No trailing white space in a final assistant text (I3)."""
    entry, block = turn.pieces[-1]
    if isinstance(block, Text) and block.text != block.text.rstrip():
        findings.add("I3", entry, "the final assistant text ends with white space", "taken off")
        turn.pieces[-1] = Piece(entry, msgspec.structs.replace(block, text=block.text.rstrip()))


def _free_id(id: str, used: set[str]) -> str:
    number = 2
    while f"{id}_{number}" in used:
        number += 1
    return f"{id}_{number}"


def _parts(block: Block) -> tuple[Block, ...]:
    """A block, or the parts of a tool result that has some."""
    return block.content if isinstance(block, ToolResult) and isinstance(block.content, tuple) else (block,)


def _map_parts(block: Block, change: Callable[[Block], Block]) -> Block:
    if not isinstance(block, ToolResult) or not isinstance(block.content, tuple):
        return change(block)
    parts = tuple([change(part) for part in block.content])
    return block if parts == block.content else msgspec.structs.replace(block, content=parts)


def _is_marked(block: Block) -> bool:
    match block:
        case Text(extra=extra) | Thinking(extra=extra) | ToolUse(extra=extra) | ToolResult(extra=extra):
            return "cache_control" in extra
        case _:
            return False


def _unmarked(block: Block) -> Block:
    match block:
        case Text(extra=extra) | Thinking(extra=extra) | ToolUse(extra=extra) | ToolResult(extra=extra):
            return msgspec.structs.replace(block, extra={key: value for key, value in extra.items() if key != "cache_control"})
        case _:
            return block
