"""The parts of a Responses message's or answer's content: text, images, files."""

from __future__ import annotations

from ..core.messages import JSON, Block, Document, Image, Object, Opaque, Text, encode_block
from .fields import without
from .openai_parts import image_source, source_url

TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})


def decode_part(part: JSON, default: str) -> Block:
    """A block of a content part. ``default``: the text type that needs no mention on the way back."""
    if not isinstance(part, dict):
        return Opaque(part)
    kind = part.get("type")
    if isinstance(kind, str) and kind in TEXTS:
        text = part.get("text")
        if not isinstance(text, str):
            return Opaque(part)
        if len(part) == 2 and kind == default:
            return Text(text)
        return Text(text, without(part, "text", *(("type",) if kind == default else ())))
    match part:
        case {"type": "refusal", "refusal": str(text)}:
            return Text(text, without(part, "refusal"))
        case {"type": "input_image" | "computer_screenshot"}:
            return _decode_image(part)
        case {"type": "input_file"}:
            return _decode_file(part)
        case _:
            return Opaque(part)


def _decode_image(part: Object) -> Block:
    kept = () if part["type"] == "computer_screenshot" else ("type",)
    match part:
        case {"image_url": str(url)}:
            return Image(image_source(url), without(part, "image_url", *kept))
        case {"file_id": str(id)}:
            return Image({"type": "file", "file_id": id}, without(part, "file_id", *kept))
        case _:
            return Opaque(part)


def _decode_file(part: Object) -> Block:
    match part:
        case {"file_data": str(data)} if image_source(data)["type"] == "base64":
            return Document(image_source(data), without(part, "type", "file_data"))
        case {"file_url": str(url)} if image_source(url)["type"] == "url":
            return Document({"type": "url", "url": url}, without(part, "type", "file_url"))
        case {"file_id": str(id)}:
            return Document({"type": "file", "file_id": id}, without(part, "type", "file_id"))
        case _:
            return Opaque(part)


def encode_part(block: Block, default: str) -> JSON:
    """A content part, the inverse of ``decode_part``. A block that has no Responses shape keeps its own."""
    match block:
        case Text(text, extra):
            if extra.get("type") == "refusal":
                return {"refusal": text, **extra}
            return {"type": default, "text": text, **extra}
        case Image(source, extra):
            url = source_url(source)
            return {"type": "input_image", **({"file_id": source.get("file_id")} if url is None else {"image_url": url}), **extra}
        case Document(source, extra):
            return {"type": "input_file", **_file(source), **extra}
        case _:
            return encode_block(block)


def _file(source: Object) -> Object:
    url = source_url(source)
    if url is None:
        return {"file_id": source.get("file_id")}
    return {"file_data": url} if source["type"] == "base64" else {"file_url": url}
