"""Sessions driven by rules at random: what is on disk, read in part or whole, shows what the log in memory shows (K1, K2)."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test

from fivefold.core.entries import Entry, Fold, Head, HideSpan, HideThinking, Record
from fivefold.core.messages import Block
from fivefold.core.view import view_of
from fivefold.store.jsonl import read_session, write_session
from fivefold.store.session import Session
from tests.machines.test_log_machine import BLOCKS, LogMachine

STEPS = int(os.environ.get("FIVEFOLD_MACHINE_STEPS", "4000"))
STEPS_A_RUN = 40


class StoreMachine(LogMachine):
    """The log's machine with a session file beside it, which is closed and resumed in part again and again."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "s.jsonl"
        self.session = Session.create(self.path, Head(id="machine"), fsync="never")
        self.resumed_in_part = 0

    def teardown(self) -> None:
        self.session.close()
        shutil.rmtree(self.folder)

    def push(self, record: Record) -> None:
        super().push(record)
        self.session.append(record)

    def fork(self) -> None:  # a session has one history
        raise AssertionError("not a rule here")

    @precondition(lambda self: len(self.log) > 0)
    @rule(back=st.integers(0, 3), blocks=BLOCKS, thinking=st.booleans())
    def compact(self, back: int, blocks: tuple[Block, ...], thinking: bool) -> None:
        said = self.said()
        last = said[max(0, len(said) - 1 - back)]
        changes: list[Any] = [HideSpan(last, None, (self.entry("user", blocks),), (self.entry("attachment", blocks),))]
        if thinking:
            changes.append(HideThinking(last))
        self.push(Fold(id=self.new_id("f"), level="auto", changes=tuple(changes)))

    @rule(blocks=BLOCKS)
    def say_two_at_once(self, blocks: tuple[Block, ...]) -> None:
        records = [Entry(id=self.new_id("e"), kind="user", blocks=blocks) for _ in range(2)]
        for record in records:
            super().push(record)
        self.session.append(*records)

    @rule(history=st.booleans())
    def reopen(self, history: bool) -> None:
        self.session.close()
        self.session = Session.open(self.path, history=history, fsync="never")
        self.resumed_in_part += self.session.log.base > 0

    @rule()
    def write_whole(self) -> None:
        self.session.close()
        write_session(self.path, self.log)
        self.session = Session.open(self.path, fsync="never")

    @rule()
    def load_history(self) -> None:
        assert self.session.history() == self.log

    @invariant()
    def session_shows_what_the_log_shows(self) -> None:
        assert self.session.view == self.view
        assert self.session.log.changed_at == self.log.changed_at
        assert len(self.session.log) == len(self.log)
        assert (self.session.problems, self.session.bad_lines, self.session.torn) == ([], (), None)

    @invariant()
    def file_shows_it_too(self) -> None:
        data = read_session(self.path, history=False)
        assert view_of(data.log) == self.view
        assert data.log.base == 0 or view_of(data.log).shown()[0].position >= 0


def test_k2_a_session_resumed_in_part_shows_what_the_whole_log_shows() -> None:
    """FIVEFOLD_MACHINE_STEPS sets the number of steps."""
    run_state_machine_as_test(
        StoreMachine,
        settings=settings(
            max_examples=max(1, STEPS // STEPS_A_RUN),
            stateful_step_count=STEPS_A_RUN,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )


def test_k2_the_machine_does_resume_in_part() -> None:
    """The rules that matter, by hand, so that the machine's silence means something."""
    machine = StoreMachine()
    try:
        for _ in range(5):
            machine.say("assistant", ())
        machine.compact(1, (), True)
        machine.say_two_at_once(())
        machine.reopen(False)
        assert machine.session.log.base == 4
        machine.session_shows_what_the_log_shows()
        machine.file_shows_it_too()
        assert machine.resumed_in_part == 1
    finally:
        machine.teardown()
