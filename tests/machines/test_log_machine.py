"""The log and its view, driven by rules at random: incremental = from nothing = naive oracle (spec sections 0, 11, X5)."""

from __future__ import annotations

import os
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from fivefold.core.entries import Entry, Fold, Head, HideEntries, HideSpan, HideThinking, Record, ReplaceBlocks, Target, Unfold
from fivefold.core.log import Log, stand_ins
from fivefold.core.messages import Block, Image, Message, Text, Thinking, ToolResult, ToolUse
from fivefold.core.view import View, view_of
from tests.oracle import Oracle

STEPS = int(os.environ.get("FIVEFOLD_MACHINE_STEPS", "20000"))
STEPS_A_RUN = 50

PICTURE = Image({"type": "base64", "media_type": "image/png", "data": "aGVsbG8="})
RESULTS = [
    ToolResult("t", "some output"),
    ToolResult("t", (Text("one"), PICTURE, Text("two"))),
    ToolResult("t", None),
    ToolResult("t", "", is_error=True),
]
BLOCKS = st.lists(
    st.sampled_from(
        [Text("hello"), Text(""), Thinking("hm", "sig"), Thinking("", "sig"), ToolUse("t", "Bash", {"command": "ls"}), PICTURE, *RESULTS]
    ),
    max_size=4,
).map(tuple)
DECODER: msgspec.json.Decoder[Entry | Fold | Unfold] = msgspec.json.Decoder(Entry | Fold | Unfold)


class LogMachine(RuleBasedStateMachine):
    """One conversation that grows, is folded, unfolded, forked and resumed."""

    def __init__(self) -> None:
        super().__init__()
        self.log = Log(Head(id="machine"))
        self.view = View(self.log, [])
        self.oracle = Oracle()
        self.made = 0
        self.old: list[tuple[Log, View, list[tuple[str, list[Block]]]]] = []

    def new_id(self, kind: str) -> str:
        self.made += 1
        return f"{kind}{self.made}"

    def push(self, record: Record) -> None:
        self.log = self.log.append(record)
        self.view = self.view.advance(self.log)
        self.oracle.records.append(record)

    def said(self) -> list[str]:
        return [e.id for e in self.log.entries()]

    def entry(self, kind: Any, blocks: tuple[Block, ...]) -> Entry:
        return Entry(id=self.new_id("e"), kind=kind, blocks=blocks)

    @rule(kind=st.sampled_from(["user", "assistant", "note", "attachment", "system"]), blocks=BLOCKS)
    def say(self, kind: str, blocks: tuple[Block, ...]) -> None:
        self.push(self.entry(kind, blocks))

    @rule(count=st.integers(2, 6), blocks=BLOCKS)
    def say_several(self, count: int, blocks: tuple[Block, ...]) -> None:
        for _ in range(count):
            self.push(self.entry("assistant", blocks))

    @precondition(lambda self: len(self.log) > 0)
    @rule(data=st.data())
    def hide_span(self, data: st.DataObject) -> None:
        said = self.said()
        high = data.draw(st.integers(0, len(said) - 1))
        low = data.draw(st.integers(0, high))
        first = None if low == 0 and data.draw(st.booleans()) else said[low]
        front = tuple(self.entry("boundary", ()) for _ in range(data.draw(st.integers(0, 1)))) + tuple(
            self.entry("user", b) for b in data.draw(st.lists(BLOCKS, max_size=2))
        )
        tail = tuple(self.entry("attachment", b) for b in data.draw(st.lists(BLOCKS, max_size=1)))
        changes: list[Any] = [HideSpan(said[high], first, front, tail)]
        if data.draw(st.booleans()):
            changes.append(HideThinking(said[-1], None if data.draw(st.booleans()) else said[low]))
        self.push(Fold(id=self.new_id("f"), level="auto", changes=tuple(changes)))

    @precondition(lambda self: len(self.log) > 0)
    @rule(data=st.data())
    def hide_two_spans(self, data: st.DataObject) -> None:
        said = self.said()
        ends = sorted(data.draw(st.lists(st.integers(0, len(said) - 1), min_size=4, max_size=4)))
        spans = (
            HideSpan(said[ends[1]], said[ends[0]], (self.entry("user", (Text("s"),)),)),
            HideSpan(said[ends[3]], said[ends[2]], (self.entry("user", (Text("s"),)),)),
        )
        self.push(Fold(id=self.new_id("f"), level="collapse", changes=spans))

    @precondition(lambda self: len(self.log) > 0)
    @rule(data=st.data())
    def hide_thinking(self, data: st.DataObject) -> None:
        said = self.said()
        high = data.draw(st.integers(0, len(said) - 1))
        self.push(Fold(id=self.new_id("f"), level="auto", changes=(HideThinking(said[high], said[data.draw(st.integers(0, high))]),)))

    @precondition(lambda self: any(True for _ in self.known()))
    @rule(data=st.data())
    def snip(self, data: st.DataObject) -> None:
        ids = data.draw(st.lists(st.sampled_from([e.id for e in self.known()]), min_size=1, max_size=3, unique=True))
        self.push(Fold(id=self.new_id("f"), level="snip", changes=(HideEntries(tuple(ids)),)))

    def known(self) -> list[Entry]:
        return [*self.log.entries(), *(e for r in self.log.records() if isinstance(r, Fold) for e in stand_ins(r))]

    def targets(self) -> list[Target]:
        found: list[Target] = []
        for entry in self.known():
            for i, block in enumerate(entry.blocks):
                if not isinstance(block, Thinking):
                    found.append(Target(entry.id, i))
                if isinstance(block, ToolResult) and isinstance(block.content, tuple):
                    found += [Target(entry.id, i, j) for j in range(len(block.content))]
        return found

    @precondition(lambda self: len(self.targets()) > 0)
    @rule(data=st.data(), one_text=st.booleans())
    def clear(self, data: st.DataObject, one_text: bool) -> None:
        targets = tuple(data.draw(st.lists(st.sampled_from(self.targets()), min_size=1, max_size=4)))
        texts = ("[cleared]",) if one_text else tuple(f"[{i}]" for i in range(len(targets)))
        self.push(Fold(id=self.new_id("f"), level="micro", changes=(ReplaceBlocks(targets, texts),)))

    @precondition(lambda self: len(self.log.folds) > 0)
    @rule(data=st.data())
    def undo(self, data: st.DataObject) -> None:
        placed = data.draw(st.sampled_from(self.log.folds))
        self.push(Unfold(fold=placed.fold.id))

    @rule()
    def resume(self) -> None:
        """What is written and read again is the same log, with the same view."""
        lines = [msgspec.json.encode(record) for record in self.log.records()]
        again = Log(self.log.head, (DECODER.decode(line) for line in lines))
        assert again == self.log
        self.log, self.view = again, view_of(again)

    @rule()
    def remember(self) -> None:
        self.old.append((self.log, self.view, self.oracle.shown()))

    @precondition(lambda self: len(self.old) > 0)
    @rule(data=st.data())
    def fork(self, data: st.DataObject) -> None:
        """Go on from an older value of the log: what the newer one holds must not show through."""
        i = data.draw(st.integers(0, len(self.old) - 1))
        self.log, self.view, _ = self.old[i]
        self.oracle.records = list(self.log.records())

    @invariant()
    def three_ways_agree(self) -> None:
        seen = [(e.id, list(e.blocks)) for e in self.view.entries()]
        assert seen == self.oracle.shown()
        assert self.view == view_of(self.log)
        ids = [id for id, _ in seen]
        assert len(set(ids)) == len(ids), "I4: no id twice in the view"

    @invariant()
    def values_stay_what_they_were(self) -> None:
        for log, view, shown in self.old[-3:]:
            assert [(e.id, list(e.blocks)) for e in view.entries()] == shown
            assert view == view_of(log)


def test_view_incremental_is_from_nothing_is_oracle() -> None:
    """X5, K2, I4, section 0: at least 20,000 steps; FIVEFOLD_MACHINE_STEPS sets another number."""
    run_state_machine_as_test(
        LogMachine,
        settings=settings(
            max_examples=max(1, STEPS // STEPS_A_RUN),
            stateful_step_count=STEPS_A_RUN,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )


def test_message_shape_is_kept() -> None:
    """A message holds its blocks as a tuple, so that it can be shared between views."""
    assert Message("user", (Text("a"),)).blocks == (Text("a"),)
