"""References, score, picking, calls, people, carried facts, receipt: each by itself (L6, L13, L14, C6)."""

from __future__ import annotations

import time
from math import log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold import Entry, Text, ToolResult, ToolUse
from fivefold.core.estimate import estimate_text
from fivefold.core.pairing import rounds
from fivefold.summarize.calls import Call, calls_of, error_line, fixes_of, work_on_files
from fivefold.summarize.carried import Item, background_of, plan_of
from fivefold.summarize.index import Index
from fivefold.summarize.people import people_of
from fivefold.summarize.pick import candidates, most_likely, pick
from fivefold.summarize.prose import pick_prose
from fivefold.summarize.receipt import Count, count_instructions, count_refs
from fivefold.summarize.references import Extractor, Kind, find, words_of
from fivefold.summarize.score import log_odds, probability
from fivefold.summarize.sentences import sentences_of
from fivefold.summarize.units import Unit, texts_of

from ..build import assistant, call, entry, result, user


def index_of(entries: list[Entry]) -> Index:
    return Extractor().knowing(entries).index


def units_of(entries: list[Entry]) -> list[Unit]:
    return texts_of(entries, rounds(entries)).units


# --- references


@pytest.mark.parametrize(
    ("text", "reference", "kind"),
    [
        ("see src/app/main.py, line 3", "src/app/main.py", "path"),
        ("open (config.toml)", "config.toml", "path"),
        ("call load_config() first", "load_config", "name"),
        ("the HttpClient class", "HttpClient", "name"),
        ("run it with --no-cache.", "--no-cache", "flag"),
        ("commit 3f46cfc1 broke it", "3f46cfc1", "hex"),
        ("on 2024-05-20 at noon", "2024-05-20", "number"),
        ("order 8940227892 is late", "8940227892", "number"),
        ('it says "no such table" again', "no such table", "quoted"),
        ("ValueError: the list is empty", "the list is empty", "error"),
        ("self.view.render(x)", "self.view.render", "name"),
        ("naïve_söhne is défini", "naïve_söhne", "name"),
    ],
)
def test_b2_a_reference_is_found_with_its_kind(text: str, reference: str, kind: Kind) -> None:
    extractor = Extractor()
    assert reference in extractor.of(text)
    assert extractor.kinds[reference] == kind


def test_b2_plain_words_and_line_numbers_are_no_references() -> None:
    assert Extractor().of("The quick brown fox, 12 of 340, went and stayed. OK?") == frozenset()


def test_b2_commands_are_those_of_scripts() -> None:
    extractor = Extractor()
    assert {"git rebase", "make check"} <= extractor.of_call("cd x && git rebase main\nmake check")
    assert extractor.kinds["git rebase"] == "command"


def test_b2_names_and_scripts_without_spaces_count_where_there_is_no_code() -> None:
    assert "Rossi" in Extractor(words=True).of("Yusuf Rossi lives in Philadelphia")
    assert "京都" in Extractor(words=True).of("我想去京都")
    assert Extractor().of("我想去京都2次") == frozenset()


@given(st.text(max_size=300))
def test_b2_any_text_is_read_and_what_is_found_stands_in_it(text: str) -> None:
    for words in (False, True):
        found = Extractor(words=words).of(text)
        assert all(find(text, reference) >= 0 for reference in found)
        assert found == Extractor(words=words).of(text)


def test_find_prefers_a_whole_name() -> None:
    assert find("foobar foo_x foo", "foo") == 13
    assert find("foobar", "foo") == 0
    assert find("bar", "foo") == -1


def test_words_of_a_script_without_spaces_are_pairs() -> None:
    assert words_of("Hello wide 東京都") == {"hello", "wide", "東京", "京都"}


def test_l14_indexing_is_fast() -> None:
    text = "".join(f"def handler_{i}(request, value_{i % 50}): return make_{i % 200}(request.path)  # as before\n" for i in range(12_000))
    best = min(_seconds(text) for _ in range(3))
    assert len(text) / 1e6 / best > 2, f"{len(text) / 1e6 / best:.1f} MB/s"


def _seconds(text: str) -> float:
    start = time.process_time()
    assert Extractor().of(text)
    return time.process_time() - start


# --- score


def test_l14_the_rule_is_the_studys() -> None:
    assert log_odds("name", 1, 0, 0, 1) == pytest.approx(-0.6 + 0.9 * log(2))
    assert log_odds("name", 0, 9, 99, 2) == pytest.approx(-0.6 - 0.45 * log(10) - 0.2 * log(100) - 0.8 + 0.4)
    assert log_odds("number", 0, 0, 0, 1, True) == pytest.approx(-0.6 - 0.8 - 1.1 - 0.3)
    assert probability(0.0) == 0.5


@given(st.integers(0, 50), st.integers(0, 300), st.integers(1, 500), st.integers(1, 2))
def test_l14_more_writing_later_sight_and_a_smaller_crowd_raise_the_odds(written: int, since: int, crowd: int, shown: int) -> None:
    odds = log_odds("name", written, since, crowd, shown)
    assert log_odds("name", written + 1, since, crowd, shown) > odds
    assert log_odds("name", written, since + 1, crowd, shown) < odds
    assert log_odds("name", written, since, crowd + 1, shown) < odds


def test_l14_sightings_count_by_round_and_drop_the_commonplace() -> None:
    entries = []
    for i in range(12):
        entries += [
            assistant(f"a{i}", f"see every_where and only_{i}", call(f"c{i}")),
            user(f"r{i}", result(f"c{i}", "found_one" if i == 3 else "-")),
        ]
    seen = index_of(entries).seen
    likely = most_likely(seen, (), 11, 3)
    assert sorted(likely) == ["only_10", "only_11", "only_9"]
    assert likely["only_11"] == pytest.approx(probability(log_odds("name", 1, 0, 2, 1)))
    assert "every_where" not in most_likely(seen, (), 11, 100)
    assert "only_11" not in most_likely(seen, {"only_11"}, 11, 3)


# --- picking


def test_l14_greedy_takes_most_probability_a_token_and_nothing_twice() -> None:
    entries = [
        user("u", "go"),
        assistant("a", call("c")),
        user("r", result("c", "x_one and y_two on this line of text\nx_one alone on that line of text\nz_three is improbable on its line")),
    ]
    index = index_of(entries)
    wanted = {"x_one": 0.5, "y_two": 0.5, "z_three": 0.01}
    offered = candidates(index, wanted, [False, False, True], {})
    picked = pick(index, offered, wanted, 1_000, 0.25)
    assert [snippet.text.split()[0] for snippet in picked] == ["x_one", "z_three"]
    assert pick(index, offered, wanted, 20, 0.25) == picked[:1]
    assert pick(index, offered, wanted, 3, 0.25) == []


def test_l14_prose_is_picked_outside_of_code_and_newest_first() -> None:
    decided = "I decided to keep the old parser because clients depend on it."
    told = f"{decided}\n```\ncode_inside = here and nothing else at all\n```\nLet me look at the file now:"
    index = index_of([user("u", "go"), assistant("a", told)])
    picked = pick_prose(index, [1], 1, 30, 0.25)
    assert [snippet.text for snippet in picked] == [decided]


def test_sentences_have_their_places() -> None:
    text = "The first sentence stands here. The second one, too!\n\n短い文です。もう一つの文。"
    assert [text[at : at + len(piece)] == piece for at, piece in sentences_of(text)] == [True] * 3


# --- calls


def made(*entries: Entry) -> list[Call]:
    listed = list(entries)
    return calls_of(listed, units_of(listed))


def test_l6_a_failing_command_and_what_made_it_pass() -> None:
    calls = made(
        assistant("a1", call("c1", command="cd /x && pytest -q tests/a.py")),
        user("r1", ToolResult("c1", "E  KeyError: 'x'\n1 failed", True)),
        assistant("a2", call("c2", "Edit", file_path="a.py", old_string="x", new_string="y")),
        user("r2", result("c2", "ok")),
        assistant("a3", call("c3", command="pytest -q tests/a.py")),
        user("r3", result("c3", "1 passed")),
    )
    assert [one.act for one in calls] == ["shell", "edit", "shell"]
    assert calls[0].subject == "pytest -q tests/a.py" and "KeyError" in calls[0].failed
    (fix,) = fixes_of(calls)
    assert fix.edited == ("a.py",) and fix.passed


def test_l6_a_search_that_finds_nothing_has_not_failed() -> None:
    (one,) = made(assistant("a", call("c", command="cat x | grep -c y")), user("r", ToolResult("c", "0\nExit code 1", True)))
    assert one.failed == ""


def test_l6_shell_commands_in_text_are_calls_where_the_harness_answers() -> None:
    (one,) = made(
        assistant("a", "I look.\n```bash\nsed -i 's/a/b/' lib/x.py\n```"), user("h", "<returncode>2</returncode>\nsed: no input", meta=True)
    )
    assert (one.act, one.files, one.failed) == ("shell", ("lib/x.py",), "sed: no input")


def test_l6_commands_inside_a_program_are_found() -> None:
    (one,) = made(assistant("a", ToolUse("c", "exec", 'const r = await tools.exec_command({"cmd": "rg -n \\"x\\" src"})')))
    assert one.subject == 'rg -n "x" src'


def test_l6_what_was_done_to_each_file() -> None:
    calls = made(
        assistant("a1", call("c1", "Read", file_path="a.py"), call("c2", "Write", file_path="b.py", content="x")),
        user("r1", result("c1", "text"), result("c2", "made")),
        assistant("a2", call("c3", "Edit", file_path="a.py"), call("c4", "apply_patch", input="*** Update File: c.py\n*** Add File: d.py")),
        user("r2", result("c3"), ToolResult("c4", "no", True)),
    )
    told = {work.file: (work.read, work.edited, work.created) for work in work_on_files(calls)}
    assert told == {"a.py": (1, 1, False), "b.py": (0, 0, True)}
    assert calls[3].files == ("c.py", "d.py")


def test_the_line_that_says_most_is_an_exceptions_last() -> None:
    assert error_line("Traceback (most recent call last):\n  File x\nfoo.BarError: it broke\n") == "foo.BarError: it broke"
    assert error_line("") == "no output"


# --- carried


@pytest.mark.parametrize(
    ("calls", "items"),
    [
        ([call("c", "TodoWrite", todos=[{"content": "one", "status": "pending"}])], [Item("one", "pending")]),
        ([call("c", "update_plan", plan=[{"step": "one", "status": "completed"}])], [Item("one", "completed")]),
        ([call("c", "write_to_file", task_progress="- [x] one\n- [ ] two")], [Item("one", "completed"), Item("two", "pending")]),
        (
            [
                call("c", "TaskCreate", subject="one"),
                call("d", "TaskCreate", subject="two"),
                call("e", "TaskUpdate", taskId="1", status="completed"),
            ],
            [Item("one", "completed"), Item("two", "pending")],
        ),
        ([call("c", "TodoWrite", todos=[{"content": "one"}]), call("d", "TodoWrite", todos=[{"content": "two"}])], [Item("two", "")]),
        ([call("c", "search", items=["x"])], []),
    ],
)
def test_c6_the_last_state_of_the_plan(calls: list[object], items: list[Item]) -> None:
    assert plan_of([assistant("a", *calls)]) == items  # type: ignore[arg-type]


def test_c6_background_tasks_that_were_not_seen_to_end() -> None:
    entries = [
        assistant("a1", call("c1", command="make serve"), call("c2", command="make watch")),
        user(
            "r1",
            result("c1", "Command running in background with ID: b_1. Output"),
            result("c2", "Command running in background with ID: b_2."),
        ),
        user("h", "<status>completed</status> <id>b_1</id>", meta=True),
        assistant("a2", call("c3", "Agent", prompt="look")),
        user("r3", result("c3", "Async agent launched successfully.\nagentId: ag_9 (internal)")),
        assistant("a3", call("c4", "Agent", prompt="look")),
        user("r4", result("c4", "All is well.\nagentId: ag_7 (to resume)")),
    ]
    units = units_of(entries)
    assert [task.id for task in background_of(calls_of(entries, units), units)] == ["b_2", "ag_9"]


# --- people


def said(*texts: str) -> list[Unit]:
    return units_of([user(f"u{i}", text) for i, text in enumerate(texts)])


def test_l12_over_the_budget_the_oldest_long_paste_goes_first_to_a_pointer() -> None:
    units = said("Do it.", "old paste " * 200, "new paste " * 200, "And now this.")
    people = people_of(units, lambda at: f"u{at}", 1.4 * estimate_text("new paste " * 200), estimate_text)
    assert [one.whole for one in people.said] == [True, False, True, True]
    assert "recall u1" in people.said[1].text and people.said[1].text.startswith("old paste")
    assert people.dropped == ()


def test_l12_the_first_and_the_newest_message_are_never_dropped() -> None:
    people = people_of(said(*(f"request number {i}, in some words" for i in range(50))), lambda at: f"u{at}", 20, estimate_text)
    assert [one.entry for one in people.said] == ["u0", "u49"]
    assert len(people.dropped) == 48


def test_l12_within_the_budget_all_is_verbatim() -> None:
    texts = ["First.", "x" * 5_000, "Last."]
    people = people_of(said(*texts), lambda at: f"u{at}", 1e6, estimate_text)
    assert people.texts() == texts


# --- receipt


def test_l13_references_are_counted_by_kind_and_instructions_by_sentence() -> None:
    kinds: dict[str, Kind] = {"a.py": "path", "b.py": "path", "make_x": "name"}
    assert count_refs(kinds, {"a.py", "make_x", "other"}, kinds) == {"name": Count(1, 1), "path": Count(2, 1)}
    assert count_instructions(said("Do this. Not that!"), ["… Do this. …"]) == Count(2, 1)


def test_l6_summaries_notes_and_thinking_say_nothing() -> None:
    entries = [user("s", "An earlier summary_text.", summary=True), entry("n", "note", "a note_text"), assistant("a", "words_here")]
    assert [unit.text for unit in units_of(entries)] == ["words_here"]
    assert units_of([user("u", Text("  "))]) == []


def test_c6_a_list_of_another_tool_is_no_plan() -> None:
    """A tool's input may hold a list of items that are no steps."""
    todo = assistant("a", call("t1", "TodoWrite", todos=[{"content": "Mend it.", "status": "pending"}]))
    order = assistant("b", call("t2", "PlaceOrder", items=[{"name": "A book."}]))
    assert plan_of([todo, order]) == [Item("Mend it.", "pending")]
    assert plan_of([assistant("c", call("t3", "update_tasks", tasks=[{"content": "Test it."}]))]) == [Item("Test it.", "")]


def test_c6_a_task_that_runs_is_named_by_the_call_that_started_it() -> None:
    entries = [
        user("u", "Watch it."),
        assistant("a", call("t1", "Bash", command="make watch"), api_id="m"),
        user("r", result("t1", "Command running in background with ID: bash_7")),
    ]
    units = units_of(entries)
    (task,) = background_of(calls_of(entries, units), units)
    assert (task.id, task.started_by) == ("bash_7", "Bash: make watch")


def test_l14_a_name_is_written_once_a_round_and_by_the_assistant() -> None:
    entries = [
        user("u", "Look at load_config."),
        assistant("a1", "I see load_config, and load_config again.", call("t1", "Read", file_path="x.py"), api_id="m1"),
        user("r1", result("t1", "def load_config(): ...\ndef other_name(): ...")),
        assistant("a2", "load_config it is.", api_id="m2"),
    ]
    seen = index_of(entries).seen
    assert (seen["load_config"].written, seen["other_name"].written) == (2, 0)


def test_b2_short_words_in_a_conversation_without_code_are_no_names() -> None:
    """Names begin with a capital and have at least four letters."""
    assert [found in Extractor(words=True).of("Ask Tom and Anna, please") for found in ("Anna", "Tom", "please")] == [True, False, False]


def test_b2_a_path_has_letters_and_more_than_five_characters() -> None:
    assert [found in Extractor().of(f"see {found} there") for found in ("a/b.py", "a/b.c", "1/2/3/4", "src/x")] == [
        True,
        False,
        False,
        False,
    ]
