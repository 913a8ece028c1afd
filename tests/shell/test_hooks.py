"""Hooks: what they may say, and that nothing they do hurts (P2, C5, R5). Commands are real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from fivefold.core.events import HookAnswered
from fivefold.errors import PolicyError
from fivefold.hooks import MOST_CHARS, NO_REASON, Hooks

PAYLOAD: dict[str, Any] = {"trigger": "auto", "tokens": 1234, "instructions": ["keep paths"], "source": "main"}


def python(code: str) -> list[str]:
    """A command that runs some Python."""
    return [sys.executable, "-c", code]


def answered(*hooks: Any, name: Any = "pre_compact", payload: dict[str, Any] = PAYLOAD, seconds: float = 20.0) -> HookAnswered:
    """What these hooks say."""
    all = Hooks()
    for hook in hooks:
        all.add(name, hook)
    return all.run(name, payload, seconds)


def until(true: Any, seconds: float = 20.0) -> bool:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if true():
            return True
        time.sleep(0.02)
    return False


def is_running(pid: int) -> bool:
    """Whether a process is there and is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


# --- what they are told and what they may say


def test_p2_functions_and_commands_of_one_name_run_in_the_order_they_were_added() -> None:
    got = answered(
        lambda payload: f"first of {payload['tokens']}",
        python("import json,sys; print('second of', json.load(sys.stdin)['tokens'])"),
        "printf 'third by the shell'",
        lambda payload: None,
        name="session_start",
    )
    assert got == HookAnswered(name="session_start", context=("first of 1234", "second of 1234", "third by the shell"))


def test_p2_names_are_those_that_somebody_listens_on() -> None:
    hooks = Hooks()
    assert hooks.names() == frozenset()
    hooks.add("post_compact", "true")
    hooks.add("stop_failure", lambda payload: None)
    assert hooks.names() == {"post_compact", "stop_failure"}
    assert hooks.run("pre_compact", PAYLOAD, 1.0) == HookAnswered(name="pre_compact")


@pytest.mark.parametrize(
    ("name", "hook"),
    [
        ("precompact", "true"),
        ("pre_compact", "  "),
        ("pre_compact", []),
        ("pre_compact", [" "]),
        ("pre_compact", ["ls", 3]),
        ("pre_compact", b"ls"),
        ("pre_compact", None),
    ],
)
def test_p2_what_cannot_be_a_hook_is_refused_when_it_is_added(name: Any, hook: Any) -> None:
    hooks = Hooks()
    with pytest.raises(PolicyError):
        hooks.add(name, hook)
    assert hooks.names() == frozenset()


def test_p2_a_coroutine_function_is_refused_and_not_left_unawaited() -> None:
    async def hook(payload: dict[str, Any]) -> None: ...

    with pytest.raises(PolicyError, match="coroutine"):
        Hooks().add("pre_compact", hook)  # type: ignore[arg-type]


def test_p2_instructions_and_context_from_an_object() -> None:
    said = {"instructions": "keep the ids", "additional_context": "RULES-V7", "veto": "", "block": False}
    expected = HookAnswered(name="pre_compact", instructions=("keep the ids",), context=("RULES-V7",))
    assert answered(lambda payload: said) == expected
    assert answered(python(f"print({json.dumps(said)!r})")) == expected


@pytest.mark.parametrize("said", [{"veto": "tests run"}, {"block": "tests run"}, {"decision": "block", "reason": "tests run"}])
def test_p2_a_veto_is_told_with_its_reason_by_function_and_by_command(said: dict[str, str]) -> None:
    for hook in (lambda payload: said, python(f"print({json.dumps(said)!r})")):
        assert answered(hook) == HookAnswered(name="pre_compact", veto="tests run")


@pytest.mark.parametrize("said", [{"veto": True}, {"block": True}, {"decision": "block"}])
def test_p2_a_veto_without_a_reason_is_one(said: dict[str, Any]) -> None:
    assert answered(lambda payload: said).veto == NO_REASON


def test_p2_exit_code_2_refuses_with_the_reason_from_standard_error() -> None:
    got = answered(python("import sys; print('not this'); print('a deploy is running', file=sys.stderr); sys.exit(2)"))
    assert got == HookAnswered(name="pre_compact", veto="a deploy is running")
    assert answered("exit 2").veto == NO_REASON


def test_p2_all_hooks_run_though_one_refused_and_all_reasons_are_told() -> None:
    got = answered("echo one >&2; exit 2", lambda payload: {"veto": "two"}, lambda payload: {"instructions": "three"})
    assert (got.veto, got.instructions, got.failed) == ("one; two", ("three",), ())


@pytest.mark.parametrize("name", ["post_compact", "session_start", "stop_failure"])
def test_p2_only_before_a_compaction_can_a_hook_refuse(name: str) -> None:
    got = answered("echo too late >&2; exit 2", lambda payload: {"veto": "no", "additional_context": "kept"}, name=name)
    assert got.veto == "" and got.context == ("kept",)
    assert len(got.failed) == 2 and all("only a pre_compact or a stop hook can" in why for why in got.failed)


def test_c5_a_hook_written_for_claude_code_puts_its_context_back() -> None:
    script = """
import json, sys
told = json.load(sys.stdin)
assert told["hook_event_name"] == "SessionStart" and told["source"] == "compact"
print(json.dumps({"continue": True, "hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": "project rules"}}))
"""
    got = answered(python(script), name="session_start", payload={**PAYLOAD, "source": "compact"})
    assert got == HookAnswered(name="session_start", context=("project rules",))


@pytest.mark.parametrize(
    ("printed", "context"),
    [
        ("plain\nlines\n", "plain\nlines"),
        ('"a JSON string"', "a JSON string"),
        ("null", ""),
        ("  \n", ""),
        ("42", "42"),
        ("[1, 2]", "[1, 2]"),
        ("Done {ok}", "Done {ok}"),
    ],
)
def test_c5_what_a_command_prints_is_context_unless_it_is_an_object(printed: str, context: str) -> None:
    got = answered(python(f"print({printed!r})"), name="session_start")
    assert got.context == ((context,) if context else ()) and got.failed == ()


def test_p2_a_hook_cannot_change_what_the_next_one_is_told() -> None:
    def spoil(payload: dict[str, Any]) -> None:
        payload["instructions"].append("spoiled")
        payload.clear()

    payload = json.loads(json.dumps(PAYLOAD))
    got = answered(spoil, lambda told: ",".join(told["instructions"]), name="session_start", payload=payload)
    assert got.context == ("keep paths",) and payload == PAYLOAD


def test_p2_half_a_surrogate_pair_hurts_neither_the_command_nor_what_it_says() -> None:
    echo = python("import json,sys; print(json.dumps({'additional_context': ascii(json.load(sys.stdin)['text'])}))")
    got = answered(echo, lambda told: told["text"], name="session_start", payload={"text": "a\ud800b 世界"})
    assert got.context == ("'a\\ud800b \\u4e16\\u754c'", "a\ufffdb 世界") and got.failed == ()


# --- what goes wrong is told and changes nothing


def failing(payload: dict[str, Any]) -> None:
    raise KeyError("no such thing")


def test_p2_an_exception_is_told_and_the_next_hook_runs() -> None:
    got = answered(failing, lambda payload: {"instructions": "still here"})
    assert got.instructions == ("still here",) and got.veto == ""
    assert got.failed == ("hook 1 (failing): it raised KeyError: 'no such thing'",)


def test_p2_a_hook_that_calls_exit_ends_itself_and_not_us() -> None:
    got = answered(lambda payload: sys.exit(2))
    assert got.veto == "" and "SystemExit: 2" in got.failed[0]


def test_p2_an_exception_that_cannot_even_be_shown_is_told() -> None:
    class Odd(Exception):
        def __str__(self) -> str:
            raise ValueError("no words")

    def hook(payload: dict[str, Any]) -> None:
        raise Odd

    assert "Odd" in answered(hook).failed[0]


@pytest.mark.parametrize(
    ("hook", "why"),
    [
        ("echo broken >&2; exit 3", "it ended with code 3: broken"),
        ("kill -9 $$", "it was ended by signal 9"),
        (["no-such-program-here"], "it can't be started"),
        (["true", "a\0b"], "it can't be started"),
        ("echo '{\"veto\": '", "begins like a JSON object and can't be read"),
        ("echo '{}' '{'", "begins like a JSON object and can't be read"),
        (lambda payload: 7, "it returned an int, not a dict, a text or None"),
        (lambda payload: ["a"], "it returned a list"),
        (lambda payload: {"additional_context": 5}, "its additional_context is an int, not a text"),
        (lambda payload: {"veto": 1}, "its veto is an int, not a text"),
        (lambda payload: {"aditional_context": "lost"}, "it said aditional_context, which means nothing here"),
    ],
)
def test_p2_each_way_to_fail_is_named_and_refuses_nothing(hook: Any, why: str) -> None:
    got = answered(hook)
    assert (got.context, got.instructions, got.veto) == ((), (), "")
    assert len(got.failed) == 1 and why in got.failed[0]


def test_p2_a_failure_names_the_program_and_not_the_whole_command_line() -> None:
    (why,) = answered(["sh", "-c", "exit 9", "token-0123456789"]).failed
    assert why.startswith("hook 1 (sh): ") and "token" not in why


def test_h4_a_deeply_nested_answer_is_refused_and_not_a_crash() -> None:
    (why,) = answered(python("print('{\"veto\": ' + '[' * 100_000)")).failed
    assert "can't be read" in why


# --- bounded in time


def test_p2_a_slow_function_costs_its_time_and_its_late_answer_is_dropped() -> None:
    go, ended = threading.Event(), threading.Event()

    def slow(payload: dict[str, Any]) -> dict[str, str]:
        go.wait(30)
        ended.set()
        return {"veto": "too late"}

    began = time.monotonic()
    got = answered(slow, lambda payload: {"instructions": "next"}, seconds=0.2)
    assert time.monotonic() - began < 5
    go.set()
    assert ended.wait(20)
    assert got == HookAnswered(name="pre_compact", instructions=("next",), failed=("hook 1 (slow): it has not answered within 0.2 s",))


def test_p2_a_slow_command_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    began = time.monotonic()
    got = answered(f"sleep 60 & echo $! $$ > '{pids}'; wait", seconds=2.0)
    assert time.monotonic() - began < 15
    assert got.failed == ("hook 1 (sleep): it has not ended within 2 s and was killed",)
    child, shell = map(int, pids.read_text().split())
    assert until(lambda: not is_running(child) and not is_running(shell), 5)


def test_p2_a_command_that_ignores_a_polite_end_is_killed_all_the_same() -> None:
    began = time.monotonic()
    got = answered("trap '' TERM INT HUP; while :; do sleep 1; done", seconds=0.5)
    assert time.monotonic() - began < 10 and "was killed" in got.failed[0]


def test_p2_what_a_command_leaves_running_does_not_hold_us_up(tmp_path: Path) -> None:
    go, late = tmp_path / "go", tmp_path / "late"
    got = answered(f"(while [ ! -e '{go}' ]; do sleep 0.05; done; echo done > '{late}') & echo ready", name="session_start")
    assert got == HookAnswered(name="session_start", context=("ready",))
    go.touch()
    assert until(late.exists), "it was to go on in the background"


def test_p2_a_command_that_does_not_read_a_long_payload_costs_its_time_and_no_more() -> None:
    payload = {"text": "x" * 1_000_000}
    assert answered("echo fine", name="session_start", payload=payload) == HookAnswered(name="session_start", context=("fine",))
    began = time.monotonic()
    got = answered("sleep 60", payload=payload, seconds=0.5)
    assert time.monotonic() - began < 15 and "was killed" in got.failed[0]


def test_p2_a_long_payload_arrives_whole() -> None:
    count = python("import json,sys; print(len(json.load(sys.stdin)['text']))")
    assert answered(count, name="session_start", payload={"text": "x" * 1_000_000}).context == ("1000000",)


# --- bounded in size


def test_h4_output_without_end_is_cut_and_fills_no_memory() -> None:
    tracemalloc.start()
    try:
        got = answered("head -c 50000000 /dev/zero | tr '\\0' 'y'", name="session_start")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert [len(text) for text in got.context] == [MOST_CHARS] and "more than 200,000 characters" in got.failed[0]
    assert peak < 8_000_000


def test_h4_a_command_that_never_stops_printing_ends_with_its_time() -> None:
    began = time.monotonic()
    got = answered("yes", seconds=0.5)
    assert time.monotonic() - began < 10 and got.context == () and "was killed" in got.failed[0]


def test_h4_texts_of_functions_are_cut_too() -> None:
    got = answered(lambda payload: {"additional_context": "é" * (MOST_CHARS + 1), "instructions": "i" * MOST_CHARS})
    assert [len(text) for text in (*got.context, *got.instructions)] == [MOST_CHARS, MOST_CHARS]
    assert len(got.failed) == 1 and "the rest is left out" in got.failed[0]


def test_h4_an_object_over_the_bound_is_a_failure_and_not_half_a_text() -> None:
    got = answered(python(f"import json; print(json.dumps({{'additional_context': 'x' * {MOST_CHARS}}}))"), name="session_start")
    assert got.context == () and "more than 200,000 characters" in got.failed[0]


def test_h4_a_long_failure_is_told_in_short() -> None:
    got = answered(python("import sys; sys.stderr.write('e' * 100_000 + 'the end'); sys.exit(1)"))
    assert len(got.failed[0]) < 700 and got.failed[0].endswith("the end")


# --- started and not awaited


def test_r5_stop_failure_hooks_are_started_together_and_nobody_waits(tmp_path: Path) -> None:
    told: list[HookAnswered] = []
    go, done = threading.Event(), threading.Event()
    hooks = Hooks()
    hooks.add("stop_failure", lambda payload: go.wait(30) and None)
    hooks.add("stop_failure", f"cat > '{tmp_path}/payload'; exit 4")
    began = time.monotonic()
    hooks.start("stop_failure", {"end": "prompt_too_long"}, 20.0, tell=lambda answer: (told.append(answer), done.set()))
    assert time.monotonic() - began < 5 and told == []
    payload = tmp_path / "payload"
    assert until(lambda: payload.exists() and payload.stat().st_size), "the second one does not wait for the first"
    go.set()
    assert done.wait(20)
    assert told == [HookAnswered(name="stop_failure", failed=("hook 2 (cat): it ended with code 4",))]
    assert json.loads(payload.read_text()) == {"hook_event_name": "StopFailure", "end": "prompt_too_long"}


def test_r5_a_started_command_ends_its_work_though_the_program_is_gone(tmp_path: Path) -> None:
    wrote = tmp_path / "wrote"
    program = f"""
from fivefold.hooks import Hooks
hooks = Hooks()
hooks.add("stop_failure", "sleep 1; echo still talking; cat > '{wrote}'")
hooks.start("stop_failure", {{"end": "model_error"}})
"""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
    ended = time.monotonic() - began
    assert until(lambda: wrote.exists() and wrote.stat().st_size)
    assert json.loads(wrote.read_text())["end"] == "model_error"
    assert ended < 20


def test_r5_a_started_hook_that_is_too_slow_is_ended_and_told() -> None:
    told: list[HookAnswered] = []
    done = threading.Event()
    hooks = Hooks()
    hooks.add("stop_failure", "sleep 60")
    hooks.start("stop_failure", {}, 0.2, tell=lambda answer: (told.append(answer), done.set()))
    assert done.wait(20) and "was killed" in told[0].failed[0]


def test_r5_starting_without_hooks_does_nothing() -> None:
    threads = threading.active_count()
    Hooks().start("stop_failure", {}, tell=lambda answer: pytest.fail("nobody was to be told"))
    assert threading.active_count() == threads
