"""What summaries are made from and files are put back for (X3, X5, E7)."""

from __future__ import annotations

import pytest

from fivefold.core.entries import Fold, HideEntries, HideSpan
from fivefold.core.log import Log
from fivefold.core.restore import material
from tests.build import assistant, user

SAID = [user("u1", "One."), assistant("a1", "Yes.", api_id="m1"), user("u2", "Two."), assistant("a2", "No.", api_id="m2")]


@pytest.mark.parametrize(
    ("fold", "left"),
    [
        (Fold(id="f", level="rewind", changes=(HideSpan(first="u2", last="a2"),)), ["u1", "a1"]),
        (Fold(id="f", level="snip", changes=(HideEntries(("a1",)),)), ["u1", "u2", "a2"]),
        (Fold(id="f", level="server", changes=(HideSpan(last="a1"),)), ["u1", "a1", "u2", "a2"]),
        (
            Fold(id="f", level="auto", changes=(HideSpan(last="a1", stand_ins=(user("s", "Summary.", summary=True),)),)),
            ["u1", "a1", "u2", "a2"],
        ),
    ],
)
def test_x5_e7_what_was_thrown_away_is_no_material_and_what_something_stands_for_is(fold: Fold, left: list[str]) -> None:
    """A provider's own compaction stands for what it hides as a summary of ours does."""
    assert [entry.id for entry in material(Log(records=[*SAID, fold]))] == left
