"""``fivefold compact``: what a user gets, where it goes, and what is refused (Z1, Z2, Z4, Z5, X1, X2, X6)."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import msgspec
import pytest

from fivefold.core.entries import Entry, Fold
from fivefold.core.view import view_of
from fivefold.errors import InputError, LockedError, UnknownModelError
from fivefold.formats.registry import read_transcript
from fivefold.report.compaction import CompactReport
from fivefold.store.session import Session
from tests.build import invariants
from tests.cli.made import LONG, NEWEST, REQUEST, done, inside, messages_file, session, told
from tests.cli.run import fivefold

ROOT = Path(__file__).parents[2]
PINNED = ROOT / "tests" / "data" / "compact"
SMALL = ("--window", "16000")
"""A window in which a summary is needed; in one of 32,000 clearing results is enough."""


def sent(path: Path) -> list[Entry]:
    """What of a file goes to the model."""
    return list(view_of(read_transcript(path).main.log).sent())


def pinned(name: str, text: str) -> None:
    """Compare with a file of tests/data/compact; FIVEFOLD_PIN=1 writes it anew."""
    path = PINNED / name
    if os.environ.get("FIVEFOLD_PIN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


# --- what is told


@pytest.mark.parametrize(("name", "options"), [("cleared", ()), ("failure", ("--window", "40000"))])
def test_z5_what_the_terminal_shows_is_as_pinned(name: str, options: tuple[str, ...]) -> None:
    """A level that is enough, and a window that the system prompt alone fills. The README has a summary, and its test runs it."""
    ran = fivefold("compact", "examples/long-session.jsonl", *options, cwd=ROOT)
    assert ran.returncode == (1 if name == "failure" else 0) and ran.stderr == ""
    assert "\x1b" not in ran.stdout and max(map(len, ran.stdout.splitlines())) <= (100 if name == "cleared" else 160)
    pinned(f"{name}.txt", ran.stdout)


def test_z2_json_has_what_the_schema_says() -> None:
    report = msgspec.json.decode(done("compact", LONG, "--json"), type=CompactReport, strict=True)
    assert (report.schema, report.model, report.success, report.output) == ("fivefold.compact/1", "claude-opus-4-5", True, None)
    assert (report.before.tokens, report.before.source, report.before.messages) == (159_501, "usage", 491)
    assert report.after.tokens < report.target == 133_600 < report.before.tokens
    assert [(level.level, level.applied) for level in report.levels] == [("snip", False), ("micro", True)]
    micro = report.levels[-1]
    assert micro.tokens_freed == report.before.tokens - report.after.tokens and len(micro.folds) == 1
    assert micro.rewrite_usd and micro.saved_per_turn_usd
    assert micro.break_even_turns == pytest.approx(micro.rewrite_usd / micro.saved_per_turn_usd)
    assert (report.llm_calls, report.prefix_breaks, report.violations) == (0, 1, ())


def test_z2_the_schema_is_as_documented() -> None:
    documented = ROOT / "docs" / "schema" / "compact-1.json"
    now = msgspec.json.format(msgspec.json.encode(msgspec.json.schema(CompactReport)), indent=2).decode() + "\n"
    if os.environ.get("FIVEFOLD_PIN"):
        documented.write_text(now, encoding="utf-8")
    assert now == documented.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", ["compact", "undo", "pin"])
def test_z2_help_is_as_pinned(command: str) -> None:
    path = ROOT / "tests" / "data" / "help" / f"{command}.txt"
    ran = fivefold(command, "--help")
    if os.environ.get("FIVEFOLD_PIN"):
        path.write_text(ran.stdout, encoding="utf-8")
    assert ran.returncode == 0 and ran.stdout == path.read_text(encoding="utf-8")


def test_z1_what_fits_is_left_as_it_is(tmp_path: Path) -> None:
    path = messages_file(tmp_path)
    report = told("compact", path, "--window", "200000")
    assert report["success"] and report["after"] == report["before"] and report["levels"] == [] and report["prefix_breaks"] == 0
    assert "nothing had to be done" in done("compact", path, "--window", "200000")


def test_z1_only_as_much_as_is_needed_is_done(tmp_path: Path) -> None:
    """Where clearing results is enough no summary is made; where it is not, the summary takes it in."""
    path = messages_file(tmp_path)
    applied = [
        [level["level"] for level in told("compact", path, "--window", window)["levels"] if level["applied"]]
        for window in ("32000", "16000")
    ]
    assert applied == [["micro"], ["manual"]]


def test_a8_a_failure_names_the_largest_parts_and_the_way_out() -> None:
    """Recorded counts tell of 41,848 tokens of system prompt and tools: more than a window of 40,000 has room for."""
    report = told("compact", LONG, "--window", "40000", code=1)
    assert not report["success"] and "system prompt and tools" in report["why"]
    assert report["largest"][0] == {"what": "system prompt and tools", "tokens": report["overhead"]}
    text = done("compact", LONG, "--window", "40000", code=1)
    assert "--overhead TOKENS" in text and f"{report['overhead']:,}" in text and "nothing was written" in text


def test_a11_the_overhead_can_be_said(tmp_path: Path) -> None:
    report = told("compact", LONG, "--window", "40000", "--overhead", "2000")
    assert report["success"] and report["overhead"] == 2_000 and report["after"]["tokens"] <= report["target"]


# --- nothing is lost, and the same input gives the same bytes


def test_x5_undone_the_first_view_is_back(tmp_path: Path) -> None:
    path = session(tmp_path)
    first = sent(path)
    report = told("compact", path, *SMALL)
    assert report["output"] == {"path": str(path), "format": "fivefold", "in_place": True, "undo": f"fivefold undo {path}"}
    assert len(sent(path)) < len(first)
    done("undo", path)
    assert sent(path) == first


def test_x5_the_command_that_brings_everything_back_does(tmp_path: Path) -> None:
    """Two folds of one run: results too large are cut, then old ones cleared. Taking back the last one alone would not be enough."""
    path = tmp_path / "giant.json"
    big = json.loads(messages_file(tmp_path).read_text())
    big[-3]["content"][0]["content"] = "one giant result\n" * 6_000
    path.write_text(json.dumps(big))
    out = tmp_path / "s.jsonl"
    report = told("compact", path, "--level", "micro", "--window", "32000", "-o", out)
    folds = [fold for level in report["levels"] for fold in level["folds"]]
    assert len(folds) == 2
    command = report["output"]["undo"].split()
    assert command[:2] == ["fivefold", "undo"] and "--fold" in command
    done(*command[1:])
    assert [entry.blocks for entry in sent(out)] == [entry.blocks for entry in sent(path)]


def test_k1_compacted_again_not_a_byte_changes(tmp_path: Path) -> None:
    path = session(tmp_path)
    done("compact", path, *SMALL)
    first = path.read_bytes()
    assert "fits as it is" in done("compact", path, *SMALL)
    assert path.read_bytes() == first


@pytest.mark.parametrize("to", ["fivefold", "anthropic", "openai", "claude-code"])
def test_i5_two_runs_write_the_same_bytes(tmp_path: Path, to: str) -> None:
    """No clock and no chance: the fold's time is that of the newest entry."""
    written = []
    for name in ("a", "b"):
        done("compact", LONG, "--window", "128000", "--to", to, "-o", tmp_path / name)
        written.append((tmp_path / name).read_bytes())
    assert written[0] == written[1]


def test_k4_what_was_folded_away_is_still_found(tmp_path: Path) -> None:
    path = session(tmp_path)
    done("compact", path, *SMALL)
    hits = json.loads(done("recall", path, "handle_case_03", "--json"))["hits"]
    assert any(hit["hidden"] for hit in hits)


def test_a_conversation_without_times_gets_no_time(tmp_path: Path) -> None:
    """Z3: a list of messages says nothing of when; a fold made in 1970 would be a false record."""
    path = session(tmp_path, "s.jsonl", *SMALL)
    log = read_transcript(path).main.log
    folds = [record for record in log.records() if isinstance(record, Fold)]
    assert folds and all(fold.time is None for fold in folds)
    assert '"time":' not in path.read_text()


# --- where the result goes


def test_z4_any_other_file_stays_as_it_is_and_without_o_nothing_is_written(tmp_path: Path) -> None:
    path = messages_file(tmp_path)
    before = path.read_bytes()
    text = done("compact", path, *SMALL)
    assert "nothing was written: -o OUT writes it" in text
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_h2_what_is_written_is_for_its_owner_only(tmp_path: Path) -> None:
    for to in ("fivefold", "anthropic"):
        out = tmp_path / to
        done("compact", messages_file(tmp_path), *SMALL, "--to", to, "-o", out)
        assert stat.S_IMODE(out.stat().st_mode) == 0o600


def test_z4_anthropic_messages_are_legal_and_hold_what_the_view_shows(tmp_path: Path) -> None:
    out = tmp_path / "request.json"
    path = messages_file(tmp_path)
    done("compact", path, *SMALL, "--to", "anthropic", "-o", out)
    made = json.loads(out.read_text())["messages"]
    assert list(invariants.check(made, allow_pending=True, strict_alternation=True)) == []
    assert len(made) < len(json.loads(path.read_text()))
    text = out.read_text()
    assert REQUEST in text and NEWEST in text
    assert f"The full transcript is kept at {path}" in text, "the messages hold the view alone, so the summary says where all of it is"


def test_z4_a_claude_code_session_keeps_its_lines_and_shows_the_folded_view(tmp_path: Path) -> None:
    out = tmp_path / "resumed.jsonl"
    report = told("compact", LONG, "--window", "128000", "--to", "claude-code", "-o", out)
    assert out.read_bytes().startswith(LONG.read_bytes())
    again = told("compact", out, "--window", "128000")
    assert again["success"] and again["levels"] == []
    assert abs(again["before"]["tokens"] - report["after"]["tokens"]) < report["after"]["tokens"] * 0.02


def test_z5_to_standard_output_the_report_goes_to_the_other_stream(tmp_path: Path) -> None:
    ran = fivefold("compact", messages_file(tmp_path), *SMALL, "--to", "openai", "-o", "-")
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["messages"] and "written to standard output (openai)" in ran.stderr
    assert "messages in view" in ran.stderr


def test_k3_the_session_is_locked_while_it_is_compacted(tmp_path: Path) -> None:
    path = session(tmp_path)
    with Session.open(path):
        assert isinstance(inside("compact", path, *SMALL).exception, LockedError)
        report = told("compact", path, *SMALL, "--dry-run")
    assert report["success"] and report["output"] is None, "looking needs no lock"


@pytest.mark.parametrize("option", ["-o", "--html"])
def test_z2_never_over_the_input(tmp_path: Path, option: str) -> None:
    path = messages_file(tmp_path)
    link = tmp_path / "link.json"
    link.symlink_to(path)
    before = path.read_bytes()
    for target in (path, link):
        failed = inside("compact", path, *SMALL, option, target, "--force")
        assert isinstance(failed.exception, InputError) and "write over the session itself" in str(failed.exception)
    assert path.read_bytes() == before


def test_z2_a_file_that_is_there_is_replaced_only_with_force(tmp_path: Path) -> None:
    path, out = messages_file(tmp_path), tmp_path / "out.json"
    out.write_text("mine")
    for to in ("fivefold", "anthropic"):
        failed = inside("compact", path, *SMALL, "--to", to, "-o", out)
        assert isinstance(failed.exception, InputError) and "--force replaces it" in str(failed.exception)
        assert out.read_text() == "mine"
    done("compact", path, *SMALL, "-o", out, "--force")
    assert read_transcript(out).format == "fivefold"


def test_x6_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    path = session(tmp_path)
    before, out = path.read_bytes(), tmp_path / "out"
    assert "nothing was written: a dry run" in done("compact", path, *SMALL, "-o", out, "--dry-run")
    assert "nothing was written: a dry run" in done("compact", path, *SMALL, "--dry-run")
    assert path.read_bytes() == before and not out.exists()


def test_a_result_that_is_no_success_is_not_written(tmp_path: Path) -> None:
    """A11: the file is not made, and what was there is not replaced."""
    out = tmp_path / "out"
    out.write_text("mine")
    done("compact", LONG, "--window", "40000", "-o", out, "--force", code=1)
    assert out.read_text() == "mine"


# --- one level, one part


def test_z1_a_level_can_be_forced(tmp_path: Path) -> None:
    path = messages_file(tmp_path)
    for level, name in (("micro", "micro"), ("auto", "manual")):
        report = told("compact", path, "--window", "100000", "--level", level)
        assert [(row["level"], row["applied"]) for row in report["levels"]] == [(name, True)]
    assert not told("compact", path, "--window", "100000", "--level", "snip", code=1)["success"], "nothing was read twice"


def test_x2_from_and_up_to_fold_one_side_of_an_entry(tmp_path: Path) -> None:
    """m30 is the result of part 14's reading; an id, the beginning of one, and the message's place all name it."""
    path, out = messages_file(tmp_path), tmp_path / "out.jsonl"
    ids = [entry.id for entry in sent(path)]
    done("compact", path, "--window", "100000", "--from", "message:30", "-o", out)
    kept = [entry.id for entry in sent(out)]
    assert kept[:28] == ids[:28] and ids[40] not in kept
    done("compact", path, "--window", "100000", "--up-to", ids[29], "-o", out, "--force")
    kept = [entry.id for entry in sent(out)]
    assert kept[-30:] == ids[-30:] and ids[10] not in kept


def test_l14_keep_holds_the_newest_verbatim(tmp_path: Path) -> None:
    """Seven rounds of two messages hold six thousand tokens; by clearing results alone, and by a summary."""
    path, out = messages_file(tmp_path), tmp_path / "out.jsonl"
    before = [entry.blocks for entry in sent(path)]
    for options, level in (((), "micro"), (("--level", "auto"), "partial")):
        report = told("compact", path, "--window", "60000", *options, "--keep", "6000", "-o", out, "--force")
        assert [row["level"] for row in report["levels"] if row["applied"]] == [level]
        assert [entry.blocks for entry in sent(out)][-14:] == before[-14:]
    report = told("compact", path, "--window", "60000", "--level", "auto", "--keep", "30000", code=1)
    assert report["why"].endswith("keep less") and report["after"] == report["before"]


@pytest.mark.parametrize(
    ("threshold", "auto"), [("12000", 12_000), ("12_000", 12_000), ("50%", 13_000), ("30 %", 7_800), ("1000000", 21_440)]
)
def test_w2_the_threshold_can_only_be_lowered(tmp_path: Path, threshold: str, auto: int) -> None:
    """A window of 32,000 has 26,000 effective tokens (with 20,000 of output) and a threshold of 21,440."""
    report = told("compact", messages_file(tmp_path), "--window", "32000", "--max-output", "20000", "--threshold", threshold, "--dry-run")
    effective = report["window"]["effective"]
    wanted = {"50%": effective // 2, "30 %": round(effective * 0.3)}.get(threshold, auto)
    assert report["window"]["auto"] == wanted
    assert bool(report["notes"]) == (threshold == "1000000")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--from", "m1", "--up-to", "m2"), "either --from or --up-to"),
        (("--level", "partial"), "needs --from ID or --up-to ID"),
        (("--level", "micro", "--from", "m1"), "leave out --level micro"),
        (("--level", "memory"), "Ports(memory="),
        (("--level", "deep"), "none of snip, micro, auto, partial"),
        (("--summarizer", "model"), "given in Python"),
        (("--summarizer", "other"), "not structural"),
        (("--threshold", "much"), "neither a number of tokens nor a percentage"),
        (("--threshold", "120%"), "at most 100"),
        (("--to", "openai"), "give -o too"),
        (("-o", "same", "--html", "same"), "same file"),
        (("--from", "message:999"), "there are 1 to 63"),
        (("--from", "m"), "63 entries begin with 'm'"),
        (("--up-to", "nobody"), "give an id, the beginning of one"),
        (("-o", "no/such/folder"), "there is no folder"),
        (("-o", "."), "is a folder"),
        (("--conversation", "7"), "no conversation '7'"),
    ],
)
def test_z2_what_cannot_be_meant_is_refused_with_the_way_out(tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    ran = fivefold("compact", messages_file(tmp_path), "--window", "32000", *options, cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (2, "") and words in ran.stderr and "Traceback" not in ran.stderr


def test_v3_an_unknown_window_is_never_guessed(tmp_path: Path) -> None:
    failed = inside("compact", messages_file(tmp_path))
    assert isinstance(failed.exception, UnknownModelError) and "--window TOKENS" in str(failed.exception)


def test_l5_instructions_without_a_model_are_said_to_do_nothing(tmp_path: Path) -> None:
    report = told("compact", messages_file(tmp_path), *SMALL, "--instructions", "keep the file names")
    assert len(report["notes"]) == 1 and "instructions had no effect" in report["notes"][0]


def test_z3_lines_that_were_not_read_are_said(tmp_path: Path) -> None:
    path = tmp_path / "damaged.jsonl"
    lines = LONG.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:40], b"{half\n", *lines[40:]]))
    notes = told("compact", path)["notes"]
    assert len(notes) == 1 and "the first is 41" in notes[0]


def test_z2_violations_of_the_result_end_with_1(tmp_path: Path) -> None:
    """A result without its call stays in the tail: it is written, and said."""
    path, out = messages_file(tmp_path), tmp_path / "out.jsonl"
    made = json.loads(path.read_text())
    made[-1]["content"] = [{"type": "tool_result", "tool_use_id": "gone", "content": "x"}, {"type": "text", "text": NEWEST}]
    path.write_text(json.dumps(made))
    report = told("compact", path, *SMALL, "-o", out, code=1)
    assert report["success"] and [row["rule"] for row in report["violations"]] == ["I1"] and out.exists()


def test_h1_recorded_text_moves_no_cursor(tmp_path: Path) -> None:
    evil = "\x1b]0;owned\x07\x1b[31mred\u202e\x9b2J"
    path = tmp_path / "evil.json"
    made = json.loads(messages_file(tmp_path).read_text().replace("src/engine", f"src/{'evil'}"))
    made[0]["content"] += evil
    made[1]["content"][1]["name"] = f"Read{evil}"
    path.write_text(json.dumps(made))
    for options in (SMALL, ("--window", "2000", "--overhead", "1900")):
        ran = inside("compact", path, *options, "--model", evil)
        assert not set(ran.output) & {"\x1b", "\x07", "\x9b", "\u202e", "\r"}


def test_p1_a_policy_file_and_the_environment_hold_and_mistakes_in_them_are_refused_by_name(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    file.write_text("[window]\nthreshold_tokens = 90_000\n", encoding="utf-8")

    def threshold(**environment: str) -> int:
        ran = fivefold("compact", "examples/long-session.jsonl", "--dry-run", "--json", "--policy", str(file), cwd=ROOT, env=environment)
        assert ran.returncode == 0, ran.stderr
        return int(json.loads(ran.stdout)["window"]["auto"])

    assert (threshold(), threshold(FIVEFOLD_WINDOW_THRESHOLD_TOKENS="80000")) == (90_000, 80_000)
    file.write_text("[window]\nthreshold_token = 60_000\n", encoding="utf-8")
    ran = fivefold("compact", "examples/long-session.jsonl", "--dry-run", "--policy", str(file), cwd=ROOT)
    assert ran.returncode == 2 and "policy.toml" in ran.stderr and "threshold_token`" in ran.stderr


@pytest.mark.parametrize("option", ["--from", "--up-to"])
def test_z2_an_empty_id_is_a_variable_that_was_never_set(option: str, tmp_path: Path) -> None:
    """And no wish for a compaction of everything, in place."""
    ran = fivefold("compact", "examples/long-session.jsonl", option, "", "--dry-run", cwd=ROOT)
    assert ran.returncode == 2 and "it is empty" in ran.stderr and ran.stdout == ""
    ran = fivefold("compact", "examples/long-session.jsonl", "--threshold", "0", "--dry-run", cwd=ROOT)
    assert ran.returncode == 2 and "--threshold" in ran.stderr and "over 0" in ran.stderr
