"""Section 9: what stands behind a compaction, in which order, and what is put back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fivefold.cleanup import Cleanup
from fivefold.core import engine, ops
from fivefold.core.events import CompactAsked, RestoredFile, Staged
from fivefold.core.messages import Text
from fivefold.files import FileReader
from fivefold.hooks import Hooks
from fivefold.perform import Ports
from fivefold.ports import RunningTask
from tests.build import assistant, call, entry, refused, result, user
from tests.rules.talk import Remembered, Talk, Writer, loop_of, rounds_of, said, shown, summaries, talk, too_long, words, written


class Disk:
    """Files in memory: what was asked for, and what there is."""

    def __init__(self, files: dict[str, str]) -> None:
        self.files = files
        self.asked: list[list[str]] = []

    def read(self, paths: Any) -> tuple[tuple[RestoredFile, ...], tuple[str, ...]]:
        self.asked.append(list(paths))
        found = tuple(RestoredFile(path, self.files[path]) for path in paths if path in self.files)
        return found, tuple(f"{path}: no such file" for path in paths if path not in self.files)


def texts(found: Talk, kind: str = "attachment") -> list[str]:
    """The texts of all entries of a kind in view, in order."""
    entries = [entry for entry in found.driver.state.view.entries() if entry.kind == kind]
    return [block.text for entry in entries for block in entry.blocks if isinstance(block, Text)]


def kinds(found: Talk) -> list[str]:
    """What is in view, in order, runs of one kind once; notes left out."""
    names = []
    for item in found.driver.state.view.entries():
        name = "summary" if item.summary else "hook" if "Project rule" in str(item.blocks) else item.kind
        name = "kept" if name in ("user", "assistant") else name
        if name != "note" and name not in names[-1:]:
            names.append(name)
    return names


def hooked(context: str = "Project rule: no tabs.") -> Hooks:
    hooks = Hooks()
    hooks.add("session_start", lambda payload: context)
    return hooks


ORDER = ["boundary", "summary", "kept", "attachment", "hook"]


# --- C1: one order


@pytest.mark.parametrize("path", ["auto", "manual", "model", "memory", "reactive", "up_to"])
def test_c1_every_path_ends_in_the_same_order(path: str) -> None:
    policy: dict[str, Any] = {"summary": {"method": "model"}} if path == "model" else {}
    if path == "reactive":
        policy = {"auto": {"reactive_only": True}}
    memory = Remembered("Part 3 holds value_3.") if path == "memory" else None
    ports = Ports(ask=Writer([written()]), memory=memory, hooks=hooked(), attachments=(lambda: "The plan: read on.",))
    found = talk(rounds_of(12, 1_500), window=20_000, policy=policy, ports=ports)
    if path == "up_to":
        found.driver.compact(pivot="u8", direction="up_to")
    elif path == "manual":
        found.driver.compact()
    else:
        found.driver.before_request()
    if path == "reactive":
        found.driver.rejected(too_long(26_000, 20_000))
    assert kinds(found) == ORDER
    assert refused(found.driver.outgoing().messages) == []


def test_c1_x2_partial_from_keeps_the_prefix_and_its_boundary_hides_nothing_before_it() -> None:
    ports = Ports(hooks=hooked(), attachments=(lambda: "The plan: read on.",))
    found = talk(rounds_of(12, 1_500), window=40_000, ports=ports)
    prefix = found.driver.outgoing().messages[:20]
    found.driver.compact(pivot="u6", direction="from")
    assert kinds(found) == ["kept", "boundary", "summary", "attachment", "hook"]
    assert found.driver.outgoing().messages[:20] == prefix


def test_c1_attachments_wait_while_a_call_is_open() -> None:
    ports = Ports(attachments=(lambda: "The plan: read on.",))
    entries = [*rounds_of(12, 1_500), user("u20", "One more."), assistant("a20", call("t20"), api_id="m20")]
    found = talk(entries, window=20_000, ports=ports)
    found.driver.compact()
    assert texts(found) == [] and "a20" in shown(found.driver.state)
    found.driver.say(user("r20", result("t20")))
    found.driver.before_request()
    assert texts(found) == ["The plan: read on."]
    order = [entry.id for entry in found.driver.state.view.sent()]
    assert order.index("r20") == order.index("a20") + 1 < len(order) - 1
    assert refused(found.driver.outgoing().messages) == []


# --- C2: files


def read_talk(count: int, disk: Disk, *, bulk: int = 1_500, window: int = 20_000, **more: Any) -> Talk:
    """So many files read in order, ``src/part1.py`` first, then much shell output that says nothing of files."""
    entries = [*rounds_of(count, 300), *rounds_of(12, bulk, start=50, tool="Bash")]
    return talk(entries, window=window, ports=Ports(files=disk), **more)


def test_c2_the_five_files_read_most_recently_are_read_again() -> None:
    disk = Disk({f"src/part{n}.py": f"value_{n} = {n}\n" for n in range(1, 9)})
    found = read_talk(8, disk)
    found.driver.before_request()
    assert disk.asked == [[f"src/part{n}.py" for n in (8, 7, 6, 5, 4)]]
    assert [text.split(",")[0] for text in texts(found)] == [f"[src/part{n}.py" for n in (8, 7, 6, 5, 4)]
    assert "value_8 = 8" in texts(found)[0]


def test_c2_each_has_5_000_tokens_at_most_and_says_where_the_rest_is() -> None:
    disk = Disk({"src/part1.py": words(20_000, "line")})
    found = read_talk(1, disk, window=200_000, bulk=10_000)
    found.driver.compact()
    (text,) = texts(found)
    assert 4_000 < ops.tokens_of(found.driver.state, text) < 5_100
    assert "Read the file again for the rest." in text


def test_c2_all_together_have_50_000_tokens_at_most() -> None:
    disk = Disk({f"src/part{n}.py": words(4_900, f"line{n}") for n in range(1, 16)})
    found = read_talk(15, disk, window=200_000, bulk=10_000, policy={"restore": {"files": 15}})
    found.driver.compact()
    total = sum(ops.tokens_of(found.driver.state, text) for text in texts(found))
    assert 40_000 < total <= 51_000 and len(texts(found)) in (10, 11)


def test_c2_a8_where_all_do_not_fit_half_of_them_are_put_back_and_then_none() -> None:
    counts = {}
    for size in (1_000, 4_300, 6_500):
        disk = Disk({f"src/part{n}.py": words(2_000, f"line{n}") for n in range(1, 6)})
        ports = Ports(files=disk, ask=Writer([written(words(size, "note"))]))
        policy = {"summary": {"method": "model", "max_tokens": 40_000, "keep_tokens": 100, "keep_entries": 1}}
        found = talk([*rounds_of(5, 300), *rounds_of(12, 1_500, start=50, tool="Bash")], window=20_000, policy=policy, ports=ports)
        found.driver.before_request()
        fold = found.driver.log.folds[-1].fold
        counts[str(fold.extra["path"])] = len(texts(found))
        assert fold.extra["method"] == "model" and disk.asked == [[f"src/part{n}.py" for n in (5, 4, 3, 2, 1)]]
    assert counts == {"summary": 5, "summary alone": 3, "summary alone, nothing restored": 0}


def test_c2_what_stands_in_full_in_the_kept_tail_is_not_put_back() -> None:
    entries = [*rounds_of(3, 300), *rounds_of(12, 1_500, start=10, tool="Bash"), *rounds_of(1, 300, start=30)]
    disk = Disk({f"src/part{n}.py": f"value_{n} = {n}\n" for n in (1, 2, 3, 30)})
    found = talk(entries, window=20_000, ports=Ports(files=disk))
    found.driver.before_request()
    assert "r30" in shown(found.driver.state) and "part30 100: nothing to see here" in said(found.driver.state)
    assert not any("src/part30.py" in text for text in texts(found))


def test_c2_what_the_tail_shows_in_part_is_put_back() -> None:
    entries = [*rounds_of(8, 1_500), *rounds_of(3, 1_500, start=20)]
    disk = Disk({f"src/part{n}.py": f"value_{n} = {n}\n" for n in range(1, 30)})
    found = talk(entries, window=20_000, ports=Ports(files=disk))
    found.driver.before_request()
    shortened = [id for id in shown(found.driver.state) if id[0] == "r" and whole(found, id) is False]
    assert shortened
    for id in shortened[-2:]:
        assert any(f"src/part{id[1:]}.py" in text for text in texts(found)), id


def whole(found: Talk, id: str) -> bool | None:
    """Whether a kept result is shown as it was said."""
    item = next((item for item in found.driver.state.view.shown() if item.entry.id == id), None)
    return None if item is None else item.entry == item.original


def test_c2_what_cannot_be_read_is_skipped_and_reported(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "part1.py").write_text("value_1 = 1\n")
    (tmp_path / "src" / "part2.py").write_bytes(b"\0\1\2\0")
    outside = tmp_path.parent / f"{tmp_path.name}-outside.py"
    outside.write_text("secret = 1\n")
    (tmp_path / "src" / "part3.py").symlink_to(outside)
    found = read_talk(4, Disk({}))
    found.driver.ports = Ports(files=FileReader([tmp_path]))
    found.driver.before_request()
    assert [text.splitlines()[1] for text in texts(found)] == ["value_1 = 1"]
    skipped = [event["what"] for event in found.named("restore_skipped")]
    assert len(skipped) == 3 and all(any(f"part{n}.py" in what for what in skipped) for n in (2, 3, 4))


def test_c2_without_a_reader_of_files_none_is_put_back() -> None:
    found = talk(rounds_of(12, 1_500), window=20_000)
    found.driver.before_request()
    assert texts(found) == []


def test_c2_a_second_compaction_puts_back_what_was_read_before_the_first() -> None:
    disk = Disk({f"src/part{n}.py": f"value_{n} = {n}\n" for n in range(1, 4)})
    found = read_talk(3, disk)
    found.driver.before_request()
    found.driver.replied(assistant("x", "Done.", api_id="y"))
    found.driver.say(*rounds_of(12, 1_500, start=90, tool="TodoWrite"))
    found.driver.before_request()
    assert len(found.named("compaction_finished")) == 2
    assert any("src/part3.py" in text for text in texts(found))


# --- C3: attachments


def test_c3_attachments_are_put_back_at_each_compaction_once_in_their_order() -> None:
    asked: list[int] = []

    def plan() -> str:
        asked.append(1)
        return "The plan: read on."

    ports = Ports(attachments=(plan, lambda: None, lambda: "Skill: careful reading."))
    found = talk(rounds_of(12, 1_500), window=20_000, ports=ports)
    for turn in range(3):
        found.driver.before_request()
        assert texts(found) == ["The plan: read on.", "Skill: careful reading."]
        found.driver.replied(assistant(f"x{turn}", "Done.", api_id=f"y{turn}"))
        found.driver.say(*rounds_of(12, 1_500, start=100 * (turn + 1)))
    assert len(asked) == 3


def test_c3_each_has_5_000_tokens_and_all_25_000_the_first_ones_before_the_others() -> None:
    skills = tuple((lambda n=n: f"Skill {n}.\n" + words(8_000, f"skill{n}")) for n in range(1, 8))
    found = talk(rounds_of(100, 1_500), ports=Ports(attachments=skills))
    found.driver.compact()
    sizes = [ops.tokens_of(found.driver.state, text) for text in texts(found)]
    assert all(size <= 5_100 for size in sizes) and sum(sizes) <= 25_500
    assert [text.split(".")[0] for text in texts(found)[:5]] == [f"Skill {n}" for n in range(1, 6)]


# --- C4: caches


def test_c4_registered_caches_are_reset_and_the_shared_ones_by_the_main_thread_only() -> None:
    for source, expected in {
        "main": ["own", "shared"],
        "sdk": ["own", "shared"],
        "": ["own", "shared"],
        "main:2": ["own", "shared"],
        "agent:x": ["own"],
    }.items():
        reset: list[str] = []
        cleanup = Cleanup()
        cleanup.register(lambda reset=reset: reset.append("own"))
        cleanup.register(lambda reset=reset: reset.append("shared"), shared=True)
        found = talk(rounds_of(12, 1_500), window=20_000, ports=Ports(cleanup=cleanup))
        found.driver.before_request(source=source)
        assert reset == expected, source


def test_c4_a_compaction_that_the_main_agent_asked_for_is_the_main_threads() -> None:
    reset: list[str] = []
    cleanup = Cleanup()
    cleanup.register(lambda: reset.append("shared"), shared=True)
    found = talk(rounds_of(12, 500), window=20_000, ports=Ports(cleanup=cleanup))
    found.driver.call_tool("compact", {})
    found.driver.before_request()
    assert summaries(found.driver.state) and reset == ["shared"]


def test_c4_nothing_is_reset_by_a_compaction_that_failed_or_is_only_looked_at() -> None:
    reset: list[str] = []
    cleanup = Cleanup()
    cleanup.register(lambda: reset.append("own"))
    found = talk(rounds_of(12, 1_500), window=20_000, ports=Ports(cleanup=cleanup))
    plan = found.driver.preview()
    assert plan.success and reset == []
    found.driver.apply(plan)
    assert reset == ["own"]


def test_c4_a_reset_that_fails_hurts_no_other_and_is_said() -> None:
    reset: list[str] = []
    cleanup = Cleanup()

    def broken() -> None:
        raise KeyError("gone")

    cleanup.register(broken)
    cleanup.register(lambda: reset.append("own"))
    found = talk(rounds_of(12, 1_500), window=20_000, ports=Ports(cleanup=cleanup))
    found.driver.before_request()
    assert reset == ["own"] and "broken: KeyError" in found.named("cleanup_failed")[0]["why"]


@pytest.mark.parametrize(("source", "left"), [("main", 0), ("agent:x", 1)])
def test_c4_x4_collapse_state_is_reset_by_the_main_thread_only(source: str, left: int) -> None:
    found = talk(rounds_of(12, 1_000), window=40_000)
    found.driver._now(Staged(first="a12", last="b12", text="Part 12 was read."))
    found.driver.run(found.driver._compact_now(CompactAsked(now=1.0, source=source)))
    assert len(found.driver.state.tracking.staged) == left


# --- C5, C6


def test_c5_session_start_hooks_run_with_source_compact_and_their_text_is_put_back() -> None:
    told: list[dict[str, Any]] = []
    hooks = Hooks()

    def start(payload: dict[str, Any]) -> str:
        told.append(payload)
        return "Project rule: no tabs."

    hooks.add("session_start", start)
    found = talk(rounds_of(12, 1_500), window=20_000, ports=Ports(hooks=hooks))
    found.driver.before_request()
    assert [payload["source"] for payload in told] == ["compact"]
    assert texts(found) == ["Project rule: no tabs."]


def test_c5_what_is_in_view_already_is_not_put_back_twice() -> None:
    found = talk([*rounds_of(12, 1_500), user("u90", "Project rule: no tabs.", meta=True)], window=20_000, ports=Ports(hooks=hooked()))
    found.driver.before_request()
    assert said(found.driver.state).count("Project rule: no tabs.") == 1


def carried_entries() -> list[Any]:
    """A person's wish, a standing instruction, a plan with an open item, a background task; then much work."""
    todos = [{"content": "read all parts", "status": "completed"}, {"content": "write the report", "status": "in_progress"}]
    return [
        entry("s0", "system", "Answer in French."),
        user("u0", "Please find out where the birds go."),
        assistant("p0", call("tp", "TodoWrite", todos=todos), api_id="mp"),
        user("q0", result("tp", "ok")),
        assistant("p1", call("tb", "Bash", command="make watch", run_in_background=True), api_id="mb"),
        user("q1", result("tb", "Command running in background with ID: bash_7")),
        *rounds_of(12, 1_500),
        user("newest", "Now tell me about the geese."),
    ]


@pytest.mark.parametrize("method", ["structural", "model", "memory"])
def test_c6_code_carries_the_newest_request_open_items_pins_and_running_tasks(method: str) -> None:
    policy = {"summary": {"method": "model"}} if method == "model" else {}
    ports = Ports(
        ask=Writer([written("Nothing of note.")]),
        memory=Remembered("Nothing of note.") if method == "memory" else None,
        running=lambda: [RunningTask("bash_7", "make watch"), RunningTask("agent_2", "count the nests")],
    )
    found = talk(carried_entries(), window=20_000, policy=policy, ports=ports)
    found.driver.pin("The key figure is 4711.")
    found.driver.before_request()
    assert found.driver.log.folds[-1].fold.extra["method"] == method
    text = said(found.driver.state)
    for what in ("Now tell me about the geese.", "Please find out where the birds go.", "write the report", "4711", "bash_7", "agent_2"):
        assert what in text, what
    assert found.driver.outgoing().system == (Text("Answer in French."),)


def test_c6_a_system_entry_in_the_folded_part_is_shown_again_as_one() -> None:
    entries = [*rounds_of(2, 1_500), entry("s1", "system", "From now on answer in French."), *rounds_of(10, 1_500, start=20)]
    found = talk(entries, window=20_000)
    found.driver.before_request()
    assert "s1" not in shown(found.driver.state)
    assert [e.blocks for e in found.driver.state.view.entries() if e.kind == "system"] == [(Text("From now on answer in French."),)]


def test_c1_a_loop_with_open_calls_keeps_its_pairs() -> None:
    found = talk([*loop_of(10, 1_500), assistant("a99", call("t99"), api_id="m99")], window=20_000)
    found.driver.compact()
    found.driver.say(user("r99", result("t99")))
    assert refused(found.driver.outgoing().messages) == []
    assert engine.LEGAL  # the phase went back to where a request can be made
    assert found.driver.before_request().request.messages
