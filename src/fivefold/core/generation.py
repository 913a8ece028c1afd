"""Tokenizer generations: models of one generation count the same text to about the same number of tokens (T1)."""

from __future__ import annotations

from typing import Literal, TypeAlias

Generation: TypeAlias = Literal["claude", "claude-new", "o200k", "cl100k", "unknown"]
"""``claude``: up to 4.6; ``claude-new``: from 4.7, about 30% more tokens for the same text; ``o200k``, ``cl100k``: OpenAI's
two public vocabularies; ``unknown``: any other."""
