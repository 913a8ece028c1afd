"""What OpenAI's APIs share: the automatic prefix cache, keys, models, the fields of a body (facts: API section 7.1)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Final, NamedTuple

import msgspec

from ..core.economics import CacheRules
from .cache import Used
from .items import Item
from .refusal import Object, Refused, openai_invalid
from .seals import chained
from .shapes import misfit
from .world import Limits, World

STEP: Final = 128
"""Tokens by which a cached prefix grows."""
LEAST: Final = 1024
_BILLED_WRITES: Final = 1800
"""Models whose short lifetime is this many seconds have the new scheme, which bills writes (GPT-5.6 and later)."""


class Line(NamedTuple):
    """A prompt: tools and settings first, then the items. ``keys`` are the digests of everything up to and with each."""

    keys: list[bytes]
    sums: list[int]

    @property
    def tokens(self) -> int:
        """All of it."""
        return self.sums[-1]


def line_of(limits: Limits, head: Object, head_tokens: int, items: Sequence[Item]) -> Line:
    """The positions of a prompt. ``head``: what stands before the items, and what else a prefix depends on."""
    first = blake2b(limits.model.id.encode() + msgspec.json.encode(head), digest_size=16).digest()
    keys = list(accumulate((item.digest for item in items), chained, initial=first))
    return Line(keys, list(accumulate((item.tokens for item in items), initial=head_tokens)))


class PrefixCache:
    """What has been sent lately. A prefix is found at the boundary of an item, which is a little less than the real one finds: it
    matches tokens. What is found is counted in steps of 128 tokens from 1,024 on."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._expires: dict[bytes, float] = {}
        self._sweep_at = 200_000

    def look(self, line: Line, rules: CacheRules | None) -> Used:
        """What this prompt reads and writes; it can be read from now on."""
        now, total = self._clock(), line.tokens
        if rules is None:
            return Used(total, 0, 0, 0)
        at = next((i for i in range(len(line.keys) - 1, -1, -1) if self._expires.get(line.keys[i], -1.0) >= now), None)
        found = 0 if at is None else line.sums[at] // STEP * STEP
        least = max(LEAST, rules.min_tokens)
        read = found if found >= least else 0
        written = 0
        if rules.ttl_seconds[0] == _BILLED_WRITES and total >= least:
            written = max(0, total // STEP * STEP - read)
        self._expires.update(dict.fromkeys(line.keys, now + rules.ttl_seconds[0]))
        if len(self._expires) > self._sweep_at:
            self._expires = {key: end for key, end in self._expires.items() if end >= now}
            self._sweep_at = 2 * len(self._expires) + 200_000
        return Used(total - read - written, read, written, 0)


# --- what both APIs refuse


def check_openai(world: World, headers: Mapping[str, str]) -> None:
    """Raises Refused where there is no key, or one that is not taken."""
    key = headers.get("authorization", "").removeprefix("Bearer ").strip()
    if not key or (world.keys and key not in world.keys):
        raise openai_invalid("Incorrect API key provided.", code="invalid_api_key", status=401)


def openai_limits(world: World, name: str) -> Limits:
    """What a model takes. Raises Refused (404)."""
    try:
        return world.limits(name)
    except Refused as refused:
        text = f"The model `{name}` does not exist or you do not have access to it."
        raise openai_invalid(text, code="model_not_found", status=404) from refused


def decode_body(data: bytes, known: frozenset[str], needed: Sequence[str]) -> dict[str, msgspec.Raw]:
    """The fields of a body. Raises Refused for one that is missing or unknown."""
    try:
        raw = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise openai_invalid(f"We could not parse the JSON body of your request: {error}") from error
    for key in needed:
        if key not in raw:
            raise openai_invalid(f"Missing required parameter: '{key}'.", param=key, code="missing_required_parameter")
    for key in raw:
        if key not in known:
            raise openai_invalid(f"Unknown parameter: '{key}'.", param=key, code="unknown_parameter")
    return raw


def check_shape(body: Object, shape: type[msgspec.Struct]) -> None:
    """Raises Refused where a field is not of its type, or asks for what is not simulated."""
    if wrong := misfit(body, shape):
        raise openai_invalid(f"Invalid type for '{wrong[0]}': {wrong[1]}.", param=wrong[0], code="invalid_type")
    if (body.get("prompt_cache_options") or {}).get("mode") == "explicit":
        raise openai_invalid("prompt_cache_options.mode: explicit is not part of this simulator", param="prompt_cache_options")
