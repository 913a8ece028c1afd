"""Named examples of what folds show, and of views as values (section 0, X5)."""

from __future__ import annotations

from fivefold.core.edits.cut import legal
from fivefold.core.entries import CLEARED, Fold, HideEntries, HideSpan, HideThinking, ReplaceBlocks, Target, Unfold
from fivefold.core.log import Log
from fivefold.core.messages import Text, Thinking, ToolResult
from fivefold.core.view import View, view_of
from tests.build import assistant, call, entry, result, user
from tests.rules.talk import rounds_of, talk

BASE = Log(
    None,
    [
        user("u1", "fix it"),
        assistant("a1", Thinking("hm", "sig"), call("t1")),
        user("r1", result("t1", "long output")),
        assistant("a2", Thinking("so", "sig"), "done"),
        user("u2", "next"),
    ],
)


def ids(view: View) -> list[str]:
    return [e.id for e in view.entries()]


def test_m2_a_cleared_result_keeps_its_id_and_pairing() -> None:
    view = view_of(BASE.append(Fold(id="f", level="micro", changes=(ReplaceBlocks((Target("r1", 0),)),))))
    assert [e.blocks for e in view.entries()][2] == (ToolResult("t1", CLEARED),)


def test_c1_boundary_summary_kept_attachments_in_this_order() -> None:
    fold = Fold(
        id="f",
        level="auto",
        changes=(
            HideSpan(
                "r1", stand_ins=(entry("b", "boundary"), user("s", "summary", summary=True)), tail=(entry("at", "attachment", "file"),)
            ),
        ),
    )
    log = BASE.append(fold)
    assert ids(view_of(log)) == ["b", "s", "a2", "u2", "at"]
    log = log.append(assistant("a3", "on"))
    assert ids(view_of(log)) == ["b", "s", "a2", "u2", "at", "a3"]
    log = log.append(Fold(id="g", level="auto", changes=(HideSpan("a3", stand_ins=(user("s2", "newer"),)),)))
    assert ids(view_of(log)) == ["s2"], "a later fold swallows the stand-ins of the earlier one"
    assert ids(view_of(log.append(Unfold(fold="g")))) == ["b", "s", "a2", "u2", "at", "a3"]
    assert ids(view_of(log.append(Unfold(fold="f")))) == ["s2"]
    assert ids(view_of(log.append(Unfold(fold="f"), Unfold(fold="g")))) == ["u1", "a1", "r1", "a2", "u2", "a3"]


def test_i7_hidden_thinking_is_gone_from_the_span_and_only_from_it() -> None:
    view = view_of(BASE.append(Fold(id="f", level="auto", changes=(HideThinking("r1"),))))
    assert [e.blocks for e in view.entries()][1] == (call("t1"),)
    assert [e.blocks for e in view.entries()][3] == (Thinking("so", "sig"), Text("done"))


def test_x3_snipped_entries_stay_in_the_log() -> None:
    log = BASE.append(Fold(id="f", level="snip", changes=(HideEntries(("r1", "u2")),)))
    assert ids(view_of(log)) == ["u1", "a1", "a2"] and len(log) == 5 and log.find("r1") is not None


def test_views_of_forks_do_not_mix() -> None:
    one, other = BASE.append(user("x", "one way")), BASE.append(user("y", "another"), user("z", "on"))
    assert ids(view_of(one).advance(other))[-2:] == ["y", "z"]
    assert ids(view_of(other).advance(one))[-1] == "x"


def test_grown_from_says_that_nothing_else_changed() -> None:
    view = view_of(BASE)
    later = view.advance(BASE.append(user("x", "more")))
    assert later.grown_from(view) and not view.grown_from(later)
    assert not view.advance(BASE.append(Fold(id="f", level="snip", changes=(HideEntries(("r1",)),)))).grown_from(view)


def test_m4_a_view_that_has_not_changed_is_the_same_object() -> None:
    view = view_of(BASE)
    assert view.advance(BASE) is view


def test_i1_a_summary_is_not_cut_from_its_boundary() -> None:
    """What stands at one place of the log stands there together, at the very front too."""
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.before_request()
    view = found.driver.state.view
    assert [item.entry.kind for item in view.shown()][:2] == ["boundary", "user"] and legal(view)[:2] == [True, False]
