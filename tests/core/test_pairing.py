"""Calls and results, rounds and cuts: section 0, I1, I2, I8, I9, I10."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.entries import Entry
from fivefold.core.messages import ServerToolResult, ServerToolUse
from fivefold.core.pairing import Place, Round, legal_cuts, pair, rounds, server_pairs, tool_calls
from tests.build import assistant, call, entry, result, user


def test_round_is_the_entries_of_one_response_and_what_answers_them() -> None:
    entries = [
        user("u1", "go"),
        assistant("a1", "text", api_id="m1"),
        assistant("a2", call("t1"), api_id="m1"),
        user("u2", result("t1")),
        assistant("a3", call("t2"), api_id="m1"),
        user("u3", result("t2")),
        assistant("a4", "done", api_id="m2"),
        user("u4", "thanks"),
    ]
    assert rounds(entries) == [Round(0, 1, None), Round(1, 6, "m1"), Round(6, 8, "m2")]


def test_round_without_ids_is_adjacent_assistant_entries() -> None:
    entries = [assistant("a1", "x"), assistant("a2", "y"), user("u1", "z"), assistant("a3", "w")]
    assert rounds(entries) == [Round(0, 3, None), Round(3, 4, None)]
    assert rounds([]) == [] and rounds([user("u", "a")]) == [Round(0, 1, None)]


def test_i10_pairing_goes_by_position_then_id() -> None:
    entries = [
        assistant("a1", call("0"), call("0"), api_id="m1"),
        user("u1", result("0", "first"), result("0", "second")),
        assistant("a2", call("0"), api_id="m2"),
        user("u2", result("0", "third")),
    ]
    pairs = pair(entries).pairs
    assert [(p.call, p.result) for p in pairs] == [
        (Place(0, 0), Place(1, 0)),
        (Place(0, 1), Place(1, 1)),
        (Place(2, 0), Place(3, 0)),
    ]
    assert not any(p.late for p in pairs)


def test_i9_a_late_result_finds_its_call() -> None:
    entries = [assistant("a1", call("t1"), call("t2")), user("u1", result("t2")), assistant("a2", "meanwhile"), user("u2", result("t1"))]
    found = pair(entries)
    assert [(p.call, p.result, p.late) for p in found.pairs] == [(Place(0, 1), Place(1, 0), False), (Place(0, 0), Place(3, 0), True)]
    assert not found.unanswered and not found.open and not found.orphans


def test_i1_open_unanswered_and_orphan() -> None:
    found = pair([user("u0", result("gone")), assistant("a1", call("t1")), user("u1", "never mind"), assistant("a2", call("t2"))])
    assert found.orphans == (Place(0, 0),)
    assert found.unanswered == (Place(1, 0),)
    assert found.open == (Place(3, 0),)
    assert pair([assistant("a1", call("t1")), user("u1", "stop")]).open == ()


def test_i1_a_second_result_is_an_orphan() -> None:
    assert pair([assistant("a1", call("t1")), user("u1", result("t1"), result("t1"))]).orphans == (Place(1, 1),)


def test_i2_i9_cuts() -> None:
    entries = [
        user("u1", "go"),
        assistant("a1", call("t1"), api_id="m1"),
        assistant("a2", call("t2"), api_id="m1"),
        user("u2", result("t2")),
        assistant("a3", "meanwhile", api_id="m2"),
        user("u3", result("t1")),
        assistant("a4", call("t3"), api_id="m3"),
    ]
    assert legal_cuts(entries) == [True, True, False, False, False, False, True, False]
    assert legal_cuts([]) == [True]


def test_i8_server_pairs_stand_in_one_response() -> None:
    use, answer = ServerToolUse("s1", "web_search", {}), ServerToolResult("s1", [], "web_search_tool_result")
    assert server_pairs([use, answer]) == ([], [])
    assert server_pairs([answer, use]) == ([1], [0])
    assert tool_calls([assistant("a", use, call("t"))]) == 1


ENTRY = st.builds(
    lambda kind, ids, words, api: (kind, ids, words, api),
    st.sampled_from(["user", "assistant", "note"]),
    st.lists(st.sampled_from(["t1", "t2", "0"]), max_size=3),
    st.booleans(),
    st.sampled_from([None, "m1", "m2"]),
)


def build(rows: list[tuple[str, list[str], bool, str | None]]) -> list[Entry]:
    made: list[Entry] = []
    for i, (kind, ids, words, api) in enumerate(rows):
        blocks = [call(t) if kind == "assistant" else result(t) for t in ids]
        made.append(entry(f"e{i}", kind, *(["text"] if words else []), *blocks, api_id=api if kind == "assistant" else None))  # type: ignore[arg-type]
    return made


@given(st.lists(ENTRY, max_size=12))
def test_i1_every_call_and_result_is_accounted_for_once(rows: list[tuple[str, list[str], bool, str | None]]) -> None:
    entries = build(rows)
    found = pair(entries)
    calls = [p.call for p in found.pairs] + list(found.unanswered) + list(found.open)
    results = [p.result for p in found.pairs] + list(found.orphans)
    assert sorted(calls) == [
        Place(i, j) for i, e in enumerate(entries) if e.kind == "assistant" for j, b in enumerate(e.blocks) if type(b).__name__ == "ToolUse"
    ]
    assert sorted(results) == [
        Place(i, j) for i, e in enumerate(entries) if e.kind == "user" for j, b in enumerate(e.blocks) if type(b).__name__ == "ToolResult"
    ]
    assert all(p.call < p.result for p in found.pairs)


@given(st.lists(ENTRY, max_size=12))
def test_i9_no_cut_parts_a_pair_or_a_response(rows: list[tuple[str, list[str], bool, str | None]]) -> None:
    entries = build(rows)
    found = pair(entries)
    for at, legal in enumerate(legal_cuts(entries)):
        if legal:
            assert not any(p.call.entry < at <= p.result.entry for p in found.pairs)
            assert not any(place.entry < at for place in found.open)
    for number, one in enumerate(rounds(entries)):
        assert one.start < one.stop
        assert (number == 0) == (one.start == 0)


def test_i2_no_cut_inside_a_response_without_calls() -> None:
    entries = [
        user("u", "go"),
        assistant("a1", "x", api_id="m"),
        entry("n", "attachment", "f"),
        assistant("a2", "y", api_id="m"),
        user("u2", "ok"),
    ]
    assert legal_cuts(entries) == [True, True, False, False, True, True]
    apart = [assistant("a1", "x"), user("u", "and?"), assistant("a2", "y")]
    assert legal_cuts(apart) == [True, True, True, True]
