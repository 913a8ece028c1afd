"""How many tokens a text has, without a tokenizer and without a network (T1), and how large a message is (T6, T7).

A text is encoded to UTF-8 once and its bytes are counted by class: script, digits, punctuation, and the places where a
word, a number or an indentation starts. All of that runs in C (``bytes.translate``, ``bytes.count``). The estimate is
the weighted sum of those counts. No weight is negative, so more text never has fewer tokens. The weights were fitted
for each tokenizer on one half of a set of recorded sessions and texts; ``benchmarks/tokens.md`` has the figures of the
other half. The estimate is meant to lie between 3/4 of the true count and the true count or a little more, so that
``pad`` (4/3, T1) lifts it to or above the truth.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from math import ceil
from operator import mul
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from .entries import SHOWN_AS, Entry
from .media import CAP_OLD, document_tokens, image_size, image_tokens, pdf_pages
from .messages import (
    JSON,
    Block,
    Compaction,
    Document,
    Image,
    Object,
    Opaque,
    RedactedThinking,
    ServerToolResult,
    ServerToolUse,
    Text,
    Thinking,
    ToolResult,
    ToolUse,
    decode_content,
)

Generation: TypeAlias = Literal["claude", "claude-new", "o200k", "cl100k", "unknown"]
"""Tokenizer of a model: Claude up to 4.6; Claude from 4.7 on; OpenAI's o200k and cl100k; ``unknown``: the most of all."""

NEW_CLAUDE = 1.3
"""Claude 4.7 and later count about 30% more tokens than earlier ones for the same text (Anthropic's token counting page)."""

# One letter stands for each class of byte. Fine: a lower case, A upper case, 0 digit, s space, n line end, t tab, p other
# ASCII, c control, x continuation; the rest are lead bytes: L Latin, G Greek, R Cyrillic, H Hebrew and others, B Arabic,
# I Indic and Thai, J further Brahmic and others, S symbols, K Kana, C Han, U Hangul, P compatibility forms, Q private
# use, E emoji. Coarse: a, A, 0, _ for all other ASCII, x.
_FINE_CLASSES = (
    (b"a", range(0x61, 0x7B)), (b"A", range(0x41, 0x5B)), (b"0", range(0x30, 0x3A)), (b"s", b" "), (b"n", b"\r\n"), (b"t", b"\t"),
    (b"L", range(0xC0, 0xCE)), (b"G", range(0xCE, 0xD0)), (b"R", range(0xD0, 0xD4)), (b"H", range(0xD4, 0xE0)),
    (b"B", range(0xD8, 0xDC)), (b"I", b"\xe0"), (b"J", b"\xe1"), (b"S", b"\xe2"), (b"K", b"\xe3"), (b"C", range(0xE4, 0xEA)),
    (b"U", range(0xEA, 0xEE)), (b"Q", b"\xee"), (b"P", b"\xef"), (b"E", b"\xf0"), (b"Q", range(0xF1, 0x100)),
)  # fmt: skip


class _Term(NamedTuple):
    """A pattern of classes and what each of its (non-overlapping) occurrences adds, by tokenizer."""

    pattern: bytes
    claude: float
    o200k: float
    cl100k: float


_START = _Term(b"", 1.300, 1.300, 1.300)
"""What any text that is not empty costs."""
_ODD = _Term(b"!$%&+/<>?@\\^|`", 1.098, 1.041, 1.045)
"""Bytes (not classes) that seldom share a token with their neighbours."""
_COARSE_TERMS = (
    _Term(b"_a", 0.976, 1.014, 1.024),
    _Term(b"_A", 1.058, 0.849, 0.854),
    _Term(b"_0", 1.389, 1.908, 1.877),
    _Term(b"aA", 1.612, 1.727, 1.765),
    _Term(b"a0", 1.904, 1.764, 1.760),
    _Term(b"0A", 2.275, 1.900, 2.117),
    _Term(b"AAA", 1.335, 1.316, 1.362),
    _Term(b"000", 1.001, 0.993, 1.007),
    _Term(b"a" * 8, 1.315, 0.615, 0.970),
    _Term(b"a" * 20, 5.275, 8.873, 8.009),
)
_FINE_TERMS = (
    _Term(b"n", 0.734, 0.544, 0.547),
    _Term(b"t", 0.484, 0.509, 0.448),
    _Term(b"c", 2.677, 1.813, 1.500),
    _Term(b"p", 0.045, 0.060, 0.060),
    _Term(b"sp", 0.910, 0.763, 0.758),
    _Term(b"ap", 0.562, 0.225, 0.143),
    _Term(b"ss", 0.090, 0.020, 0.024),
    _Term(b"ns", 0.185, 1.325, 1.211),
    _Term(b"np", 0.456, 0.110, 0.000),
)
_SCRIPT_TERMS = (
    _Term(b"L", 3.937, 2.668, 3.477),
    _Term(b"G", 1.334, 0.376, 1.043),
    _Term(b"R", 0.604, 0.330, 0.537),
    _Term(b"H", 2.075, 0.405, 2.079),
    _Term(b"B", 0.565, 0.330, 0.563),
    _Term(b"I", 1.763, 0.436, 1.181),
    _Term(b"J", 2.249, 0.565, 2.154),
    _Term(b"S", 0.709, 0.391, 0.553),
    _Term(b"K", 0.937, 0.603, 0.933),
    _Term(b"C", 0.922, 0.715, 1.032),
    _Term(b"U", 1.329, 0.702, 1.174),
    _Term(b"P", 0.500, 0.500, 0.500),
    _Term(b"Q", 2.600, 2.600, 2.600),
    _Term(b"E", 2.802, 2.077, 2.890),
    _Term(b"sB", 2.690, 0.173, 1.318),
    _Term(b"nB", 2.145, 0.978, 1.427),
    _Term(b"sI", 3.758, 0.000, 2.706),
    _Term(b"sS", 0.876, 0.854, 0.596),
    _Term(b"nU", 0.524, 0.696, 0.568),
    _Term(b"nC", 0.953, 1.151, 0.169),
)


def _fine_table() -> bytes:
    table = bytearray(b"c" * 32 + b"p" * 95 + b"c" + b"x" * 128)
    for name, members in _FINE_CLASSES:
        for byte in members:
            table[byte] = name[0]
    return bytes(table)


_FINE = _fine_table()
_COARSE = bytes(byte if byte in b"aA0" else ord("_") if byte in b"sntpc" else ord("x") for byte in _FINE)
_TERMS = (_START, _ODD, *_FINE_TERMS, *_COARSE_TERMS, *_SCRIPT_TERMS)
_COARSE_PATTERNS = tuple(term.pattern for term in _COARSE_TERMS)
_FINE_PATTERNS = tuple(term.pattern for term in _FINE_TERMS)
_SCRIPT_PATTERNS = tuple(term.pattern for term in _SCRIPT_TERMS)
_CLAUDE = tuple(term.claude for term in _TERMS)
_O200K = tuple(term.o200k for term in _TERMS)
_CL100K = tuple(term.cl100k for term in _TERMS)


class _Counts(NamedTuple):
    """Occurrences of each term, in the order of ``_TERMS`` (without scripts where the text is ASCII); ``bytes`` inside a JSON string."""

    terms: tuple[int, ...]
    bytes: int


def _count(data: bytes) -> _Counts:
    if not data:
        return _Counts((), 0)
    fine = data.translate(_FINE)
    terms = [1, len(data) - len(data.translate(None, _ODD.pattern)), *map(fine.count, _FINE_PATTERNS)]
    terms += map(data.translate(_COARSE).count, _COARSE_PATTERNS)
    if not data.isascii():
        terms += map(fine.count, _SCRIPT_PATTERNS)
    lines, tabs, controls = terms[2:5]
    escapes = lines + tabs + 5 * controls + data.count(b'"') + data.count(b"\\")
    return _Counts(tuple(terms), len(data) + escapes)


def _dot(terms: tuple[int, ...], weights: tuple[float, ...]) -> float:
    total: float = sum(map(mul, terms, weights))
    return total


def _weigh(terms: tuple[int, ...], generation: Generation) -> float:
    match generation:
        case "claude":
            return _dot(terms, _CLAUDE)
        case "claude-new":
            return NEW_CLAUDE * _dot(terms, _CLAUDE)
        case "o200k":
            return _dot(terms, _O200K)
        case "cl100k":
            return _dot(terms, _CL100K)
        case "unknown":
            return max(NEW_CLAUDE * _dot(terms, _CLAUDE), _dot(terms, _O200K), _dot(terms, _CL100K))


def estimate_text(text: str, generation: Generation = "unknown") -> float:
    """Tokens of a text, not padded; 0 for the empty text. Any str is accepted, lone surrogates too."""
    return _weigh(_count(text.encode("utf-8", "surrogatepass")).terms, generation)


def estimate_json(value: JSON, generation: Generation = "unknown") -> float:
    """Tokens of a JSON value written compactly, not padded."""
    return _weigh(_count(encode_json(value)).terms, generation)


def encode_json(value: JSON) -> bytes:
    """Compact UTF-8 JSON. Lone surrogates, which UTF-8 has not, are written as they would be in three bytes."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")


def pad(tokens: float) -> int:
    """The estimate to decide by: times 4/3, rounded up (T1). Pad a sum, not its parts."""
    return ceil(tokens * 4 / 3)


# --- messages

MESSAGE_FRAME_TOKENS = 4
"""Role and separators of one message."""
CALL_FRAME_TOKENS = 50
"""What surrounds one tool call. With a result's frame it makes the 80 tokens a call that real usage of Claude shows
(benchmarks/tokens.md); other providers' frames are smaller, their public vocabularies do not tell."""
RESULT_FRAME_TOKENS = 30
"""What surrounds one tool result."""
SEALED_TOKENS_PER_CHAR = 0.2
"""Tokens of encrypted thinking by the length of its base64, models before Claude 4.7 (benchmarks/tokens.md)."""
SEALED_TOKENS_PER_CHAR_NEW = 0.28
"""The same from Claude 4.7 on, and where the generation is not known."""

_MESSAGE_BYTES = len('{"role":"assistant","content":[]},')
_TEXT_BYTES = len('{"type":"text","text":""},')
_THINKING_BYTES = len('{"type":"thinking","thinking":"","signature":""},')
_REDACTED_BYTES = len('{"type":"redacted_thinking","data":""},')
_CALL_BYTES = len('{"type":"tool_use","id":"","name":"","input":},')
_RESULT_BYTES = len('{"type":"tool_result","tool_use_id":"","content":""},')
_MEDIA_BYTES = len('{"type":"document","source":{}},')

_BLOB_CHARS = 512
_BLOB = re.compile(
    rb'(?:"(encrypted_content|signature|thought_?signature)":)?"(data:[^";,]{1,100};base64,)?([A-Za-z0-9+/_-]{%d,}+=*)"' % _BLOB_CHARS, re.I
)
"""A JSON string that is nothing but long base64; group 1 tells that it holds text that the provider has encrypted."""
_PDF_START = "JVBERi0"
"""``%PDF-`` in base64."""
_MEDIA_KINDS = ("image", "image_url", "input_image", "document", "file", "input_file")
"""Kinds of blocks of several providers that may name a picture or file which is not in the request."""


class Measure(NamedTuple):
    """Size of an entry or of blocks: ``tokens`` not padded, rounded up; ``bytes`` of UTF-8 JSON on the wire, nearly;
    ``uncertain``: a part of it could not be read (media of unknown size, base64 of an unknown kind)."""

    tokens: int
    bytes: int
    uncertain: bool


class _Part(NamedTuple):
    tokens: float
    bytes: int
    uncertain: bool = False


def measure_entry(entry: Entry, generation: Generation = "unknown", image_cap: int = CAP_OLD) -> Measure:
    """Size of an entry's message in a request. Notes and boundaries are never sent: 0.

    ``image_cap``: most tokens that one image costs with the model (``media.CAP_OLD``, ``media.CAP_NEW``).
    """
    if entry.kind not in SHOWN_AS:
        return Measure(0, 0, False)
    tokens, size, uncertain = measure_blocks(entry.blocks, generation, image_cap)
    return Measure(tokens + MESSAGE_FRAME_TOKENS, size + _MESSAGE_BYTES, uncertain)


def measure_blocks(blocks: Iterable[Block], generation: Generation = "unknown", image_cap: int = CAP_OLD) -> Measure:
    """Size of content blocks, without the message around them."""
    total = _add(_measure_block(block, generation, image_cap) for block in blocks)
    return Measure(ceil(total.tokens), total.bytes, total.uncertain)


def _add(parts: Iterable[_Part]) -> _Part:
    tokens, size, uncertain = 0.0, 0, False
    for part in parts:
        tokens += part.tokens
        size += part.bytes
        uncertain |= part.uncertain
    return _Part(tokens, size, uncertain)


def _measure_block(block: Block, generation: Generation, cap: int) -> _Part:
    match block:
        case Text(text, extra):
            return _text(text, generation, _TEXT_BYTES + _json_bytes(extra))
        case ToolUse(id, name, input, extra) | ServerToolUse(id, name, input, _, extra):
            called, given = _text(name, generation), _json(input, generation)
            size = _CALL_BYTES + len(id) + called.bytes + given.bytes + _json_bytes(extra)
            return _Part(CALL_FRAME_TOKENS + called.tokens + given.tokens, size)
        case ToolResult(id, content, is_error, extra):
            frame = _Part(RESULT_FRAME_TOKENS, _RESULT_BYTES + len(id) + 16 * is_error + _json_bytes(extra))
            if isinstance(content, tuple):
                return _add([frame, *(_measure_block(part, generation, cap) for part in content)])
            return _add([frame, _text(content or "", generation)])
        case Thinking(text, signature, extra):
            shown = _text(text, generation, _THINKING_BYTES + len(signature) + _json_bytes(extra))
            # The text is a summary of what was thought, or empty; the model is given back all of it.
            return _Part(max(shown.tokens, sealed_tokens(len(signature), generation)), shown.bytes)
        case RedactedThinking(data, extra):
            return _Part(sealed_tokens(len(data), generation), _REDACTED_BYTES + len(data) + _json_bytes(extra))
        case Image(source, extra):
            return _image(source, cap, _MEDIA_BYTES + _json_bytes(extra))
        case Document(source, extra):
            return _document(source, extra, generation, cap)
        case ServerToolResult(id, content, kind, extra):
            frame = _Part(RESULT_FRAME_TOKENS, _RESULT_BYTES + len(id) + len(kind) + _json_bytes(extra))
            return _add([frame, _opaque(content, generation, cap)])
        case Compaction({"content": str(text)} as data):
            return _Part(estimate_text(text, generation), _json_bytes(data) + 1)
        case Compaction(data) | Opaque(data):
            return _opaque(data, generation, cap)


def sealed_tokens(chars: int, generation: Generation = "unknown") -> float:
    """Tokens of text that the provider has encrypted (redacted thinking, a signature), by the length of its base64."""
    return chars * (SEALED_TOKENS_PER_CHAR if generation == "claude" else SEALED_TOKENS_PER_CHAR_NEW)


def _text(text: str, generation: Generation, frame_bytes: int = 0) -> _Part:
    counts = _count(text.encode("utf-8", "surrogatepass"))
    return _Part(_weigh(counts.terms, generation), frame_bytes + counts.bytes)


def _json(value: JSON, generation: Generation) -> _Part:
    data = encode_json(value)
    return _Part(_weigh(_count(data).terms, generation), len(data))


def _json_bytes(data: Object) -> int:
    """Length of an object's JSON, 0 for an empty one. Its long strings, base64 as a rule, are not copied for it."""
    return sum(len(key) + 5 + (len(value) if isinstance(value, str) else len(encode_json(value))) for key, value in data.items())


def _image(source: Object, cap: int, frame_bytes: int) -> _Part:
    data = source.get("data")
    size = image_size(data) if isinstance(data, str) else None
    return _Part(image_tokens(size, cap), frame_bytes + _json_bytes(source), size is None)


def _document(source: Object, extra: Object, generation: Generation, cap: int) -> _Part:
    """A document by its source: plain text and content blocks by their text, a PDF by its pages (T6)."""
    frame = _Part(0, _MEDIA_BYTES + _json_bytes(extra))
    told = [_Part(estimate_text(text, generation), 0) for key in ("title", "context") if isinstance(text := extra.get(key), str)]
    match source:
        case {"type": "text", "data": str(text)}:
            body = _text(text, generation, _json_bytes({**source, "data": ""}))
        case {"type": "content", "content": content}:
            blocks, _ = decode_content(content)
            body = _add(_measure_block(part, generation, cap) for part in blocks)
        case _:
            data = source.get("data")
            pages = pdf_pages(data) if isinstance(data, str) else None
            body = _Part(document_tokens(pages, cap), _json_bytes(source), pages is None)
    return _add([frame, *told, body])


def _opaque(value: JSON, generation: Generation, cap: int) -> _Part:
    """A value of a kind not modelled: its JSON, long base64 in it as the image, document or encrypted text that it is."""
    data = encode_json(value)
    blobs = [_blob(match, generation, cap) for match in _BLOB.finditer(data)] if len(data) > _BLOB_CHARS else []
    shown = _BLOB.sub(b"", data) if blobs else data
    if not blobs and isinstance(value, dict) and value.get("type") in _MEDIA_KINDS:
        blobs.append(_Part(image_tokens(None, cap), 0, True))
    return _add([_Part(_weigh(_count(shown).terms, generation), len(data) + 1), *blobs])


def _blob(match: re.Match[bytes], generation: Generation, cap: int) -> _Part:
    sealed, kind, data = match[1], match[2] or b"", match[3].decode("ascii")
    if sealed:
        return _Part(sealed_tokens(len(data), generation), 0)
    size = image_size(data)
    if size is not None or kind.startswith(b"data:image/"):
        return _Part(image_tokens(size, cap), 0, size is None)
    if data.startswith(_PDF_START):
        pages = pdf_pages(data)
        return _Part(document_tokens(pages, cap), 0, pages is None)
    return _Part(0, 0, True)
