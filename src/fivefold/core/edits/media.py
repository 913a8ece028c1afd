"""Images and documents that a provider refused, replaced by a text that says what was there (R4, R8)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..entries import Entry, ReplaceBlocks, Target
from ..media import image_size
from ..messages import Block, Document, Image, Message, Object, ToolResult
from ..rejection import Rejection
from ..repair import outgoing
from ..turns import Family
from ..view import Shown, View


class Medium(NamedTuple):
    """One image or document of a view."""

    target: Target
    block: Image | Document
    bytes: int
    side: int | None
    """Its longer side in pixels, where it can be read."""


def media_of(shown: Iterable[Shown]) -> list[Medium]:
    """All images and documents, oldest first, those inside results too."""
    found = []
    for item in shown:
        if item.edits.texts or item.edits.thinking_hidden:
            blocks: Sequence[tuple[int, Block]] = list(_still_there(item))
        else:
            blocks = list(enumerate(item.entry.blocks))
        for index, block in blocks:
            for part, inner in _parts(block):
                if isinstance(inner, Image | Document):
                    found.append(_medium(Target(item.entry.id, index, part), inner))
    return found


def _still_there(item: Shown) -> Iterable[tuple[int, Block]]:
    """The blocks of an edited entry with their places in the original."""
    hidden = 0
    for index, block in enumerate(item.original.blocks):
        at = index - hidden
        if at < len(item.entry.blocks) and type(item.entry.blocks[at]) is type(block):
            yield index, item.entry.blocks[at]
        elif (index, None) not in item.edits.texts:
            hidden += 1


def _parts(block: Block) -> Iterable[tuple[int | None, Block]]:
    if isinstance(block, ToolResult):
        return list(enumerate(block.content)) if isinstance(block.content, tuple) else []
    return [(None, block)]


def _medium(target: Target, block: Image | Document) -> Medium:
    data = block.source.get("data")
    size = image_size(data) if isinstance(block, Image) and isinstance(data, str) else None
    return Medium(target, block, len(data) if isinstance(data, str) else 0, None if size is None else max(size))


def refused(view: View, rejection: Rejection, *, family: Family, attempt: int) -> list[Medium]:
    """The media that a refusal means. Where it names places, those; where it names a side, all that are longer; else the
    largest, at the next attempt half of them, then all (the largest and oldest first)."""
    found = media_of(view.shown())
    named = _named(list(view.sent()), rejection, family)
    if named:
        meant = [medium for medium in found if any(medium.block.source is source or medium.block.source == source for source in named)]
        limit = rejection.max_side
        return [m for m in found if m in meant or (limit is not None and m.side is not None and m.side > limit)] if limit else meant
    if rejection.max_side is not None:
        over = [medium for medium in found if medium.side is None or medium.side > rejection.max_side]
        if over:
            return over
    count = (1, (len(found) + 1) // 2, len(found))[min(attempt, 2)]
    return largest_first(view.shown())[:count]


def largest_first(shown: Iterable[Shown]) -> list[Medium]:
    """All media, the largest first, of equal ones the oldest."""
    return sorted(media_of(shown), key=lambda medium: -medium.bytes)


def _named(entries: Sequence[Entry], rejection: Rejection, family: Family) -> list[Object]:
    """The sources of the media at the places that a refusal names, in the request as it is sent."""
    if not rejection.places:
        return []
    messages = outgoing(entries, family=family).messages
    return [source for place in rejection.places if (source := _source_at(messages, place)) is not None]


def _source_at(messages: Sequence[Message], place: tuple[int, ...]) -> Object | None:
    if len(place) < 2 or not 0 <= place[0] < len(messages) or not 0 <= place[1] < len(messages[place[0]].blocks):
        return None
    block = messages[place[0]].blocks[place[1]]
    if isinstance(block, ToolResult) and isinstance(block.content, tuple) and block.content:
        images = [part for part in block.content if isinstance(part, Image | Document)]
        at = place[2] if len(place) > 2 else 0
        part = block.content[at] if 0 <= at < len(block.content) else block.content[0]
        block = part if isinstance(part, Image | Document) else (images[0] if images else part)
    return block.source if isinstance(block, Image | Document) else None


def for_bytes(view: View, surplus: int) -> list[Medium]:
    """The largest and oldest media that together hold ``surplus`` bytes, or all (R8)."""
    found = media_of(view.shown())
    chosen: list[int] = []
    for i in sorted(range(len(found)), key=lambda i: (-found[i].bytes, i)):
        if surplus <= 0:
            break
        chosen.append(i)
        surplus -= found[i].bytes
    return [found[i] for i in sorted(chosen)]


def stubbed(media: Sequence[Medium], why: str) -> ReplaceBlocks | None:
    """The change that shows a text instead of each; None where there are none."""
    if not media:
        return None
    return ReplaceBlocks(tuple(medium.target for medium in media), tuple(stub(medium, why) for medium in media))


def stub(medium: Medium, why: str) -> str:
    """What was there, in a line: kind, name, size, so that it can be looked at again."""
    block = medium.block
    kind = "image" if isinstance(block, Image) else "document"
    name = block.extra.get("title") or block.source.get("filename") or block.source.get("path") or ""
    facts = [str(name)] if isinstance(name, str) and name else []
    if isinstance(media_type := block.source.get("media_type"), str):
        facts.append(media_type)
    if medium.side is not None:
        facts.append(f"{medium.side} px on its longer side")
    if medium.bytes:
        facts.append(f"{medium.bytes:,} bytes")
    return f"[{kind} left out: {', '.join([*facts, why])}]"
