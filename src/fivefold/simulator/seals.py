"""Signatures of thinking and of compaction blocks, as this simulator makes and opens them."""

from __future__ import annotations

import base64
from functools import lru_cache
from hashlib import blake2b
from typing import Final, TypeVar

import msgspec

from .refusal import Object

_KEY: Final = b"fivefold simulator"


class Seal(msgspec.Struct, frozen=True, array_like=True):
    """What a signature of thinking holds. ``before``: the thinking block before it, if any; ``tokens``: what the thinking counts,
    though its text may be left out. All digests are hex."""

    model: str
    prefix: str
    before: str
    text: str
    tokens: int


class Carried(msgspec.Struct, frozen=True, array_like=True):
    """What a compaction block holds: its text's digest, the prefix that it stands for, and what must not have changed."""

    text: str
    prefix: str
    base: str
    last_role: str


S = TypeVar("S", Seal, Carried)


def sealed(value: Seal | Carried) -> str:
    """A signature as it goes over the wire."""
    data = msgspec.json.encode(value)
    return base64.b64encode(blake2b(data, key=_KEY, digest_size=16).digest() + data).decode()


def opened(signature: str, type: type[S]) -> S | None:
    """What a signature holds; None where it is not one of this kind that this simulator made."""
    try:
        data = base64.b64decode(signature, validate=True)
        whole = blake2b(data[16:], key=_KEY, digest_size=16).digest() == data[:16]
        return msgspec.json.decode(data[16:], type=type) if whole else None
    except (ValueError, msgspec.DecodeError):
        return None


@lru_cache(maxsize=50_000)
def seal_of(signature: str) -> Seal | None:
    """What a signature of thinking holds."""
    return opened(signature, Seal)


def carried_by(block: Object) -> Carried | None:
    """What a compaction block holds, if it is one that this simulator made and its text is the same."""
    token = block.get("signature") or block.get("encrypted_content")
    found = opened(token, Carried) if isinstance(token, str) else None
    return found if found and found.text == digest_of(block.get("content") or "") else None


def chained(before: bytes, digest: bytes) -> bytes:
    """The digest of a conversation and one block more."""
    return blake2b(before + digest, digest_size=16).digest()


def digest_of(text: str) -> str:
    """A digest as hex."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
