"""The judge of what a fold keeps (B2), on histories so small that every number is known by hand."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold import Entry, ServerToolResult, ServerToolUse, Text, Thinking, ToolResult, measure_entry, read_transcript
from fivefold.core.pairing import rounds
from fivefold.replay.retention import Question, Retention, end_of, judge, kept, prepare, references, suffix_of

from ..build import assistant, call, entry, result, user

FILLER = "Nothing of note stands here, only plain words that no one needs again. "


def question(*entries: Entry, cut: int) -> Question:
    return prepare(entries, cut)


def needed(asked: Question) -> set[str]:
    return {need.reference for need in asked.needs}


def session() -> list[Entry]:
    """Cut before ``a3``. Before: a request, a listing, an edit. Behind: four uses of what was shown, one of them told again."""
    return [
        user("u1", "Please repair src/app/parser.py today. Keep the public names!"),
        assistant("a1", "I list the folder.", call("c1", "Bash", command="ls src/app")),
        user("r1", result("c1", "the listing of the folder: parser_helpers.py old_tables.py settings_v2.py and no more")),
        assistant("a2", "The fault is in read_all_lines, I think.", call("c2", "Edit", path="src/app/parser.py", new="x")),
        user("r2", result("c2", "done")),
        assistant("a3", "Now old_tables.py, and the rest of src/app/parser.py.", call("c3", "Read", path="notes.txt")),
        user("r3", result("c3", "settings_v2.py is read by start_up_code")),
        assistant("a4", "So settings_v2.py, start_up_code and read_all_lines belong together; never_seen_before is new."),
    ]


# --- what is needed


def test_b2_what_the_assistant_used_later_is_needed_what_was_told_again_or_never_shown_is_not() -> None:
    asked = question(*session(), cut=5)
    assert needed(asked) == {"old_tables.py", "src/app/parser.py", "read_all_lines"}
    assert asked.refetched == 1  # settings_v2.py; start_up_code had not been shown before the cut
    assert {need.reference: need.used for need in asked.needs} == {"old_tables.py": 5, "src/app/parser.py": 5, "read_all_lines": 7}


def test_b2_each_count_of_a_small_session_by_hand() -> None:
    entries = session()
    asked = question(*entries, cut=5)
    everything = judge(asked, entries[:5])
    # all three are old: the latest quarter of so short a history begins behind a2
    assert everything == Retention(3, 3, 3, 3, 1, 1, 3, 2, 2, sum(measure_entry(one).tokens for one in entries[:5]))
    assert judge(asked, []) == Retention(0, 3, 0, 3, 0, 1, 0, 0, 2, 0)
    last_two = judge(asked, entries[3:5])
    assert (last_two.kept, last_two.old_kept, last_two.found_kept, last_two.sentences_kept) == (2, 2, 0, 0)
    assert kept(asked, entries[3:5]) == [need for need in asked.needs if need.reference != "old_tables.py"]


def test_b2_told_again_after_the_use_is_still_needed() -> None:
    entries = [user("u", "See alpha_one."), assistant("a1", "ok"), assistant("a2", "alpha_one it is"), user("u2", "alpha_one, yes")]
    assert needed(question(*entries, cut=2)) == {"alpha_one"}


def test_b2_a_person_who_says_it_again_tells_it_again() -> None:
    entries = [user("u", "See alpha_one."), assistant("a1", "ok"), user("u2", "alpha_one, yes"), assistant("a2", "alpha_one it is")]
    asked = question(*entries, cut=2)
    assert (needed(asked), asked.refetched) == (set(), 1)


def test_b2_the_answer_to_the_call_that_used_it_does_not_tell_it_again() -> None:
    entries = [
        user("u", "The file is data_file.csv."),
        assistant("a1", "ok"),
        assistant("a2", call("c", "Read", path="data_file.csv")),
        user("r", result("c", "data_file.csv: empty")),
        assistant("a3", "data_file.csv is empty"),
    ]
    assert needed(question(*entries, cut=2)) == {"data_file.csv"}


def test_b2_thinking_notes_and_earlier_summaries_neither_show_nor_use() -> None:
    entries = [
        assistant("a1", Thinking("thought_about_it", "sig"), "said_aloud"),
        entry("n", "note", "noted_down"),
        user("s", "summed_up", summary=True),
        assistant("a2", "thought_about_it said_aloud noted_down summed_up"),
        assistant("a3", Thinking("said_aloud", "sig")),
    ]
    assert needed(question(*entries, cut=3)) == {"said_aloud"}


def test_b2_a_call_of_a_server_tool_uses_and_its_result_shows() -> None:
    entries = [
        assistant("a1", ServerToolUse("s1", "web_search", {"query": "q"}), ServerToolResult("s1", [{"title": "page_of_results"}])),
        assistant("a2", ServerToolUse("s2", "web_search", {"query": "page_of_results"})),
    ]
    asked = question(*entries, cut=1)
    assert [(need.reference, need.found) for need in asked.needs] == [("page_of_results", True)]


# --- old, found


def test_b2_old_is_what_was_last_seen_before_the_latest_quarter_by_tokens() -> None:
    history = [user("u1", "early_name " + FILLER * 3), *(user(f"u{i}", FILLER * 3) for i in range(2, 5)), user("u5", "late_name")]
    asked = question(*history, assistant("a", "early_name and late_name"), cut=5)
    assert {need.reference: need.old for need in asked.needs} == {"early_name": True, "late_name": False}


def test_b2_what_is_said_again_in_the_latest_quarter_is_not_old() -> None:
    history = [user("u1", "early_name " + FILLER * 3), *(user(f"u{i}", FILLER * 3) for i in range(2, 5)), user("u5", "early_name")]
    assert [need.old for need in question(*history, assistant("a", "early_name"), cut=5).needs] == [False]


@pytest.mark.parametrize(
    ("teller", "found"),
    [
        (user("x", result("c", "the_thing")), True),
        (user("x", "the_thing", meta=True), True),
        (assistant("x", "<tool-use data-tool-name='Read'>the_thing</tool-use>"), True),
        (user("x", "the_thing"), False),
        (assistant("x", "the_thing"), False),
        (assistant("x", call("c", "Grep", pattern="the_thing")), False),
        (entry("x", "system", "the_thing"), False),
    ],
    ids=["result", "harness", "markdown result", "person", "assistant", "call", "system"],
)
def test_b2_found_is_what_only_results_showed(teller: Entry, found: bool) -> None:
    shown_too = user("r", result("c0", "the_thing"))
    for history in ([teller], [shown_too, teller], [teller, shown_too]):
        asked = question(*history, assistant("z", "the_thing"), cut=len(history))
        assert [need.found for need in asked.needs] == [found]


# --- kept, in context


LINE = "def load_settings_file(path, encoding, strict): return parse_settings(read(path))"


@pytest.mark.parametrize(
    ("view", "in_view", "in_context"),
    [
        ("", 0, 0),
        (LINE, 1, 1),
        ("names: load_settings_file, other_name", 1, 0),
        ("load_settings_file", 1, 0),
        ("def load_settings_file(path, encoding, str", 1, 1),  # 4 before, 20 behind
        ("def load_settings_file(path, encoding, st", 1, 0),  # one less
        ("… load_settings_file(path, encoding, strict) …", 1, 1),  # the space before it, 24 behind
        ("def \n\t  load_settings_file(path,\n    encoding, str", 1, 1),  # white space is one space
        ("load_settings_files", 0, 0),
        ("_load_settings_file", 0, 0),
        ("settings.load_settings_file()", 1, 0),
    ],
)
def test_b2_a_name_alone_is_kept_but_not_in_context(view: str, in_view: int, in_context: int) -> None:
    asked = question(user("u", result("c", LINE)), assistant("a", "load_settings_file"), cut=1)
    found = judge(asked, [user("s", view, summary=True)] if view else [])
    assert (found.kept, found.context_kept, found.needed) == (in_view, in_context, 1)


def test_b2_a_text_too_short_to_have_context_is_in_context_when_it_is_there_whole() -> None:
    asked = question(user("u", "use tab_width"), assistant("a", "tab_width"), cut=1)
    assert judge(asked, [user("s", "They said: use tab_width")]).context_kept == 1
    assert judge(asked, [user("s", "They said: tab_width")]).context_kept == 0


def test_b2_any_place_where_it_stood_gives_context() -> None:
    other = "later the tests call load_settings_file once more and compare the two"
    asked = question(user("u", result("c", LINE)), user("v", other), assistant("a", "load_settings_file"), cut=2)
    assert judge(asked, [user("s", "names: load_settings_file; the tests call load_settings_file once mo…")]).context_kept == 1


def test_b2_a_path_is_kept_inside_a_longer_path_that_ends_with_it() -> None:
    asked = question(user("u", "see app/parser_core.py"), assistant("a", "app/parser_core.py"), cut=1)
    assert judge(asked, [user("s", "/srv/app/parser_core.py")]).kept == 1
    for longer in ("app/parser_core.pyc", "app/parser_core.pyc, py", "myapp/parser_core.py, app", "app/my_parser_core.py"):
        assert judge(asked, [user("s", longer)]).kept == 0


# --- sentences


def test_b2_sentences_of_people_count_when_they_stand_verbatim() -> None:
    history = [
        user("u1", "Do not touch the\n  public names.   Write  in British English! ok\n好的。请用中文回答我的问题。"),
        user("r", result("c", "A result is no sentence of a person.")),
        user("m", "Neither is what the harness says here.", meta=True),
        user("u2", "<command-args>Write in British English!</command-args>"),
    ]
    asked = question(*history, assistant("a", "."), cut=4)
    assert asked.sentences == ("Do not touch the", "public names.", "Write in British English!", "请用中文回答我的问题。")
    view = [user("s", "Do not touch the public names. They asked for British English. 请用中文回答我的问题。", summary=True)]
    assert (judge(asked, view).sentences_kept, judge(asked, view).sentences) == (3, 4)


# --- references


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see src/app/main.py:12 and ~/x/y, /etc/hosts.", {("src/app/main.py", "path"), ("~/x/y", "path"), ("/etc/hosts", "path")}),
        ("read/write and input/output are words", set()),
        ("https://example.org/a/b", {("https://example.org/a/b", "path")}),
        ("setup.cfg, README.md", {("setup.cfg", "path"), ("README.md", "path")}),
        ("self.load_config(HTTPServer, MAX_SIZE, utf8x)", {(n, "identifier") for n in ("load_config", "HTTPServer", "MAX_SIZE", "utf8x")}),
        ("Plain Words, ALL CAPS, pre-commit", set()),
        ("commit 394f81f, id 944ab9f0-1234-4abc-8def-0123456789ab", {("394f81f", "hex"), ("944ab9f0-1234-4abc-8def-0123456789ab", "hex")}),
        ("v1.5.2, 12345 and 2026-11-30, but not 120", {("v1.5.2", "number"), ("12345", "number"), ("2026-11-30", "number")}),
        ("it said `make  test now` and “so  be it”", {("make test now", "quoted"), ("so be it", "quoted")}),
        ("`load_config` and `plainwords`", {("load_config", "identifier")}),
        ("ValueError: bad value given", {("bad value given", "error"), ("ValueError", "identifier")}),
        ("run it:\n```bash\ncd x && git rebase -i\n```", {("git rebase", "command")}),
        ("x" * 200 + "_y", set()),
    ],
)
def test_b2_references_are_of_seven_kinds(text: str, found: set[tuple[str, str]]) -> None:
    assert set(references(text)) == found


def test_b2_commands_are_taken_from_scripts_only() -> None:
    assert ("npm run", "command") in set(references("npm run build; import os", script=True))
    assert ("import os", "command") not in set(references("npm run build; import os", script=True))
    assert set(references("npm run build")) == set()
    asked = question(
        user("u", "Use npm run build."),
        assistant("a1", call("c1", "Bash", command="sleep 1")),
        assistant("a2", call("c2", "Bash", command="npm run build"), call("c3", "Write", text="npm run build")),
        cut=2,
    )
    assert [(need.reference, need.kind) for need in asked.needs] == [("npm run", "command")]


# --- a suffix of the same size


def history() -> list[Entry]:
    return [one for i in range(20) for one in (assistant(f"a{i}", FILLER, call(f"c{i}")), user(f"r{i}", result(f"c{i}", FILLER * i)))]


@given(st.integers(0, 2_000))
def test_b2_a_suffix_has_the_size_that_was_asked_for(tokens: int) -> None:
    entries = history()
    found = suffix_of(entries, 40, tokens)
    size = sum(measure_entry(one).tokens for one in found)
    assert size <= tokens
    whole = sum(measure_entry(one).tokens for one in entries)
    assert size >= min(tokens, whole) - 60, "what is left is less than the frame of a message with a call"
    assert found[1:] == entries[40 - len(found) + 1 :]


def test_b2_a_suffix_begins_with_the_end_of_the_entry_that_did_not_fit() -> None:
    entries = [user("u1", "never shown"), user("u2", "first words " * 50 + "the last words"), user("u3", "newest")]
    found = suffix_of(entries, 3, measure_entry(entries[2]).tokens + 20)
    assert [one.id for one in found] == ["u2", "u3"]
    text = found[0].blocks[0]
    assert isinstance(text, Text) and text.text.endswith("words the last words") and len(text.text) < 100
    assert suffix_of(entries, 2, 10_000) == entries[:2]


def test_b2_the_end_of_an_entry_leaves_out_what_cannot_be_cut() -> None:
    whole = assistant("a", "some text " * 40, Thinking("", "s" * 4_000), call("c", path="x.py"))
    part = end_of(whole, 100)
    assert part is not None
    assert [type(block).__name__ for block in part.blocks] == ["Text", "ToolUse"]
    assert measure_entry(part).tokens <= 100
    assert end_of(whole, 1) is None
    assert end_of(whole, 10_000) is whole
    shortened = end_of(user("r", result("c", "a long result " * 99)), 40)
    assert shortened is not None and isinstance(shortened.blocks[0], ToolResult)


def test_b2_a_suffix_goes_on_behind_thinking_that_does_not_fit() -> None:
    entries = [user("u1", "early words " * 50), assistant("a1", Thinking("", "s" * 4_000), "said"), user("u2", "newest")]
    found = suffix_of(entries, 3, 100)
    assert [one.id for one in found] == ["u1", "a1", "u2"]
    assert found[1].blocks == (Text("said"),)
    assert sum(measure_entry(one).tokens for one in found) > 90


def test_b2_lift_is_what_a_suffix_of_the_same_size_does_not_keep() -> None:
    entries = [user("u1", "early_name"), *(user(f"u{i}", FILLER * 3) for i in range(2, 8)), user("u8", "late_name")]
    asked = question(*entries, assistant("a", "early_name late_name"), cut=8)
    view = [user("s", "early_name late_name")]
    plain = suffix_of(entries, 8, judge(asked, view).tokens)
    assert (judge(asked, view).kept, judge(asked, plain).kept) == (2, 1)


# --- a real session


def test_b2_of_a_real_session_the_history_keeps_all_a_longer_suffix_never_less_and_nothing_nothing() -> None:
    path = Path(__file__).parents[2] / "examples" / "session.jsonl"
    entries = list(read_transcript(path).main.log.entries())
    found = rounds(entries)
    cut = found[len(found) // 2].start
    asked = prepare(entries, cut)
    assert len(asked.needs) >= 20 and asked.refetched > len(asked.needs)
    whole = judge(asked, entries[:cut])
    assert whole.kept == whole.context_kept == whole.needed == len(asked.needs)
    assert whole.sentences_kept == whole.sentences > 0
    assert 0 < whole.old_needed < whole.needed and 0 < whole.found_needed < whole.needed
    shares = [judge(asked, suffix_of(entries, cut, part * asked.tokens / 10)).kept for part in range(11)]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0, whole.needed)


def test_b2_the_judge_knows_nothing_of_the_summariser() -> None:
    graph = grimp.build_graph("fivefold", cache_dir=None)
    behind = graph.find_upstream_modules("fivefold.replay.retention")
    assert [module for module in behind if ".summarize" in module] == []
    assert "fivefold.core.estimate" in behind
