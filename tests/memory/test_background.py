"""The session memory kept up to date while a conversation goes on: when, by whom, one at a time, and what a failure leaves (S1–S5)."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from fivefold.core.entries import Entry, Usage
from fivefold.core.log import Log
from fivefold.core.rejection import Rejection
from fivefold.drive import AsyncDriver
from fivefold.errors import InputError, LockedError, StoreError, SummaryError
from fivefold.memory.background import SessionMemory
from fivefold.memory.file import Content, MemoryFile
from fivefold.memory.template import template_of
from fivefold.perform import Ports, extract_memory
from fivefold.summarize.flow import Answer, Ask
from tests.build import assistant, call, result, user
from tests.rules.talk import Clock, Talk, loop_of, rounds_of, setup_of, talk, words


@pytest.fixture
def memory(tmp_path: Path) -> SessionMemory:
    return SessionMemory.of(tmp_path, "a")


def kept(memory: SessionMemory) -> Ports:
    return Ports(memory=memory, extract=memory)


def text_of(memory: SessionMemory) -> str:
    found = memory.read(0, 60).text
    assert found is not None
    return found


def told(text: str = "Part 6 holds value_6.", section: str = "Current state", **more: Any) -> Answer:
    return Answer(text=f"<session-memory>\n# {section}\n{text}\n</session-memory>", **{"stop_reason": "end_turn", **more})


def turn(found: Talk, *entries: Entry) -> int:
    """One request, what runs in the background, and what is said next; how much ran."""
    found.driver.before_request()
    done = found.driver.run_background()
    found.driver.replied(assistant(f"x{len(found.driver.log)}", "Done.", api_id=f"y{len(found.driver.log)}"))
    found.driver.say(*entries)
    return done


# --- S1: when


def test_s1_first_at_10_000_tokens_and_then_with_5_000_more_at_a_pause(memory: SessionMemory) -> None:
    found = talk(rounds_of(2, 1_800), ports=kept(memory))
    assert turn(found, *rounds_of(4, 2_000, start=10)) == 0 and memory.covered is None and not memory.path.exists()
    assert turn(found, *rounds_of(1, 2_000, start=20)) == 1 and memory.covered == "b13"
    assert turn(found, *rounds_of(1, 3_100, start=21)) == 0 and memory.covered == "b13"
    assert turn(found) == 1 and memory.covered == "b21"
    assert found.driver.state.tracking.covered == "b21" and "- src/part21.py: read" in text_of(memory).split("\n")


def test_s1_in_a_loop_with_5_000_tokens_and_three_calls_and_never_inside_a_pair(memory: SessionMemory) -> None:
    found = talk(rounds_of(6, 2_000), ports=kept(memory))
    turn(found, user("go", "Go on."))
    covered = []
    for n in range(1, 9):
        found.driver.before_request()
        found.driver.run_background()
        covered.append(memory.covered)
        found.driver.replied(assistant(f"a{n}x", call(f"t{n}x", "Read", file_path=f"f{n}"), api_id=f"m{n}x"))
        assert found.driver.run_background() == 0
        found.driver.say(user(f"r{n}x", result(f"t{n}x", words(1_700, f"part{n}"))))
    assert covered == ["b6", "b6", "b6", "r3x", "r3x", "r3x", "r6x", "r6x"]


def test_s1_where_a_call_is_open_by_now_it_covers_up_to_where_it_was_asked_for(memory: SessionMemory) -> None:
    found = talk(rounds_of(6, 2_000), ports=kept(memory))
    found.driver.before_request()
    found.driver.replied(assistant("a9", "I read part 9.", call("t9"), api_id="m9"))
    assert found.driver.run_background() == 1
    assert memory.covered == "b6" == found.driver.state.tracking.covered and "part 9" not in text_of(memory)


def test_s1_what_was_folded_away_meanwhile_does_not_part_a_call_from_its_result(memory: SessionMemory) -> None:
    found = talk(rounds_of(12, 1_500), window=60_000, ports=Ports(extract=memory))
    turn(found)
    found.driver.compact()
    found.driver.before_request()
    found.driver.replied(assistant("a99", call("t99"), api_id="m99"))
    assert "b12" in [item.entry.id for item in found.driver.state.view.shown()]
    state = found.driver.state
    found.driver.run(extract_memory(found.driver.ports, state, "u1", lambda: state.log))
    assert memory.covered not in ("a99", "u1", None) and memory.covered in [entry.id for entry in state.view.entries()]


# --- S2: who


def test_s2_without_a_model_the_file_is_made_anew_from_all_that_was_said(memory: SessionMemory) -> None:
    found = talk(rounds_of(6, 2_000), ports=kept(memory))
    turn(found, *rounds_of(5, 2_000, start=20))
    turn(found)
    files = [line for line in text_of(memory).split("\n") if line.startswith("- src/part")]
    assert len(files) == 11 and memory.calls == 0


def test_s2_what_a_compaction_has_folded_is_not_forgotten(memory: SessionMemory) -> None:
    found = talk(rounds_of(8, 1_500), window=30_000, ports=Ports(extract=memory))
    turn(found)
    found.driver.compact()
    turn(found, *rounds_of(3, 1_500, start=30))
    turn(found)
    assert memory.covered == "b32" and {"- src/part1.py: read", "- src/part32.py: read"} <= set(text_of(memory).split("\n"))


def test_k2_where_the_log_is_not_loaded_whole_the_history_is_asked_for(memory: SessionMemory) -> None:
    whole = Log(records=[*rounds_of(6, 100), *rounds_of(6, 2_000, start=20)])
    part = Log(records=rounds_of(6, 2_000, start=20), base=24)
    found = talk((), log=part, history=lambda: whole, ports=kept(memory))
    turn(found)
    assert memory.covered == "b25" and "- src/part1.py: read" in text_of(memory)


def test_s2_a_model_is_asked_with_what_was_sent_and_only_its_sections_change(tmp_path: Path) -> None:
    asked: list[Ask] = []

    def ask(wanted: Ask) -> Answer:
        asked.append(wanted)
        return told(usage=Usage(input=10_000, output=50))

    memory = SessionMemory.of(tmp_path, "a", ask=ask)
    MemoryFile(memory.path).write(Content("# Task\nRead it all.\n\n# Current state\nNothing yet.", None))
    found = talk(rounds_of(6, 2_000), ports=kept(memory))
    out = found.driver.before_request()
    found.driver.run_background()
    sent = tuple(out.state.view.sent())
    assert asked[0].entries[: len(sent)] == sent and len(asked[0].entries) == len(sent) + 1
    assert asked[0].kind == "fork" and asked[0].tools == "inherit" and "Nothing yet." in asked[0].text
    assert text_of(memory) == "# Task\nRead it all.\n\n# Current state\nNothing yet.\n\nPart 6 holds value_6."
    assert (memory.covered, memory.calls, memory.usage) == ("b6", 1, Usage(input=10_000, output=50))
    assert found.driver.tokens == out.state.used, "what it used is not the size of the conversation"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
@pytest.mark.parametrize("model", [False, True])
def test_s2_on_an_event_loop_a_coroutine_is_awaited_and_code_runs_beside_it(backend: str, model: bool, tmp_path: Path) -> None:
    threads = set[str]()

    async def ask(wanted: Ask) -> Answer | Rejection:
        await anyio.sleep(0.01)
        threads.add(threading.current_thread().name)
        return Rejection(why="transient", message="busy") if len(waits) < 2 else told()

    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    memory = SessionMemory(tmp_path / "a.md", ask=ask if model else None, sleep=sleep)  # type: ignore[arg-type]

    async def main() -> None:
        driver = AsyncDriver(Log(records=rounds_of(6, 2_000)), setup=setup_of(), ports=kept(memory))
        await driver.before_request()
        assert await driver.run_background() == 1
        assert driver.state.tracking.covered == "b6"

    with ThreadPoolExecutor(1, thread_name_prefix="loop") as pool:
        pool.submit(anyio.run, main, backend=backend).result()
    assert memory.covered == "b6" and "Part 6 holds value_6." in text_of(memory)
    assert waits == ([2.0, 4.0] if model else []) and threads == ({"loop_0"} if model else set())


def test_s2_a_coroutine_in_the_plain_driver_is_a_failure_that_says_so(tmp_path: Path) -> None:
    async def ask(wanted: Ask) -> Answer:
        return told()

    memory = SessionMemory.of(tmp_path, "a", ask=ask)
    found = talk(rounds_of(6, 2_000), ports=kept(memory))
    turn(found)
    (failed,) = found.named("extraction_failed")
    assert "async driver" in failed["why"] and not memory.path.exists()


def test_s4_a_template_of_a_users_own_is_filled(tmp_path: Path) -> None:
    template = template_of("# Stand <!-- state, 300 tokens -->\n# Notizen <!-- 200 tokens -->\n# Dateien <!-- files, 300 tokens -->")
    memory = SessionMemory(tmp_path / "a.md", template=template)
    turn(talk(rounds_of(6, 2_000), ports=kept(memory)))
    assert memory.path.read_text().count("\n# ") == 3 and "# Notizen\n\n# Dateien\n- src/part6.py: read" in memory.path.read_text()
    assert text_of(memory).startswith("# Stand\n- Newest request: Look into part 6 of it.")


def test_s4_a_template_and_a_prompt_may_be_files(tmp_path: Path) -> None:
    (tmp_path / "t.md").write_text("# Stand <!-- state, 300 tokens -->")
    (tmp_path / "p.md").write_text("Bitte: $file $sections")
    asked: list[str] = []

    def ask(wanted: Ask) -> Answer:
        asked.append(wanted.text)
        return told(section="Stand")

    memory = SessionMemory(tmp_path / "a.md", ask=ask, template=tmp_path / "t.md", prompt=tmp_path / "p.md")
    turn(talk(rounds_of(6, 2_000), ports=kept(memory)))
    assert asked[0].startswith("Bitte: (nothing yet) # Stand") and text_of(memory) == "# Stand\nPart 6 holds value_6."
    with pytest.raises(InputError, match=r"p\.md: the prompt lacks"):
        SessionMemory(tmp_path / "a.md", prompt=(tmp_path / "p.md").write_text("Bitte.") and tmp_path / "p.md")


# --- S3: whole or not at all


@pytest.mark.parametrize(
    "answer",
    [
        Answer(text="I can't."),
        told(stop_reason="max_tokens"),
        told(section="Other"),
        Rejection(why="too_long", message="too long"),
        RuntimeError("broken"),
        "no answer at all",
    ],
    ids=["no tags", "cut off", "unknown section", "refused", "raised", "of another kind"],
)
def test_s3_a_run_that_failed_leaves_file_and_covered_id_and_is_said(answer: Any, tmp_path: Path) -> None:
    def ask(wanted: Ask) -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    memory = SessionMemory.of(tmp_path, "a", ask=ask)
    MemoryFile(memory.path).write(Content("# Task\nRead it all.", "b1"))
    before = memory.path.read_bytes()
    found = talk(rounds_of(6, 2_000), ports=kept(memory))
    turn(found)
    assert memory.path.read_bytes() == before and memory.covered == "b1"
    assert found.driver.state.tracking.covered is None and len(found.named("extraction_failed")) == 1
    assert turn(found, *rounds_of(2, 5_000, start=30)) + turn(found) == 1, "and it is tried again when more was said"


def test_l8_an_error_of_the_connection_is_tried_again(tmp_path: Path) -> None:
    tries: list[Any] = [ConnectionError("reset"), TimeoutError("slow"), told()]
    waits: list[float] = []

    def ask(wanted: Ask) -> Any:
        found = tries.pop(0)
        if isinstance(found, Exception):
            raise found
        return found

    memory = SessionMemory(tmp_path / "a.md", ask=ask, sleep=waits.append)
    turn(talk(rounds_of(6, 2_000), ports=kept(memory)))
    assert memory.covered == "b6" and waits == [2.0, 4.0]


def test_s3_what_a_person_writes_during_a_run_is_kept(tmp_path: Path) -> None:
    memory = SessionMemory.of(tmp_path, "a")

    def ask(wanted: Ask) -> Answer:
        memory.path.write_text(memory.path.read_text().replace("# Task\n", "# Task\nNever on Fridays.\n"))
        return told("- Read part 6.", "Task")

    turn(talk(rounds_of(6, 2_000), ports=kept(memory)))
    memory.ask = ask
    turn(talk(rounds_of(9, 2_000), ports=kept(memory)))
    assert "# Task\nNever on Fridays.\n\n- Read part 6.\n" in text_of(memory) and memory.covered == "b9"


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_s3_a_cancelled_run_leaves_the_old_file_and_the_next_one_is_not_kept_waiting(backend: str, tmp_path: Path) -> None:
    slow = True

    async def ask(wanted: Ask) -> Answer:
        await (anyio.sleep_forever() if slow else anyio.sleep(0))
        return told()

    memory = SessionMemory.of(tmp_path, "a", ask=ask)

    async def main() -> None:
        nonlocal slow
        driver = AsyncDriver(Log(records=rounds_of(6, 2_000)), setup=setup_of(), ports=kept(memory))
        await driver.before_request()
        with anyio.move_on_after(0.05) as scope:
            await driver.run_background()
        assert scope.cancelled_caught and not memory.path.exists()
        slow = False
        state = driver.state
        with anyio.fail_after(5):
            await driver.run(extract_memory(driver.ports, state, "b6", lambda: state.log))

    with ThreadPoolExecutor(1) as pool:
        pool.submit(anyio.run, main, backend=backend).result()
    assert memory.covered == "b6"


class Slow:
    """A model that answers when it is let; how many asked, and how many at once."""

    def __init__(self) -> None:
        self.asked, self.now, self.most = 0, 0, 0
        self.began, self.go = threading.Event(), threading.Event()

    def __call__(self, wanted: Ask) -> Answer:
        self.asked += 1
        self.now += 1
        self.most = max(self.most, self.now)
        self.began.set()
        assert self.go.wait(10)
        self.now -= 1
        return told(f"Run {self.asked}.")


def test_s3_one_at_a_time_and_all_requests_during_one_become_one(tmp_path: Path) -> None:
    """Real threads: one run goes on, five ask meanwhile; one more run takes in what all five came with."""
    slow = Slow()
    memory = SessionMemory.of(tmp_path, "a", ask=slow)
    entries = rounds_of(6, 50)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(memory, entries[:4], None)
        assert slow.began.wait(10)
        rest = []
        for n in range(2, 7):
            rest.append(pool.submit(memory, entries[: 4 * n], None))
            time.sleep(0.02)
        slow.go.set()
        assert first.result(10) == "b1"
        found = [one.result(10) for one in rest]
    assert (slow.asked, slow.most) == (2, 1)
    assert found[-1] == "b6" == memory.covered and set(found) <= {"b1", "b6", None}


def test_s3_what_the_run_before_has_covered_is_not_asked_for_again(tmp_path: Path) -> None:
    slow = Slow()
    memory = SessionMemory.of(tmp_path, "a", ask=slow)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(memory, rounds_of(2, 50), None)
        assert slow.began.wait(10)
        second = pool.submit(memory, rounds_of(2, 50), None)
        time.sleep(0.02)
        slow.go.set()
        assert first.result(10) == second.result(10) == "b2"
    assert slow.asked == 1


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_s3_on_an_event_loop_too(backend: str, tmp_path: Path) -> None:
    asked: list[int] = []
    go: list[anyio.Event] = []

    async def ask(wanted: Ask) -> Answer:
        asked.append(len(wanted.entries))
        if len(asked) == 1:
            await go[0].wait()
        return told(f"Run {len(asked)}.")

    memory = SessionMemory.of(tmp_path, "a", ask=ask)

    async def main() -> None:
        go.append(anyio.Event())
        driver = AsyncDriver(Log(records=rounds_of(6, 2_000)), setup=setup_of(), ports=kept(memory))
        state = driver.state

        async def run(up_to: str) -> None:
            await driver.run(extract_memory(driver.ports, state, up_to, lambda: state.log))

        with anyio.fail_after(10):
            async with anyio.create_task_group() as group:
                group.start_soon(run, "b2")
                while not asked:
                    await anyio.sleep(0.001)
                for up_to in ("b3", "b4", "b6"):
                    group.start_soon(run, up_to)
                    await anyio.sleep(0.02)
                go[0].set()

    with ThreadPoolExecutor(1) as pool:
        pool.submit(anyio.run, main, backend=backend).result()
    assert len(asked) == 2 and memory.covered == "b6" and text_of(memory) == "# Current state\nRun 2."


# --- S5: waited for, and given up on


def test_s5_a_reader_waits_for_a_running_extraction_and_gets_what_it_wrote(tmp_path: Path) -> None:
    slow = Slow()
    memory = SessionMemory.of(tmp_path, "a", ask=slow)
    with ThreadPoolExecutor(2) as pool:
        run = pool.submit(memory, rounds_of(2, 50), None)
        assert slow.began.wait(10)
        early = memory.read(0.02, 60)
        assert early.running and early.text is None
        read = pool.submit(memory.read, 10, 60)
        slow.go.set()
        assert run.result(10) == "b2"
        found = read.result(10)
    assert not found.running and found.text == "# Current state\nRun 1." and found.path == str(memory.path)


def test_s5_one_older_than_60_seconds_is_given_up_on_and_writes_nothing_later(tmp_path: Path) -> None:
    slow, clock = Slow(), Clock()
    memory = SessionMemory(tmp_path / "a.md", ask=slow, clock=clock)
    with ThreadPoolExecutor(2) as pool:
        run = pool.submit(memory, rounds_of(2, 50), None)
        assert slow.began.wait(10)
        clock.now += 59
        assert memory.read(0, 60).running
        clock.now += 1
        began = time.monotonic()
        assert memory.read(15, 60) == (found := memory.read(15, 60)) and not found.running and found.text is None
        assert time.monotonic() - began < 5
        slow.go.set()
        with pytest.raises(SummaryError, match="given up on"):
            run.result(10)
    assert not memory.path.exists() and memory.covered is None


def test_s5_one_that_hangs_does_not_keep_the_next_one_from_running(tmp_path: Path) -> None:
    slow, clock = Slow(), Clock()
    memory = SessionMemory(tmp_path / "a.md", ask=slow, clock=clock)
    with ThreadPoolExecutor(2) as pool:
        run = pool.submit(memory, rounds_of(2, 50), None)
        assert slow.began.wait(10)
        clock.now += 61
        memory.ask = lambda wanted: told("The second one.")
        assert memory(rounds_of(3, 50), None) == "b3"
        slow.go.set()
        assert isinstance(run.exception(10), SummaryError)
    assert text_of(memory) == "# Current state\nThe second one." and memory.covered == "b3"


def test_s5_a_compaction_with_a_run_that_goes_on_takes_the_file_as_it_is(tmp_path: Path) -> None:
    slow = Slow()
    memory = SessionMemory.of(tmp_path, "a")
    found = talk(rounds_of(9, 1_500), window=20_000, policy={"memory": {"wait_seconds": 0}}, ports=kept(memory))
    memory(rounds_of(6, 1_500), None)
    memory.ask = slow
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(memory, rounds_of(8, 1_500), None)
        assert slow.began.wait(10)
        found.driver.compact()
        slow.go.set()
        assert run.result(10) == "b8"
    assert len(found.named("memory_wait_over")) == 1 and found.driver.log.folds[-1].fold.extra["method"] == "memory"


# --- one writer, and files that cannot be read


def test_k3_a_second_writer_gets_a_clear_error_and_may_read(tmp_path: Path) -> None:
    with SessionMemory.of(tmp_path, "a") as first:
        first(rounds_of(2, 50))
        second = SessionMemory.of(tmp_path, "a")
        with pytest.raises(LockedError, match=r"another process keeps this session memory; .*readonly=True"):
            second(rounds_of(3, 50))
        assert text_of(second) == text_of(first) and second.covered == "b2"
    assert second(rounds_of(3, 50)) == "b3"
    second.close()


def test_k3_one_that_is_only_read_is_never_written(tmp_path: Path) -> None:
    memory = SessionMemory.of(tmp_path, "a", readonly=True)
    found = talk(rounds_of(6, 2_000), ports=kept(memory))
    turn(found)
    assert "read only" in found.named("extraction_failed")[0]["why"] and list(tmp_path.iterdir()) == []


def test_h4_a_file_that_cannot_be_read_is_no_memory_is_told_and_is_left_alone(tmp_path: Path) -> None:
    problems: list[Exception] = []
    memory = SessionMemory(tmp_path / "a.md", on_problem=problems.append)
    memory.path.write_bytes(b"x" * 1_000_001)
    found = talk(rounds_of(12, 1_500), window=20_000, ports=kept(memory))
    found.driver.before_request()
    found.driver.run_background()
    assert found.driver.log.folds[-1].fold.extra["method"] == "structural"
    assert problems and memory.problems == problems and "over 1,000,000 bytes" in str(problems[0])
    assert "over 1,000,000 bytes" in found.named("extraction_failed")[0]["why"] and memory.path.stat().st_size == 1_000_001


def test_h3_the_memory_of_an_id_stays_in_its_folder(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="path separator"):
        SessionMemory.of(tmp_path, "../a")
    with pytest.raises(StoreError, match="there is no folder"):
        SessionMemory.of(tmp_path / "gone", "a")(rounds_of(1, 50))


def test_s3_a_crash_in_the_middle_of_a_write_leaves_nothing_behind_the_next_one(memory: SessionMemory) -> None:
    left = memory.path.parent / f".{memory.path.name}.x1y2z3.tmp"
    other = memory.path.parent / ".b.memory.md.x1y2z3.tmp"
    left.write_text("torn")
    other.write_text("another's")
    memory(rounds_of(2, 50))
    assert not left.exists() and other.exists()


# --- without a driver


def test_s2_called_plainly_it_goes_on_from_what_it_was_given(memory: SessionMemory) -> None:
    entries = rounds_of(4, 50)
    assert memory(entries[:8]) == "b2" and memory(entries[8:], "b2") == "b4"
    files = [line for line in text_of(memory).split("\n") if line.startswith("- src/")]
    assert files == [f"- src/part{n}.py: read" for n in (4, 3, 2, 1)]
    assert memory([], "b4") == "b4"


def test_s8_in_another_process_the_lines_that_the_file_holds_stay_beside_the_new_ones(memory: SessionMemory) -> None:
    entries = rounds_of(4, 50)
    memory(entries[:8])
    memory.close()
    again = SessionMemory(memory.path)
    assert again.covered == "b2" and again(entries[8:], "b2") == "b4"
    text = text_of(again).split("\n")
    assert [line for line in text if line.startswith("- src/")] == [f"- src/part{n}.py: read" for n in (4, 3, 2, 1)]
    assert text[:2] == ["# Title", "Look into part 1 of it."] and "- Newest request: Look into part 4 of it." in text
    assert "- Newest request: Look into part 2 of it." not in text


def test_w7_in_a_small_window_the_memory_is_small(tmp_path: Path) -> None:
    sizes = []
    for window in (8_000, 32_000, 200_000):
        memory = SessionMemory(tmp_path / f"{window}.md")
        entries = [msgspec.structs.replace(entry, id=f"{entry.id}.{n}") for n in range(8) for entry in loop_of(25, 60, start=30 * n + 1)]
        found = talk(entries, window=window, ports=Ports(extract=memory))
        found.driver.run(extract_memory(found.driver.ports, found.driver.state, entries[-1].id, found.driver.history))
        sizes.append(len(text_of(memory)))
    assert 2 * sizes[0] < sizes[1] and 2 * sizes[1] < sizes[2], sizes
