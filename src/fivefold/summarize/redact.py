"""Secrets of known shape are replaced before anything is written to a summary (H2).

Only shapes that their makers document, or values named as a secret beside them; hashes, ids and names of code have none of
these and stay. The log itself keeps what was said.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple


class _Shape(NamedTuple):
    """``hints``: none of them in a text, no search of it. The pattern's group ``secret``, or all of it, is replaced."""

    kind: str
    hints: tuple[str, ...]
    pattern: re.Pattern[str]


_SHAPES = (
    _Shape(
        "private key",
        ("PRIVATE KEY",),
        re.compile(
            r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\Z)", re.S
        ),
    ),
    _Shape("anthropic key", ("sk-ant-",), re.compile(r"\bsk-ant-[\w-]{16,}")),
    _Shape("openai key", ("sk-",), re.compile(r"\bsk-(?:proj-|svcacct-|admin-)?(?!ant-)(?=[\w-]*\d)(?=[\w-]*[A-Z])[A-Za-z0-9_-]{20,}")),
    _Shape("aws key id", ("AKIA", "ASIA"), re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b")),
    _Shape("github token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), re.compile(r"\bgh[pousr]_[A-Za-z0-9]{30,}\b")),
    _Shape("github token", ("github_pat_",), re.compile(r"\bgithub_pat_\w{30,}")),
    _Shape("gitlab token", ("glpat-",), re.compile(r"\bglpat-[\w-]{20,}")),
    _Shape("slack token", ("xox", "xapp-"), re.compile(r"\b(?:xox[abeoprs]|xapp)-[A-Za-z0-9-]{10,}")),
    _Shape("slack webhook", ("hooks.slack.com",), re.compile(r"hooks\.slack\.com/services/(?P<secret>T\w+/B\w+/\w{16,})")),
    _Shape("google key", ("AIza",), re.compile(r"\bAIza[\w-]{35}(?![\w-])")),
    _Shape("google token", ("ya29.",), re.compile(r"\bya29\.[\w-]{20,}")),
    _Shape("stripe key", ("k_live_", "k_test_", "whsec_"), re.compile(r"\b(?:[rsp]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}\b")),
    _Shape("npm token", ("npm_",), re.compile(r"\bnpm_[A-Za-z0-9]{36}\b")),
    _Shape("hugging face token", ("hf_",), re.compile(r"\bhf_[A-Za-z0-9]{30,}\b")),
    _Shape("sendgrid key", ("SG.",), re.compile(r"\bSG\.[\w-]{16,}\.[\w-]{16,}")),
    _Shape("json web token", ("eyJ",), re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}")),
    _Shape("password", ("://",), re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@'\"<>$%{}]*:(?P<secret>(?!\$|\*+@|<|\{)[^\s/@'\"<>{}]{3,})@")),
    _Shape("bearer token", ("earer ",), re.compile(r"\b[Bb]earer (?P<secret>(?=[\w.~+/-]*\d)[\w.~+/-]{20,}=*)")),
    _Shape("authorization", ("asic ",), re.compile(r"\b[Aa]uthorization['\"]?: *['\"]?Basic (?P<secret>[A-Za-z0-9+/]{12,}=*)")),
    _Shape(
        "secret",
        ("KEY", "SECRET", "TOKEN", "PASSW", "PWD"),
        re.compile(
            r"(?:API_?KEY|ACCESS_KEY|SECRET_KEY|PRIVATE_KEY|SECRET|TOKEN|PASSWORD|PASSWD|PWD)(?:_[A-Z0-9]+)?[ \t]*=[ \t]*"
            r"(?P<quote>['\"]?)(?P<secret>[^\s'\"$<>{}()\[\]*,;&|\\]{8,})(?P=quote)(?=[\s'\",;&|)\\]|$)"
        ),
    ),
)
_HINTS = tuple((shape, tuple(hint.encode() for hint in shape.hints)) for shape in _SHAPES)
_CODE_VALUE = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*|[a-z]+(?:[-_/.][a-z]+)*|REDACTED.*|x+|0+|\d{1,8}|\.{3,}.*|/[\w./-]*", re.I)
"""What stands behind ``TOKEN=`` in code and documents and is no secret: a name, words, a number, a path."""
_BY_LINE_CHARS = 2_000
"""Texts from this size on are searched line by line: it is faster, and finds the same."""
_AROUND_CHARS = 200
"""So much of the text around a piece is looked at for a secret of which the piece shows only a part."""
_MIXED = re.compile(r"(?=.*[a-z])(?=.*[A-Z])")
_HAS_DIGIT = re.compile(r"(?=.*\d)(?=.*[A-Za-z])")


def redact(text: str) -> str:
    """A text with each secret of known shape as ``[redacted: kind]``. Running it again changes nothing."""
    plain = text.encode("ascii", "replace")  # one byte for each letter: the hints are found twice as fast
    for shape, hints in _HINTS:
        for hint in hints:
            if hint in plain:
                text = _without(shape, text)
                break
    return text


def _without(shape: _Shape, text: str) -> str:
    """A text without secrets of one shape. All but private keys stand on one line, and only lines with a hint are searched."""
    replaced = _replace(shape.kind)
    if len(text) < _BY_LINE_CHARS or shape.kind == "private key":
        return shape.pattern.sub(replaced, text)
    lines = text.split("\n")
    for hint in shape.hints:
        for i, line in enumerate(lines):
            if hint in line:
                lines[i] = shape.pattern.sub(replaced, line)
    return "\n".join(lines)


def redacted_piece(text: str, start: int, stop: int) -> str:
    """The piece ``text[start:stop]`` with what in it belongs to a secret replaced, also where the piece shows only a part."""
    first, last = max(0, start - _AROUND_CHARS), stop + _AROUND_CHARS
    if "PRIVATE KEY" in text:
        first, last = 0, len(text)
    around = text[first:last]
    spans = _spans(around)
    piece, at = "", start - first
    end = min(stop - first, len(around))
    for begin, finish, kind in spans:
        if finish > at and begin < end:
            piece += f"{around[at:begin] if begin > at else ''}[redacted: {kind}]"
            at = finish
    return piece + around[at:end] if spans else text[start:stop]


def _spans(text: str) -> list[tuple[int, int, str]]:
    """Start, end and kind of each secret; of overlapping ones the first."""
    found = []
    for shape in _SHAPES:
        for hint in shape.hints:
            if hint in text:
                for match in shape.pattern.finditer(text):
                    if _is_secret(match, shape.kind):
                        found.append((*match.span(_group(match)), shape.kind))
                break
    return sorted(found)


def _group(match: re.Match[str]) -> str | int:
    return "secret" if "secret" in match.re.groupindex else 0


def _is_secret(match: re.Match[str], kind: str) -> bool:
    return kind != "secret" or _looks_secret(match["secret"])


def _replace(kind: str) -> Callable[[re.Match[str]], str]:
    def replaced(match: re.Match[str]) -> str:
        if not _is_secret(match, kind):
            return match[0]
        start, stop = match.span(_group(match))
        return f"{match[0][: start - match.start()]}[redacted: {kind}]{match[0][stop - match.start() :]}"

    return replaced


def _looks_secret(value: str) -> bool:
    if value.startswith("[redacted"):
        return False
    if _HAS_DIGIT.match(value) is None or "xxx" in value.lower() or "..." in value:
        return False
    return _CODE_VALUE.fullmatch(value) is None or (_MIXED.match(value) is not None and "_" not in value and "." not in value)
