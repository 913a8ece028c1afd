"""Tokens of images and documents (T6): the provider's published formula, fed by what the first bytes tell.

An image costs one token for each started 28 x 28 px patch, after it has been scaled down to the model's limits
(Anthropic's vision page: long edge 1568 px and 1568 tokens, from Claude 4.7 on 2576 px and 4784 tokens). A PDF costs
1,500 to 3,000 tokens of text a page and one image a page (its PDF page). Base64 is never counted as text.
"""

from __future__ import annotations

import binascii
import re
import zlib
from typing import NamedTuple

PATCH_PX = 28
"""Side of the square that costs one token."""
CAP_OLD = 1568
"""Most tokens that one image costs on models before Claude 4.7; also their longest edge in px."""
CAP_NEW = 4784
"""Most tokens that one image costs from Claude 4.7 on."""
EDGE_NEW_PX = 2576
"""Longest edge, in px, from Claude 4.7 on."""
UNREADABLE_TOKENS = 2_000
"""An image of unknown size counts at least this; a document of unknown length counts this."""
PAGE_TEXT_TOKENS = 3_000
"""Text of one page of a document."""

_HEAD_CHARS = 1 << 16
"""Base64 characters decoded to look for a size; a JPEG with a large preview is then decoded whole."""
_INFLATED_LIMIT = 64 << 20
"""Bytes of a PDF's object streams that are looked at; beyond it the page count is unknown."""
_PDF_PAGE = re.compile(rb"/Type\s*/Page(?![A-Za-z])")
_PDF_OBJECT_STREAM = re.compile(rb"/Type\s*/ObjStm[^>]{0,200}>>\s*stream\r?\n")


class Size(NamedTuple):
    """Width and height of an image in px, both at least 1."""

    width: int
    height: int


def image_tokens(size: Size | None, cap: int) -> int:
    """Tokens of one image where one costs at most ``cap``; ``None``: its size could not be read (T6)."""
    if size is None:
        return max(UNREADABLE_TOKENS, cap)
    edge = CAP_OLD if cap <= CAP_OLD else EDGE_NEW_PX
    scale = min(1.0, edge / max(size))
    # What is still over the token limit is scaled down until it is under it, so the limit is never below the truth.
    return min(cap, _patches(size.width * scale) * _patches(size.height * scale))


def document_tokens(pages: int | None, cap: int) -> int:
    """Tokens of a document: pages x (text + one image of at most ``cap``); ``None``: unknown (T6)."""
    return UNREADABLE_TOKENS if pages is None else pages * (PAGE_TEXT_TOKENS + cap)


def _patches(px: float) -> int:
    return max(1, -int(-px // PATCH_PX))


def image_size(data: str) -> Size | None:
    """Size of a PNG, JPEG, GIF or WebP from its base64; None where it is none of them or broken."""
    head = _decode(data[:_HEAD_CHARS])
    size = size_of_bytes(head)
    if size is None and head.startswith(b"\xff\xd8") and len(data) > _HEAD_CHARS:
        size = size_of_bytes(_decode(data))
    return size


def size_of_bytes(head: bytes) -> Size | None:
    """Size of an image from the bytes it starts with."""
    size = None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR" and len(head) >= 24:
        size = Size(int.from_bytes(head[16:20], "big"), int.from_bytes(head[20:24], "big"))
    elif head.startswith((b"GIF87a", b"GIF89a")) and len(head) >= 10:
        size = Size(int.from_bytes(head[6:8], "little"), int.from_bytes(head[8:10], "little"))
    elif head.startswith(b"RIFF") and head[8:12] == b"WEBP" and len(head) >= 30:
        size = _webp_size(head)
    elif head.startswith(b"\xff\xd8"):
        size = _jpeg_size(head)
    return size if size is not None and min(size) > 0 else None


def _webp_size(head: bytes) -> Size | None:
    match head[12:16]:
        case b"VP8X":
            return Size(1 + int.from_bytes(head[24:27], "little"), 1 + int.from_bytes(head[27:30], "little"))
        case b"VP8L":
            bits = int.from_bytes(head[21:25], "little")
            return Size(1 + (bits & 0x3FFF), 1 + (bits >> 14 & 0x3FFF))
        case b"VP8 ":
            return Size(int.from_bytes(head[26:28], "little") & 0x3FFF, int.from_bytes(head[28:30], "little") & 0x3FFF)
        case _:
            return None


def _jpeg_size(head: bytes) -> Size | None:
    """Walk the segments to the frame header (SOF0-SOF15 without DHT, JPG and DAC, which share the range)."""
    at = 2
    while at + 9 <= len(head) and head[at] == 0xFF:
        marker = head[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            return Size(int.from_bytes(head[at + 7 : at + 9], "big"), int.from_bytes(head[at + 5 : at + 7], "big"))
        else:
            at += 2 + int.from_bytes(head[at + 2 : at + 4], "big")
    return None


def pdf_pages(data: str) -> int | None:
    """Pages of a PDF from its base64; None where it is no PDF or its page objects cannot be read.

    Counts page objects, those in compressed object streams too. A file that was saved again over itself may hold a
    page twice: then the count is too high, never too low.
    """
    raw = _decode(data)
    if b"%PDF-" not in raw[:1024] or b"/Encrypt" in raw:
        return None
    pages = len(_PDF_PAGE.findall(raw))
    budget = _INFLATED_LIMIT
    for match in _PDF_OBJECT_STREAM.finditer(raw):
        inflater = zlib.decompressobj()
        try:
            objects = inflater.decompress(memoryview(raw)[match.end() :], budget)
        except zlib.error:
            return None
        budget -= len(objects)
        if budget <= 0:
            return None
        pages += len(_PDF_PAGE.findall(objects))
    return pages or None


def _decode(data: str) -> bytes:
    """The bytes of base64, as far as it is whole; nothing where it is none."""
    text = data.translate({10: None, 13: None, 32: None}) if "\n" in data or " " in data else data
    try:
        return binascii.a2b_base64(text[: len(text) // 4 * 4])
    except ValueError:  # binascii.Error is one
        return b""
