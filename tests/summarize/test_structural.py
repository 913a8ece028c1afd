"""The summary without a model (L6, L14), over any conversation and over small ones whose summary is told in full."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import fivefold
from fivefold import Entry, Fold, HideSpan, Log, ReplaceBlocks, Text, ToolResult, outgoing, read_transcript, view_of, violations
from fivefold.core.estimate import estimate_text, measure_entry
from fivefold.core.pairing import legal_cuts, pair
from fivefold.core.pairing import rounds as rounds_of
from fivefold.summarize.calls import calls_of, error_line
from fivefold.summarize.people import people_of
from fivefold.summarize.references import Extractor
from fivefold.summarize.structural import Budget, StructuralPlan, plan
from fivefold.summarize.units import texts_of

from ..build import DATA, assistant, call, entry, result, user
from ..corpus import samples

WORDS = (
    "src/app/main.py",
    "load_config",
    "`make test`",
    "--verbose",
    "deadbeef01",
    "plain words",
    "Übergrößen",
    "修改文件",
    "12345",
    "\n",
    " ",
)


def size(one: Entry) -> float:
    return measure_entry(one).tokens


def planned(entries: list[Entry], threshold: float, **more: object) -> StructuralPlan | None:
    return plan(entries, size_of=size, estimate=estimate_text, target=Budget.of(threshold), **more)  # type: ignore[arg-type]


def tokens(entries: list[Entry]) -> float:
    return sum(map(size, entries))


def shown(entries: list[Entry], made: StructuralPlan) -> list[Entry]:
    """The view after the fold, by the log's own rules."""
    summary = user("summary", made.summary, summary=True)
    standing = [one for one in entries if one.id in made.standing]
    span = HideSpan(entries[made.cut - 1].id, entries[made.start].id, (summary, *standing))
    shrunk = tuple(ReplaceBlocks((target,), (text,)) for target, text in made.middle)
    log = Log(records=[*entries, Fold(id="f", level="auto", changes=(*shrunk, span))])
    return list(view_of(log).entries())


# --- any conversation


@st.composite
def conversations(draw: st.DrawFn) -> list[Entry]:
    """Rounds of prose and calls, results at once, late or never, people in between."""
    text = st.lists(st.sampled_from(WORDS), min_size=1, max_size=12).map(" ".join)
    entries: list[Entry] = [entry("s", "system", "Be brief.")] if draw(st.booleans()) else []
    waiting: list[str] = []
    for i in range(draw(st.integers(0, 14))):
        kind = draw(st.sampled_from(("person", "round", "round", "harness", "note", "summary", "late")))
        if kind == "person":
            entries.append(user(f"u{i}", draw(text) * draw(st.sampled_from((1, 1, 40)))))
        elif kind == "harness":
            entries.append(user(f"h{i}", draw(text), meta=True))
        elif kind == "summary":
            entries.append(user(f"y{i}", draw(text), summary=True))
        elif kind == "note":
            entries.append(entry(f"n{i}", "note", draw(text)))
        elif kind == "late":
            if waiting:
                entries.append(user(f"l{i}", result(waiting.pop(), draw(text))))
        else:
            name = draw(st.sampled_from(("Bash", "Read", "Edit", "TodoWrite", "lookup")))
            given_input = draw(
                st.sampled_from(({"command": "make test"}, {"file_path": "src/a.py"}, {"todos": [{"content": "x"}]}, {}, "odd"))
            )
            entries.append(
                assistant(f"a{i}", draw(text), call(f"c{i}", name) if isinstance(given_input, str) else call(f"c{i}", name, **given_input))
            )
            if draw(st.booleans()):
                content = draw(text) * draw(st.sampled_from((1, 5, 200)))
                entries.append(user(f"r{i}", ToolResult(f"c{i}", content, draw(st.booleans()))))
            else:
                waiting.append(f"c{i}")
    return entries


@given(conversations(), st.sampled_from((50, 400, 2_000, 20_000)))
def test_l6_any_conversation_has_a_legal_deterministic_plan_or_none(entries: list[Entry], threshold: int) -> None:
    made = planned(entries, threshold)
    assert made == planned(entries, threshold)
    if made is None:
        return
    assert 0 <= made.start < made.cut <= len(entries)
    assert legal_cuts(entries)[made.cut]
    assert all(place.entry >= made.cut for place in pair(entries).open)
    assert made.receipt.entries == made.cut - made.start
    ids = {one.id: i for i, one in enumerate(entries)}
    for target, text in made.middle:
        at = ids[target.entry]
        assert made.cut <= at
        block = entries[at].blocks[target.block]
        assert isinstance(block, ToolResult | Text)
        assert len(text) < len(block.text if isinstance(block, Text) else str(block.content))


@given(conversations())
def test_l6_the_view_behind_the_fold_breaks_no_rule_that_the_conversation_kept(entries: list[Entry]) -> None:
    made = planned(entries, 400)
    if made is not None and not violations(entries):
        assert violations(shown(entries, made)) == []
        assert outgoing(shown(entries, made)).messages


@given(conversations())
def test_l12_peoples_words_stand_verbatim_where_their_budget_holds_them(entries: list[Entry]) -> None:
    made = planned(entries, 100_000)
    if made is None:
        return
    for one in entries[made.start : made.cut]:
        if one.kind == "user" and not one.meta and not one.summary:
            assert all(block.text.strip() in made.summary for block in one.blocks if isinstance(block, Text))


def long_conversation(rounds: int, result_chars: int = 2_000) -> list[Entry]:
    """A request every tenth round; each round reads one file and says what it saw."""
    entries: list[Entry] = []
    for i in range(rounds):
        if i % 10 == 0:
            entries.append(user(f"u{i}", f"Please look at module_{i} next, and keep the tests green."))
        entries.append(
            assistant(
                f"a{i}", f"The function handle_{i} in src/part_{i % 7}/file_{i}.py needs a look.", call(f"c{i}", "Read", path=f"f{i}.py")
            )
        )
        line = f"def helper_{i}(value_{i % 5}): return compute_{i % 11}(value_{i % 5})\n"
        entries.append(user(f"r{i}", result(f"c{i}", line * (result_chars // len(line)))))
    return entries


@pytest.mark.parametrize("threshold", [12_000, 20_000, 60_000])
def test_l14_the_view_stays_within_its_budget(threshold: int) -> None:
    entries = long_conversation(120)
    made = planned(entries, threshold)
    assert made is not None
    budget = Budget.of(threshold)
    view = shown(entries, made)
    assert tokens(view) <= 1.05 * budget.total, (tokens(view), budget.total)
    assert estimate_text(made.summary) <= 1.05 * (budget.picked + budget.prose + budget.calls + budget.facts + budget.people)


def test_l14_a_digest_made_anew_does_not_grow_with_the_conversation() -> None:
    sizes = []
    for rounds in (100, 200, 400):
        made = planned(long_conversation(rounds), 20_000)
        assert made is not None
        sizes.append(estimate_text(made.summary))
    assert max(sizes) <= 1.05 * sum(Budget.of(20_000)[2:7])


def test_l14_the_tail_has_a_floor_of_three_rounds() -> None:
    entries = long_conversation(40)
    made = planned(entries, 20_000)
    assert made is not None
    shrunk = {target.entry for target, _ in made.middle}
    whole = [one for one in entries[made.cut :] if one.kind == "assistant"]
    last = [one.id for one in whole[-3:]]
    assert last == ["a37", "a38", "a39"]
    assert not shrunk & {"r37", "r38", "r39"}


def test_l14_a_giant_last_result_shrinks_and_keeps_its_start_its_end_and_what_was_picked() -> None:
    lines = [f"line {i} of the listing" for i in range(6_000)]
    lines[3_000] = "the wanted_setting_here is set on this line of the listing"
    entries = [*long_conversation(20), assistant("ax", "I look for wanted_setting_here.", call("cx", command="cat log"))]
    entries.append(user("rx", result("cx", "\n".join(lines))))
    made = planned(entries, 20_000)
    assert made is not None
    text = {target.entry: text for target, text in made.middle}["rx"]
    assert text.startswith("line 0 of") and text.endswith("line 5999 of the listing")
    assert len(text) < 6_000


def test_l14_results_of_the_middle_shrink_to_lines_and_the_assistant_stays_whole() -> None:
    entries = long_conversation(60)
    made = planned(entries, 20_000)
    assert made is not None
    assert made.middle
    assert all("characters" in text.splitlines()[0] for _, text in made.middle)
    kept = [one for one in shown(entries, made) if one.kind == "assistant"]
    assert kept == [one for one in entries[made.cut :] if one.kind == "assistant"]


def test_l14_results_that_stand_in_the_assistants_text_shrink_too() -> None:
    told = "<tool-use data-tool-name='Read'><summary>Tool use: **Read**</summary>\n" + "a line of the file_shown here\n" * 900
    entries = [one for i in range(12) for one in (user(f"u{i}", f"Look at part_{i}."), assistant(f"a{i}", told, api_id=f"m{i}"))]
    made = planned(entries, 12_000)
    assert made is not None
    assert made.middle
    assert tokens(shown(entries, made)) <= 1.05 * Budget.of(12_000).total


def test_l14_identical_lines_come_once() -> None:
    made = planned(long_conversation(60), 20_000)
    assert made is not None
    lines = [line for line in made.summary.splitlines() if "def helper_" in line]
    assert lines
    assert len(lines) == len(set(lines))


def test_i9_a_late_result_moves_the_cut_back_never_forward() -> None:
    entries = long_conversation(40)
    late = [
        entries[0],
        assistant("a-late", call("c-late", command="sleep 100")),
        *entries[1:-4],
        user("r-late", result("c-late", "woke up")),
        *entries[-4:],
    ]
    made = planned(late, 12_000)
    assert made is None or made.cut <= 1


def test_c6_system_entries_inside_the_span_are_named_to_be_shown_again() -> None:
    entries = long_conversation(40)
    entries[10:10] = [entry("s1", "system", "Answer in French."), entry("s2", "system", "Answer in French.")]
    made = planned([entry("s0", "system", "Be brief."), *entries], 12_000)
    assert made is not None
    assert made.start == 1
    assert made.standing == ("s2",)
    assert "French" not in made.summary


def test_x7_pins_stand_verbatim() -> None:
    made = planned(long_conversation(40), 12_000, pins=["Never touch the production database."])
    assert made is not None
    assert "Pinned: Never touch the production database." in made.sections[0].text


def test_a_memory_of_texts_changes_nothing() -> None:
    entries = long_conversation(80)
    known = Extractor()
    for upto in (60, 120, len(entries)):
        assert planned(entries[:upto], 12_000, known=known) == planned(entries[:upto], 12_000)


def test_l6_the_same_bytes_whatever_the_seed_of_hashing() -> None:
    script = (
        "import sys; from fivefold import read_transcript; from fivefold.core.estimate import *\n"
        "from fivefold.summarize.structural import *\n"
        "e = list(read_transcript(sys.argv[1]).main.log.entries());"
        "p = plan(e, size_of=lambda x: measure_entry(x).tokens, estimate=estimate_text, target=Budget.of(3000)); print(ascii(p))"
    )
    path = str(DATA / "mini_swe" / "text_mode.traj.json")
    said = {
        subprocess.run(
            [sys.executable, "-c", script, path],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": str(Path(fivefold.__file__).parents[1])},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(said) == 1
    assert "StructuralPlan" in said.pop()


@pytest.mark.parametrize(
    "path", [sample.path for sample in samples() if sample.path.is_relative_to(DATA)], ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_l6_every_recorded_format_has_a_summary_or_nothing_to_fold(path: Path) -> None:
    if path.parent.name in ("tokens", "models", "checks", "licences", "help"):
        return
    for conversation in read_transcript(path).conversations:
        entries = list(conversation.log.entries())
        made = planned(entries, max(800.0, tokens(entries) / 2), cwd=conversation.log.head.cwd)
        assert made is None or made.summary.startswith("## 1. ") or made.sections


# --- a small one, in full


def small() -> list[Entry]:
    """A repair: a failing test, a plan, an edit, a passing test, and a second request."""
    todos = [{"content": "Find the fault", "status": "completed"}, {"content": "Write a changelog entry", "status": "in_progress"}]
    return [
        user("u1", "The parser drops the last line. Please repair it. Do not change the public names."),
        assistant("a1", "I run the tests first.", call("c1", "Bash", command="cd /srv/app && pytest tests/test_parser.py")),
        user("r1", ToolResult("c1", "E  AssertionError: expected 3 lines, got 2\n1 failed in 0.12s\nExit code 1", is_error=True)),
        assistant(
            "a2",
            "`read_lines` stops one too early, because range() ends before its bound.",
            call("c2", "Read", file_path="/srv/app/src/parser.py"),
        ),
        user(
            "r2",
            result(
                "c2",
                "import io\n\ndef read_lines(text):\n    lines = text.splitlines()\n    return [lines[i] for i in range(len(lines) - 1)]\n",
            ),
        ),
        assistant(
            "a3", call("c3", "Edit", file_path="/srv/app/src/parser.py", old_string="range(len(lines) - 1)", new_string="range(len(lines))")
        ),
        user("r3", result("c3", "The file src/parser.py has been updated.")),
        assistant("a4", call("c4", "TodoWrite", todos=todos), call("c5", "Bash", command="cd /srv/app && pytest tests/test_parser.py")),
        user("r4", result("c4", "ok"), result("c5", "3 passed in 0.10s")),
        user("u2", "Good. Now a changelog entry, in one sentence."),
        assistant("a5", "I look where the others are.", call("c6", "Bash", command="ls changelog.d")),
        user("r5", result("c6", "added-1.md\nfixed-2.md")),
        assistant(
            "a6",
            "They are one file each.",
            call("c7", "Write", file_path="/srv/app/changelog.d/fixed-3.md", content="The last line is read."),
        ),
        user("r6", result("c7", "File created.")),
        assistant("a7", "Done."),
    ]


SMALL = """\
## 1. Primary request and intent
First request:
The parser drops the last line. Please repair it. Do not change the public names.
Newest request:
Good. Now a changelog entry, in one sentence.

## 2. Key technical concepts
Commands run: pytest tests/test_parser.py ×2

## 3. Files and code
- /srv/app/src/parser.py: edited, read

## 4. Errors and fixes
- Bash: pytest tests/test_parser.py
  E AssertionError: expected 3 lines, got 2
  → passed after edits of src/parser.py

## 5. Problem solving and decisions, in the assistant's words
- `read_lines` stops one too early, because range() ends before its bound.

## 7. Pending tasks
- [in_progress] Write a changelog entry
Done: Find the fault

## 8. Current work
- `read_lines` stops one too early, because range() ends before its bound.

## 9. Next step
In progress: Write a changelog entry
The last the assistant said here: “`read_lines` stops one too early, because range() ends before its bound.”

## Record of the calls, oldest first, with lines picked from them
- [message 1]
- Bash: pytest tests/test_parser.py → failed: E AssertionError: expected 3 lines, got 2
  1 failed in 0.12s
  Exit code 1
- Read: src/parser.py
  lines = text.splitlines()
      return [lines[i] for i in range(len(lines) - 1)]
- Edit: src/parser.py
- TodoWrite: Find the fault completed Write a changelog entry in_progress
- Bash: pytest tests/test_parser.py
  3 passed in 0.10s"""


def test_l6_a_small_summary_in_full() -> None:
    budget = Budget.of(3_000)._replace(middle=0, calls=400)
    made = plan(small(), size_of=size, estimate=estimate_text, target=budget, cwd="/srv/app")
    assert made is not None
    assert made.summary == SMALL
    assert made.cut == 10
    assert made.receipt.user_instructions.folded == made.receipt.user_instructions.still_in_view == 5
    assert made.receipt.never_saw == {}


def test_l3_the_sections_come_in_their_order_and_empty_ones_say_nothing() -> None:
    made = planned(long_conversation(40), 12_000)
    assert made is not None
    titles = [section.title for section in made.sections]
    numbers = [title[0] for title in titles if title[0].isdigit()]
    assert numbers == sorted(numbers)
    assert "7. Pending tasks" not in titles and "4. Errors and fixes" not in titles
    assert all(section.text for section in made.sections)
    assert made.summary == "\n\n".join(f"## {section.title}\n{section.text}" for section in made.sections)


def test_l14_works_for_conversations_without_code_and_in_other_scripts() -> None:
    entries: list[Entry] = []
    houses = [f"{one}{two}庵" for one in "松竹梅桜楓柳" for two in "風月雪花鳥川山"]
    for i, house in enumerate(houses[:40]):
        entries.append(user(f"u{i}", "请继续。" if i else "我想预订去京都的酒店，五月三日入住。"))
        entries.append(assistant(f"a{i}", f"下一家是{house}，请稍等。", call(f"c{i}", "查询", 城市="京都")))
        entries.append(user(f"r{i}", result(f"c{i}", f"旅馆名称：{house}，地址：东山区清水寺附近，价格每晚两万日元，联系人：田中先生。")))
    made = planned(entries, 6_000)
    assert made is not None
    assert "[2–" in made.summary
    assert "我想预订去京都的酒店" in made.summary
    kept = [house for house in houses[: made.cut // 3] if house in made.summary]
    assert len(kept) > made.cut // 6


# --- people's words, wherever they stand


def section(made: StructuralPlan, number: int) -> str:
    """The text of a section, without its title."""
    return next((one.text for one in made.sections if one.title.startswith(f"{number}.")), "")


def chat(count: int, rule_at: int = 3) -> list[Entry]:
    """Many rounds of small talk, and a rule that was said once."""
    entries: list[Entry] = []
    for n in range(count):
        words = "Never delete the archive table." if n == rule_at else f"ok continue with item {n}, thanks"
        entries += [user(f"u{n}", words), assistant(f"a{n}", f"Item {n} is done. " + "It took a while. " * 40, api_id=f"m{n}")]
    return entries


def test_c6_l12_a_rule_that_was_said_once_outlives_small_talk() -> None:
    """Where people's words have to go, those go first that say what all the others say, in whatever language."""
    found = people_of(texts_of(chat(200), rounds_of(chat(200))).units, lambda i: f"e{i}", 120.0, lambda text: len(text) / 4)
    assert found.dropped and "Never delete the archive table." in found.texts()
    chinese = [user(f"u{n}", "绝对不要删除归档表。" if n == 3 else f"好的，继续第{n}项，谢谢") for n in range(60)]
    kept = people_of(texts_of(chinese, rounds_of(chinese)).units, lambda i: f"e{i}", 60.0, lambda text: float(len(text)))
    assert kept.dropped and "绝对不要删除归档表。" in kept.texts()


def test_l12_peoples_words_take_more_than_their_share_where_nothing_else_has_to_go_for_it() -> None:
    entries = [
        entry
        for n in range(60)
        for entry in (user(f"u{n}", f"Point {n}: " + f"word{n} " * 30), assistant(f"a{n}", "Yes. " * 200, api_id=f"m{n}"))
    ]
    made = planned(entries, 27_000)
    assert made is not None and all(f"Point {n}: word{n}" in made.summary for n in range(made.cut // 2))


def test_c6_what_a_person_answered_to_a_tool_is_their_word_and_no_error() -> None:
    entries = [
        user("u", "Set up the store."),
        assistant("a", call("t1", "AskUserQuestion", questions=[{"question": "Which database?"}]), api_id="m1"),
        user("r", result("t1", 'User has answered your questions: "Which database?"="CockroachDB".')),
        assistant("b", call("t2", "Edit", file_path="a.py"), api_id="m2"),
        user(
            "s", ToolResult("t2", "The user doesn't want to proceed with this tool use. the user said:\nKeep a.py as it is.", is_error=True)
        ),
        *chat(40),
    ]
    made = planned(entries, 8_000)
    assert made is not None
    spoken = section(made, 6)
    assert "CockroachDB" in spoken and "Keep a.py as it is." in spoken and "Keep a.py" not in section(made, 4)
    assert section(made, 1).startswith("First request:\nSet up the store.")


def test_l3_a_bare_command_is_no_request() -> None:
    entries = [user("c", "/clear"), user("u", "Mend the parser."), *chat(40)]
    made = planned(entries, 8_000)
    assert made is not None and section(made, 1).startswith("First request:\nMend the parser.")


def test_c5_c6_project_rules_that_the_harness_told_at_the_start_stay() -> None:
    rules = "# AGENTS.md instructions\n" + "Use tabs, and never commit to main. " * 60
    made = planned([user("e", "Context.", meta=True), user("u", "Go."), user("x", rules, meta=True), *chat(120)], 8_000)
    assert made is not None and "From the start, by the harness:\n# AGENTS.md instructions" in made.summary


def test_l6_the_end_of_a_block_of_code_opens_no_command() -> None:
    text = "Like this:\n```python\nx = 1\n```\nI need to think.\n```\nls -la\n```"
    entries = [user("u", "Go."), assistant("a", text, api_id="m"), user("h", "total 0", meta=True), assistant("b", "Fine.", api_id="n")]
    units = texts_of(entries, rounds_of(entries)).units
    assert [made.subject for made in calls_of(entries, units)] == ["ls -la"]


def test_l6_what_a_harness_writes_around_an_output_is_no_error() -> None:
    assert error_line("Chunk ID: f11ee0\nWall time: 0.1 seconds\nProcess exited with code 1\nOutput:\n") == "no output"
    assert error_line("make: *** [all] stopped\nCommand exited with code 2") == "make: *** [all] stopped"
