"""Rules that hold for a request as a whole: image limits, cache marks, its end (I3, I5, R4)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from .economics import MediaLimits
from .media import image_size
from .messages import Block, Compaction, Image, Object, Opaque, RedactedThinking, Text, Thinking, ToolResult
from .turns import Findings, Piece, Turn

MAX_CACHE_MARKS = 4
IMAGE_LIMITS = MediaLimits(max_items=600, max_side=8000, many_items=21, many_side=2000, max_image_bytes=10_000_000)
"""Anthropic's, where a model's own are not known: over 20 images the limit of a side falls (its vision page)."""


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


def limit_marks(turns: list[Turn], findings: Findings, *, in_system: int = 0) -> None:
    """At most four cache marks with those of the system prompt, the last ones, none on thinking or inside a result (I5)."""
    room = max(0, MAX_CACHE_MARKS - in_system)
    marked: list[tuple[list[Piece], int]] = []
    for turn in turns:
        for pieces in (turn.results, turn.pieces):
            for i, (entry, block) in enumerate(pieces):
                inner = _map_parts(block, unmarked) if isinstance(block, ToolResult) else block
                bare = isinstance(block, Thinking | RedactedThinking) and is_marked(block)
                if inner is not block or bare:
                    findings.add("I5", entry, "cache mark on thinking, or inside a result", "left out")
                    pieces[i] = Piece(entry, unmarked(block) if bare else inner)
                if is_marked(pieces[i].block):
                    marked.append((pieces, i))
    for pieces, i in marked[: max(0, len(marked) - room)]:
        entry, block = pieces[i]
        findings.add("I5", entry, f"more than {MAX_CACHE_MARKS} cache marks", "left out")
        pieces[i] = Piece(entry, unmarked(block))


def strip_end(turn: Turn, findings: Findings) -> None:
    """No trailing white space in a final assistant text (I3)."""
    entry, block = turn.pieces[-1]
    if isinstance(block, Text) and block.text != block.text.rstrip():
        findings.add("I3", entry, "the final assistant text ends with white space", "taken off")
        turn.pieces[-1] = Piece(entry, msgspec.structs.replace(block, text=block.text.rstrip()))


def _parts(block: Block) -> tuple[Block, ...]:
    """A block, or the parts of a tool result that has some."""
    return block.content if isinstance(block, ToolResult) and isinstance(block.content, tuple) else (block,)


def _map_parts(block: Block, change: Callable[[Block], Block]) -> Block:
    if not isinstance(block, ToolResult) or not isinstance(block.content, tuple):
        return change(block)
    parts = tuple([change(part) for part in block.content])
    return block if parts == block.content else msgspec.structs.replace(block, content=parts)


def is_marked(block: Block) -> bool:
    """Whether a block carries a cache mark."""
    return "cache_control" in _keys(block)


def unmarked(block: Block) -> Block:
    """A block without its cache mark; the same object where it has none."""
    keys = _keys(block)
    if "cache_control" not in keys:
        return block
    rest: Object = {key: value for key, value in keys.items() if key != "cache_control"}
    if isinstance(block, Opaque | Compaction):
        return msgspec.structs.replace(block, data=rest)
    return msgspec.structs.replace(block, extra=rest)


def _keys(block: Block) -> Object:
    if isinstance(block, Opaque | Compaction):
        return block.data if isinstance(block.data, dict) else {}
    return block.extra
