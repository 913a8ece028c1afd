"""What was folded away is found and read back (K4)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.entries import Entry, Fold, HideEntries, HideThinking, ReplaceBlocks, Target, Unfold
from fivefold.core.messages import Opaque, ServerToolResult, ServerToolUse, Text, Thinking, ToolResult, ToolUse
from fivefold.errors import LogError
from fivefold.store.search import SNIPPET_CHARS, Hit, Index, read_back, recall, snippet, words_of
from fivefold.store.session import Session
from tests.store.made import HEAD, all_kinds, answer, call, compaction, log_of, said


def ids(hits: list[Hit]) -> list[str]:
    return [hit.id for hit in hits]


def test_k4_text_thinking_tool_inputs_and_results_are_searched() -> None:
    blocks = (
        Text("alpha text"),
        Thinking("beta thought", "sig"),
        ToolUse("t1", "Edit", {"gamma_key": {"deep": ["delta string", 17]}}),
        ServerToolUse("t2", "web", {"query": "epsilon"}),
        ServerToolResult("t2", [{"title": "zeta page"}]),
        Opaque({"type": "refusal", "refusal": "eta no", "data": "QUJD" * 500}),
    )
    result = Entry(id="r", kind="user", blocks=(ToolResult("t1", (Text("theta one"), Text("iota two"))),), line=9, time=4.0)
    log = log_of(Entry(id="a", kind="assistant", blocks=blocks), result)
    for word, tool in [("alpha", None), ("beta", None), ("delta", "Edit"), ("epsilon", "web"), ("zeta", "web"), ("eta no", None)]:
        (hit,) = [hit for hit in recall(log, word) if hit.id == "a"]
        assert (hit.kind, hit.tool, hit.hidden, hit.fold) == ("assistant", tool, False, None)
        assert word.split()[0] in hit.text
    assert recall(log, "theta iota") == [Hit("r", "user", 9, 4.0, "Edit", "theta one iota two", False, None)]
    assert recall(log, "gamma_key") == recall(log, "sig") == recall(log, "17") == recall(log, "QUJDQUJD") == []


def test_k4_all_words_must_be_there_and_quoted_ones_together() -> None:
    entries = [said("a", "the quick brown fox"), said("b", "the brown quick fox"), said("c", "quick only")]
    assert set(ids(recall(entries, "quick BROWN"))) == {"a", "b"}
    assert ids(recall(entries, '"quick brown"')) == ["a"]
    assert ids(recall(entries, '"Quick  brown"')) == [], "blanks in quotes count"
    assert ids(recall(entries, "brown missing")) == []
    assert words_of('a "b c" "d  e f') == ["a", "b c", "d  e f"]
    assert recall(entries, "") == recall(entries, ' "" " ') == recall(entries, "quick", limit=0) == []


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("unbelievable", "BELIEV"),
        ("Die Straße war NASS", "strasse nass"),
        ("压缩对话窗口的内容", "对话窗口"),
        ("压缩对话窗口的内容", "窗口"),
        ("привет, МИР", "мир"),
        ("emoji 😀 here", "😀"),
        ("İstanbul'da", "stanbul"),
        ("a\0b nul", "a\0b"),
        ("half \ud800 pair", "half \ud800"),
        ("C++ (a AND b) OR NEAR(x*) col:y - ^z", "C++ NEAR(x*) col:y ^z AND"),
        ("it's 100% of foo_bar", "it's 100% o_b"),
        ("say \\ slash", "\\"),
    ],
)
def test_k4_parts_of_words_in_any_language_and_any_sign(text: str, query: str) -> None:
    entries = [said("other", "nothing"), said("a", text)]
    assert ids(recall(entries, query)) == ["a"]
    with Index() as index:
        for entry in entries:
            index.add(entry)
        assert index.search(query) == recall(entries, query)


TEXTS = st.lists(st.text("abAB \"'*(ßİ世\0\ud800-", max_size=12), max_size=8)


@given(texts=TEXTS, query=st.one_of(st.text("abAB \"'*(ßİ世\0\ud800-", max_size=9), st.text(max_size=6)), limit=st.integers(1, 4))
def test_k4_any_query_finds_by_the_index_what_plain_looking_finds(texts: list[str], query: str, limit: int) -> None:
    entries = [said(f"e{i}", text) for i, text in enumerate(texts)]
    words = [word.casefold().replace("\0", "\ufffd").replace("\ud800", "\ufffd") for word in words_of(query)]
    folded = {e.id: t.casefold().replace("\0", "\ufffd").replace("\ud800", "\ufffd") for e, t in zip(entries, texts, strict=True)}
    expected = {id for id, text in folded.items() if words and all(word in text for word in words)}
    with Index() as index:
        for entry in entries:
            index.add(entry)
        assert index.search(query, limit=limit) == recall(entries, query, limit=limit)
        assert set(ids(index.search(query, limit=99))) == expected


def test_k4_the_best_come_first_and_of_equals_the_newest() -> None:
    entries = [
        said("a", "needle in much hay " + "hay " * 200),
        said("b", "needle needle needle"),
        said("c", "needle, once"),
        said("d", "needle, once"),
    ]
    assert ids(recall(entries, "needle")) == ["b", "d", "c", "a"]
    assert ids(recall(entries, "needle", limit=2)) == ["b", "d"]


def test_k4_a_hit_says_whether_the_model_still_sees_it_and_what_took_it_away() -> None:
    log = log_of(*all_kinds())
    hits = {hit.id: (hit.hidden, hit.fold) for query in ("世界", "go on", "summary", "xxxx", "a") for hit in recall(log, query)}
    assert hits["e1"] == (True, "f2")
    assert hits["e3"] == (True, "f2")
    assert hits["e7"] == hits["f2-summary"] == hits["e6"] == (False, None)
    again = log.append(compaction("f4", "e7"))
    assert [(hit.hidden, hit.fold) for hit in recall(again, '"the summary of f2"')] == [(True, "f4")]
    assert [(hit.hidden, hit.fold) for hit in recall(again.append(Unfold(fold="f4")), '"the summary of f2"')] == [(False, None)]


def test_k4_cleared_results_hidden_thinking_and_snips_are_told_apart() -> None:
    log = log_of(
        call("a", "ls -l"),
        answer("b", "a", "secret listing"),
        said("c", "plain words"),
        Fold(id="clear", level="micro", changes=(ReplaceBlocks((Target("b", 0),)),)),
        Fold(id="think", level="auto", changes=(HideThinking("c"),)),
        Fold(id="snip", level="snip", changes=(HideEntries(("c",)),)),
    )
    found = {query: [(hit.id, hit.fold) for hit in recall(log, query)] for query in ("listing", "hm", "ls -l", "plain")}
    assert found == {"listing": [("b", "clear")], "hm": [("a", "think")], "ls -l": [("a", None)], "plain": [("c", "snip")]}
    assert read_back(log, "b").blocks == (ToolResult("ta", "secret listing"),)


def test_k4_the_index_grows_with_its_log_and_follows_another() -> None:
    log = log_of(*all_kinds())
    with Index() as index:
        grown = log_of()
        for record in log.records():
            grown = grown.append(record)
            index.advance(grown)
        assert index.search("summary") == recall(log, "summary")
        fork = log_of(*list(log.records())[:3], said("fork", "another summary"), *(said(f"x{i}") for i in range(20)))
        index.advance(fork)
        assert index.search("summary") == recall(fork, "summary")
        assert ids(index.search("summary")) == ["fork"]
        index.advance(log_of())
        assert index.search("summary") == []


def test_k4_the_history_of_a_session_loaded_in_part_can_be_searched(tmp_path: Path) -> None:
    with Session.create(tmp_path / "s.jsonl", HEAD) as session:
        session.append(said("a", "the hidden needle"), said("b"), compaction("f", "a"))
    with Session.open(tmp_path / "s.jsonl") as session:
        assert recall(session.log, "needle") == []
        (hit,) = recall(session.history(), "needle")
        assert (hit.id, hit.fold) == ("a", "f")
        assert read_back(session.history(), "a") == said("a", "the hidden needle")
        assert read_back(session.log, "f-summary").summary
        with pytest.raises(LogError, match=r"1 of 2 entries that are loaded; give Session\.history\(\)"):
            read_back(session.log, "a")
    with pytest.raises(LogError, match="no entry 'x' in 1 entries"):
        read_back(log_of(said("a")), "x")


@pytest.mark.parametrize("before", [0, 40, 5000])
@pytest.mark.parametrize("after", [0, 40, 5000])
def test_k4_the_match_stands_in_the_middle_of_its_piece(before: int, after: int) -> None:
    text = "ß\n" * before + "NEEDLE" + "\tx" * after
    piece = snippet(text, "needle")
    assert "NEEDLE" in piece and "\n" not in piece
    assert len(piece) <= SNIPPET_CHARS + 2
    assert (piece.startswith("…"), piece.endswith("…")) == (before == 5000, after == 5000)
    at = piece.index("NEEDLE")
    assert before < 5000 or after < 5000 or 0.3 < at / len(piece) < 0.7


def test_h4_a_query_without_measure_is_answered_all_the_same() -> None:
    log = log_of(said("a", " ".join(f"word{i}" for i in range(1000)) + "y" * 10_000))
    with Index() as index:
        index.advance(log)
        assert ids(index.search(" ".join(f"word{i}" for i in range(1000)))) == ["a"]
        assert ids(index.search("y" * 9_000)) == ["a"]
        assert index.search("y" * 11_000) == []
