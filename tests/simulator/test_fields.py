"""U2: the keys that a request may have are those of the official client's own types."""

from __future__ import annotations

import typing
from typing import Any

import pytest
from anthropic.types import message_count_tokens_params, message_create_params
from anthropic.types.beta import beta_content_block_param
from anthropic.types.beta import message_create_params as beta_create_params

from fivefold.simulator.fields import BETA_KEYS, BLOCK_KEYS, BODY_KEYS, COUNT_KEYS

PARAMS = [block for block in typing.get_args(beta_content_block_param.BetaContentBlockParam) if block.__name__.endswith("Param")]
TYPES: dict[str, Any] = {}
for block in PARAMS:
    (kind,) = typing.get_args(typing.get_type_hints(block)["type"])
    TYPES[kind] = block


@pytest.mark.parametrize("kind", sorted(TYPES))
def test_u2_a_block_may_have_the_keys_that_the_client_knows(kind: str) -> None:
    assert BLOCK_KEYS[kind] == frozenset(TYPES[kind].__annotations__)


def test_u2_no_block_is_taken_that_the_client_does_not_know() -> None:
    assert set(BLOCK_KEYS) == set(TYPES)


def test_u2_a_body_may_have_the_keys_that_the_client_knows() -> None:
    assert set(message_create_params.MessageCreateParamsBase.__annotations__) | {"stream"} == BODY_KEYS
    assert set(message_count_tokens_params.MessageCountTokensParams.__annotations__) == COUNT_KEYS
    beta = set(beta_create_params.MessageCreateParamsBase.__annotations__) - BODY_KEYS - {"betas"}
    assert beta == set(BETA_KEYS)
