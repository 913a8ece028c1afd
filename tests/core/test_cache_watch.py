"""P4: a cached prefix that was not read is noticed, and the cause named."""

from __future__ import annotations

import msgspec
import pytest

from fivefold.core.cache_watch import Break, CacheWatch, Prefix
from fivefold.core.economics import CacheRules
from fivefold.core.entries import Usage
from tests.rules.talk import MODEL

PREFIX = Prefix("m-1", "t", "s", 0)
WRITTEN = CacheWatch().after(PREFIX, Usage(input=10, cache_write=40_000), 100.0, MODEL.cache)


def test_p4_a_prefix_that_is_read_whole_is_no_break() -> None:
    assert WRITTEN.broken(PREFIX, Usage(cache_read=40_000, cache_write=900), 130.0, MODEL) is None
    assert CacheWatch().broken(PREFIX, Usage(input=40_000), 130.0, MODEL) is None, "nothing was cached before"


@pytest.mark.parametrize(
    ("prefix", "now", "cause"),
    [
        (PREFIX._replace(folds=1), 130.0, "fold"),
        (PREFIX, 401.0, "expiry"),
        (PREFIX._replace(model="m-2", folds=1), 401.0, "model"),
        (PREFIX._replace(tools="u"), 130.0, "tools"),
        (PREFIX._replace(system="v"), 130.0, "system prompt"),
        (PREFIX, 130.0, "unknown"),
    ],
)
def test_p4_the_cause_is_named(prefix: Prefix, now: float, cause: str) -> None:
    """$6.25 a million written instead of $0.50 read: 30,000 tokens cost $0.1725 more."""
    found = WRITTEN.broken(prefix, Usage(cache_read=10_000, cache_write=31_000), now, MODEL)
    assert found == Break(cause, 40_000, 10_000, pytest.approx(0.1725)) and found.lost == 30_000


def test_p4_the_long_lifetime_is_an_hour_and_reading_keeps_it() -> None:
    watch = CacheWatch().after(PREFIX, Usage(cache_write=40_000, cache_write_1h=40_000), 0.0, MODEL.cache)
    watch = watch.after(PREFIX, Usage(cache_read=40_000), 10.0, MODEL.cache)
    found = [watch.broken(PREFIX, Usage(cache_write=40_000), now, MODEL) for now in (3_000.0, 4_000.0)]
    assert [broken.cause for broken in found if broken] == ["unknown", "expiry"]


def test_p4_where_the_provider_marks_unasked_all_of_the_input_is_expected() -> None:
    unasked = msgspec.structs.replace(MODEL, cache=CacheRules(client_marks=False))
    watch = CacheWatch().after(PREFIX, Usage(input=4_000, cache_read=36_000), 0.0, unasked.cache)
    assert watch.broken(PREFIX, Usage(input=200, cache_read=39_936), 10.0, unasked) is None  # steps of 128 tokens
    assert watch.broken(PREFIX, Usage(input=20_000, cache_read=20_000), 10.0, unasked) is not None


def test_p4_a_prefix_that_is_too_short_to_be_cached_is_no_break() -> None:
    watch = CacheWatch().after(PREFIX, Usage(input=10, cache_write=1_000), 0.0, MODEL.cache)
    assert watch.broken(PREFIX, Usage(input=1_000), 10.0, MODEL) is None
