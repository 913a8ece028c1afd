"""The engine, driven by events at random and held against a naive oracle (spec sections 3–11).

Each step of a run is one event given to ``engine.step``: a person speaks, tools answer (several at once, some late, some with images),
a request is due, sent, answered or refused in every way there is, an action is answered by a script (summaries that fit, that are too
long, empty, failed, cut where they may not be), or something happens that may not. After each of them the promises are looked at anew.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from fivefold.core import engine, remember
from fivefold.core.actions import (
    NEEDS_ANSWER,
    Append,
    CountTokens,
    Emit,
    ExtractMemory,
    ReadFiles,
    ReadMemory,
    RunHook,
    Send,
    Stage,
    Summarize,
)
from fivefold.core.economics import CacheRules, Model
from fivefold.core.entries import CLEARED, Entry, Fold, Head, HideEntries, Record, ReplaceBlocks, Target, Unfold, Usage
from fivefold.core.events import (
    Cancelled,
    CompactAsked,
    Counted,
    Event,
    FilesRead,
    HookAnswered,
    Marked,
    MemoryRead,
    MemoryUpdated,
    Pinned,
    Replied,
    RequestDue,
    RequestRejected,
    RestoredFile,
    Said,
    Staged,
    Summarized,
    SummaryFailed,
    Undone,
    Unpinned,
)
from fivefold.core.log import Log
from fivefold.core.messages import Compaction, Image, Text, Thinking, ToolResult, ToolUse
from fivefold.core.policy import Policy
from fivefold.core.rejection import Rejection
from fivefold.core.repair import outgoing
from fivefold.core.state import Phase, Setup, State, Step
from fivefold.core.view import view_of
from fivefold.core.window import window_of
from fivefold.errors import FoldError, IllegalEventError, LogError, PinError
from tests.build import refused
from tests.engine_oracle import (
    MARK,
    Picture,
    Thoughts,
    Watch,
    Wire,
    cuts,
    doubled,
    fewer,
    flat,
    lost,
    marks,
    tied,
    torn,
    true_tokens,
    words,
)

STEPS = int(os.environ.get("FIVEFOLD_MACHINE_STEPS", "100000"))
STEPS_A_RUN = 80
FILLER = "a=1;b=2;c=3; " * 800
"""About 0.7 tokens a character, so that a window is full of few characters."""
TOOLS = ("Read", "Bash", "Grep", "Edit", "TodoWrite", "Task", "mystery")
CLEARABLE = ("Read", "Bash", "Grep", "Edit")
FOLLOWS = ("undo", "late")
"""Levels of folds that follow from something else, and are not taken back."""
DECODER: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Entry | Fold | Unfold)
KINDS = ("structural", "model", "memory", "bound", "native", "collapse", "server", "mixed")
MOVES = (
    *["go_on"] * 14, "speak", "speak", "attach", "illegal", "illegal", "cancel", "ask", "ask", "refuse", "refuse", "mark", "pin",
    "background", "late", "undo", "resume", "request",
)  # fmt: skip


class EngineMachine(RuleBasedStateMachine):
    """One conversation under one setup."""

    kind = "mixed"
    done: Counter[str]
    """What all runs of this kind have seen."""

    # --- the world

    @initialize(dice=st.integers(0, 2**32 - 1))
    def starts(self, dice: int) -> None:
        r = Random(f"{self.kind} {dice}")
        self.setup = self.some_setup(r)
        self.rate, self.fixed = r.choice((0.55, 0.7, 0.9)), r.choice((0, 150, 400))
        self.size = r.choice((0.006, 0.015, 0.03)) * self.setup.window.context
        self.moves = [move for move in MOVES if move == "go_on" or r.random() < 0.75]
        self.names = 0
        self.now = 1_000.0
        self.state = engine.begin(Log(Head(id="machine")), self.setup)
        self.picture = Picture()
        self.thoughts = Thoughts()
        policy = self.setup.policy
        self.watch = Watch(
            policy.auto.max_failures, policy.reactive.max_recoveries, policy.auto.floor_percent / 100, policy.auto.cooldown_seconds
        )
        self.waiting: Any = None
        self.sent: Wire = []
        self.sent_sizes = (0, 0)
        self.sent_changed, self.said_since = True, False
        self.wire_of: Any = None
        self.wire_now: Wire = []
        self.marked: set[str] = set()
        self.too_late: set[str] = set()
        self.pins: dict[str, str] = {}
        self.pinned_marks: set[str] = set()
        self.stages: list[Stage] = []
        self.extracts: list[ExtractMemory] = []
        self.views: dict[str, tuple[int, list[Entry]]] = {}
        self.history: list[tuple[object, tuple[object, ...]]] = []
        if r.random() < 0.5:
            self.said(self.entry("system", Text(self.text(r, 0.3))))

    def some_setup(self, r: Random) -> Setup:
        kind = r.choice(KINDS[:-1]) if self.kind == "mixed" else self.kind
        method = {"structural": "structural", "model": "model", "native": "native", "server": "structural", "collapse": "structural"}
        policy: dict[str, dict[str, Any]] = {
            "summary": {"method": method.get(kind) or r.choice(("structural", "model"))},
            "auto": {"cooldown_seconds": r.choice((None, None, 120)), "reactive_only": r.random() < 0.1, "enabled": r.random() < 0.95},
            "micro": {"time_clear": r.random() < 0.4, "keep_results": r.choice((1, 2, 5)), "min_gain_tokens": r.choice((0, 2_000, 20_000))},
            "snip": {"superseded": r.random() < 0.8, "min_gain_tokens": r.choice((0, 5_000))},
            "collapse": {"enabled": kind == "collapse", "stretch_tokens": r.choice((1_000, 10_000)), "stage_percent": 25.0},
            "thinking": {"drop_setting": kind in ("bound", "native") and r.random() < 0.3},
            "edits": {"tools": r.choice(("off", "results", "uses")), "compaction": kind == "server"},
            "reactive": {"enabled": r.random() < 0.95, "max_recoveries": r.choice((1, 3, 3, 3))},
            "memory": {"first_tokens": 2_000, "grow_tokens": r.choice((1_000, 5_000))},
        }
        window = r.choice((4_000, 6_000, 10_000, 16_000))
        model = Model(
            id="machine-1",
            provider="anthropic",
            window=window,
            max_output=r.choice((800, 2_000)),
            cache=r.choice((None, CacheRules())),
            generation=r.choice(("claude", "unknown")),
            thinking="bound" if kind in ("bound", "native") else r.choice(("none", "free")),
            edits=("clear_tool_uses", "clear_thinking") if kind == "server" else (),
            compaction=("threshold",) if kind == "server" else (),
        )
        made = Policy.of(policy)
        extra = kind in ("model", "memory", "collapse")
        hooks = [name for name in ("pre_compact", "session_start", "post_compact") if r.random() < (0.5 if extra else 0.15)]
        return Setup(
            policy=made,
            model=model,
            window=window_of(window, model.max_output, made.window, auto=made.auto.enabled),
            memory=kind == "memory" or (kind == "bound" and r.random() < 0.3),
            extracts=kind == "memory",
            restores=r.random() < (0.6 if extra else 0.2),
            hooks=frozenset(hooks),
            counts=r.random() < 0.2,
            stages=kind == "collapse",
            cached_edits=kind in ("collapse", "server"),
            overhead=r.choice((None, None, 200)),
        )

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def text(self, r: Random, share: float = 1.0) -> str:
        """A text with a mark that nothing else holds. ``share``: of the size that texts have in this run."""
        self.names += 1
        chars = int(self.size * share * r.choice((0.1, 0.5, 1, 2, 4)))
        return f"#{self.names}# {FILLER[:chars]}".rstrip()

    def entry(self, kind: Any, *blocks: Any, **more: Any) -> Entry:
        return Entry(id=self.name("e"), kind=kind, blocks=blocks, time=self.now, **more)

    # --- one event

    @rule(move=st.sampled_from(MOVES), dice=st.integers(0, 2**32 - 1))
    def acts(self, move: str, dice: int) -> None:
        type(self).done["steps"] += 1
        r = Random(dice)
        self.now += r.choice((1, 5, 30, 30, 30, 400, 4_000))
        todo: dict[str, Callable[[Random], bool]] = {
            "speak": self.speak, "attach": self.attach, "illegal": self.illegal, "cancel": self.cancel, "ask": self.ask,
            "refuse": self.refuse, "mark": self.mark, "pin": self.pin, "background": self.background, "late": self.late,
            "undo": self.undo, "resume": self.resume, "request": self.request,
        }  # fmt: skip
        try:
            if move not in self.moves or move not in todo or not todo[move](r):
                self.go_on(r)
        except AssertionError as error:
            error.add_note("the last events:\n" + "\n".join(map(told, self.history[-25:])))
            raise

    def go_on(self, r: Random) -> None:
        """What naturally comes next."""
        if self.state.phase is Phase.WAITING:
            self.gives(self.answer(r, self.waiting))
        elif self.state.phase is Phase.SENT:
            if r.random() < 0.93 or not self.refuse(r):
                self.reply(r)
        elif self.open_calls():
            self.results(r, self.open_calls())
        elif self.user_is_next():
            self.speak(r)
        else:
            self.request(r)

    def entries(self) -> list[Entry]:
        return list(self.state.log.entries())

    def results_said(self) -> set[str]:
        return {block.tool_use_id for entry in self.entries() for block in entry.blocks if isinstance(block, ToolResult)}

    def open_calls(self) -> list[ToolUse]:
        """Calls of the last response that nothing has answered and no person has spoken over."""
        found: list[ToolUse] = []
        api = None
        for entry in reversed(self.entries()):
            if entry.kind == "assistant":
                if api is not None and entry.api_id != api:
                    break
                api = entry.api_id
                found = [block for block in entry.blocks if isinstance(block, ToolUse)] + found
            elif entry.kind == "user" and not entry.meta and api is None and not any(isinstance(b, ToolResult) for b in entry.blocks):
                return []
        said = self.results_said()
        return [call for call in found if call.id not in said]

    def user_is_next(self) -> bool:
        """Whether the conversation ends on the assistant, or is empty."""
        shown = [entry for entry in self.state.view.entries() if entry.kind in ("user", "assistant", "attachment")]
        return not shown or shown[-1].kind == "assistant"

    def speak(self, r: Random) -> bool:
        blocks = [Text(self.text(r))]
        if r.random() < 0.08:
            blocks.append(self.image(r))  # type: ignore[arg-type]
        return self.said(self.entry("user", *blocks))

    def said(self, *entries: Entry) -> bool:
        self.said_since = True
        self.gives(Said(entries=entries))
        return True

    def binds(self) -> bool:
        return self.setup.model.thinking == "bound"

    def image(self, r: Random) -> Image:
        data = "iVBORw0KGgoAAAANSUhEUgAA" + r.choice(("AAEAAAAB", "BAAAAAMA")) + "AAAA" + "A" * r.choice((8, 400))
        return Image({"type": "base64", "media_type": "image/png", "data": data})

    def attach(self, r: Random) -> bool:
        kind = r.choice(("attachment", "note", "meta", "system"))
        text = Text(self.text(r, 0.4))
        return self.said(self.entry("user", text, meta=True) if kind == "meta" else self.entry(kind, text))

    def results(self, r: Random, calls: list[ToolUse]) -> None:
        """Answers to calls: all, or some; in one entry or each in its own; in any order."""
        calls = list(calls)
        r.shuffle(calls)
        calls = calls[: r.randint(1, len(calls))] if r.random() < 0.2 else calls
        blocks = [self.result(r, call) for call in calls]
        if r.random() < 0.5:
            self.said(self.entry("user", *blocks))
        else:
            self.said(*(self.entry("user", block) for block in blocks))

    def result(self, r: Random, call: ToolUse) -> ToolResult:
        text = self.text(r, r.choice((0.5, 1, 1, 6)))
        content: Any = (Text(text), self.image(r)) if r.random() < 0.08 else text
        return ToolResult(call.id, content, is_error=r.random() < 0.05)

    def late(self, r: Random) -> bool:
        """A result for a call that others have long been made after. Where thinking is bound and a tool loop is open nothing can be
        done about one but to ask the provider to drop what no longer fits; so there it comes only where that is allowed."""
        said = self.results_said()
        now = {call.id for call in self.open_calls()}
        calls = [b for entry in self.entries() for b in entry.blocks if isinstance(b, ToolUse) and b.id not in said | now]
        helpless = self.binds() and self.thinks_on() and not self.setup.policy.thinking.drop_setting
        if not calls or helpless or self.state.phase is Phase.SENT:
            return False
        self.sent_changed = True
        return self.said(self.entry("user", self.result(r, r.choice(calls))))

    def request(self, r: Random) -> bool:
        if self.state.phase is not Phase.READY or self.user_is_next() or (self.open_calls() and self.binds()):
            return False
        source = r.choice(("main",) * 12 + ("sdk", "agent:a", "compact", "session_memory", "collapse"))
        thinks = self.setup.model.thinking != "none"
        self.sent_changed |= bool(self.open_calls())
        self.gives(RequestDue(now=self.now, source=source, thinks=thinks, reactive=r.random() < 0.8, max_tokens=r.choice((None, 500))))
        return True

    def reply(self, r: Random) -> None:
        """One response: thinking, words, calls, in one entry or in several."""
        blocks: list[Any] = []
        if self.setup.model.thinking != "none" and r.random() < 0.7:
            name = self.name("s")
            blocks += [Thinking(FILLER[: r.choice((0, 20, 100))], f"{name}{'x' * 20}")]
        if r.random() < 0.7 or not blocks:
            blocks.append(Text(self.text(r, 0.5)))
        for _ in range(r.choice((0, 1, 1, 1, 2, 3))):
            path = f"src/part{r.randint(1, 3)}.py"
            blocks.append(ToolUse(self.name("toolu_"), r.choice(TOOLS), {"file_path": path, "why": self.text(r, 0.1)}))
        if isinstance(blocks[-1], Thinking):
            blocks.append(Text(self.text(r, 0.2)))
        if self.setup.policy.edits.compaction and r.random() < 0.08:
            blocks.insert(0, Compaction({"type": "compaction", "content": "what the provider keeps"}))
        wire = self.wire if self.state.phase is Phase.READY else self.sent
        usage = None
        if r.random() < 0.7:
            usage = Usage(input=true_tokens(wire, self.rate, self.fixed), output=true_tokens([("", str(b)) for b in blocks], self.rate, 0))
        api = self.name("api")
        parts = [blocks] if r.random() < 0.5 else [[block] for block in blocks]
        entries = [self.entry("assistant", *part, api_id=api, usage=usage) for part in parts]
        self.thoughts.take(wire, entries)
        self.gives(Replied(entries=tuple(entries), now=self.now, source=self.state.sent.source if self.state.sent else "main"))

    def refuse(self, r: Random) -> bool:
        if self.state.phase is not Phase.SENT:
            return False
        true = true_tokens(self.sent, self.rate, self.fixed)
        why: Any = r.choice(("too_long", "too_long", "too_long", "output_too_large", "bytes", "media", "transient", "other"))
        numbers = r.random() < 0.6
        limit = r.choice((self.setup.window.context, int(true * r.uniform(0.4, 0.99)) + 1))
        output = r.choice((None, 600)) if why == "output_too_large" else None
        size = sum(len(block) for _, block in self.sent)
        known: dict[str, Any] = {}
        if numbers and why in ("too_long", "output_too_large"):
            known = {"actual": max(limit + 1, true) if why == "too_long" else max(1, limit - r.choice((100, 1_500))), "limit": limit}
        elif numbers and why == "bytes":
            known = {"actual": size, "limit": int(size * r.uniform(0.5, 0.95))}
        elif numbers and why == "media":
            known = r.choice(({"max_side": 500}, {"places": ((r.randint(0, 4), r.randint(0, 2)),)}, {}))
        self.gives(RequestRejected(rejection=Rejection(why=why, message=f"refused: {why}", max_tokens=output, **known), now=self.now))
        return True

    def ask(self, r: Random) -> bool:
        if self.state.phase is not Phase.READY or self.state.tracking.asked is not None:
            return False
        level = r.choice((None, None, None, None, "snip", "micro", "collapse", "memory", "auto", "partial"))
        ids = [id for id, _ in self.picture.shown]
        pivot = r.choice([*ids, "nobody"]) if level == "partial" else None
        instructions = ("keep the names",) if r.random() < 0.3 else ()
        source = "agent" if r.random() < 0.3 else "main"
        direction: Any = r.choice(("from", "up_to"))
        self.gives(
            CompactAsked(now=self.now, level=level, pivot=pivot, direction=direction, instructions=instructions, source=source)  # type: ignore[arg-type]
        )
        return True

    def cancel(self, r: Random) -> bool:
        self.gives(Cancelled(now=self.now))
        return True

    def mark(self, r: Random) -> bool:
        ids = [entry.id for entry in self.entries() if entry.kind in ("assistant", "attachment") and entry.id.startswith("e")]
        if not ids:
            return False
        chosen = tuple(r.sample(ids, min(len(ids), r.randint(1, 2))))
        self.marked.update(chosen)
        self.gives(Marked(ids=chosen))
        return True

    def pin(self, r: Random) -> bool:
        if self.pins and r.random() < 0.3:
            name = r.choice(list(self.pins))
            del self.pins[name]
            self.gives(Unpinned(name=name))
            return True
        short = [(entry.id, words(entry.blocks)) for entry in self.entries() if entry.kind == "user" and len(words(entry.blocks)) < 150]
        short = [(id, text) for id, text in short if (id, text) in ((a, words(b)) for a, b in self.picture.shown)]
        if not short:
            return False
        name, text = r.choice(short)
        try:
            self.gives(Pinned(name=name, text=text))
        except PinError:
            return False
        self.pins[name] = text
        self.pinned_marks.update(MARK.findall(text))
        return True

    def background(self, r: Random) -> bool:
        """What was started on the side has ended, well or not."""
        if self.stages and r.random() < 0.7:
            stage = self.stages.pop(0)
            low, high = self.state.log.position(stage.first), self.state.log.position(stage.last)
            told = " ".join(self.told_by_log(low, high))
            self.gives(Staged(first=stage.first, last=stage.last, text=f"staged {told} {FILLER[: r.choice((0, 60))]}"))
            return True
        if self.extracts:
            action = self.extracts.pop(0)
            self.gives(MemoryUpdated(covered=action.up_to if r.random() < 0.8 else None, why="it failed"))
            return True
        return False

    def undo(self, r: Random) -> bool:
        folds = [placed.fold for placed in self.state.log.folds if placed.fold.level not in FOLLOWS]
        if self.state.phase is not Phase.READY or not folds:
            return False
        count = 1 if r.random() < 0.7 else r.randint(1, len(folds))
        taken = [fold.id for fold in reversed(folds[-count:])]
        said, before = self.views[taken[-1]]
        try:
            self.gives(Undone(folds=tuple(taken), now=self.now))
        except FoldError:
            assert self.binds() and self.thinks_on(), "X5: only thinking that is bound stands in the way of an undo"
            return False
        undone = tuple(f"{record.fold}." for record in self.state.log.records() if isinstance(record, Unfold))
        later = [entry for position, entry in enumerate(self.entries()) if position >= said and not entry.id.startswith(undone)]
        shown, expected = list(self.state.view.entries()), before + later
        if self.binds():  # what was thought under a fold no longer fits
            shown, expected = without_thinking(shown), without_thinking(expected)
        assert shown == expected, "X5: undo gives the view from before"
        return True

    def thinks_on(self) -> bool:
        """Whether the last response has calls and no person has spoken since."""
        for entry in reversed(self.entries()):
            if entry.kind == "assistant":
                return any(isinstance(b, ToolUse) for e in self.entries() if e.api_id == entry.api_id for b in e.blocks)
            if entry.kind == "user" and not entry.meta and not any(isinstance(block, ToolResult) for block in entry.blocks):
                return False
        return False

    def resume(self, r: Random) -> bool:
        """The program ends here, and goes on with what is in the log (K2)."""
        if self.state.phase is Phase.WAITING:
            return False
        lines = [msgspec.json.encode(record) for record in self.state.log.records()]
        log = Log(self.state.log.head, (DECODER.decode(line) for line in lines))
        again = engine.begin(log, self.setup)
        assert again.view == self.state.view
        assert kept(again) == kept(self.state), "K2: what has to be kept is known again"
        assert again.setup.window == self.state.setup.window
        self.watch.owes, self.watch.asked, self.watch.recoveries = False, 0, 0
        self.stages, self.extracts, self.waiting, self.sent_changed = [], [], None, True
        self.state = again
        self.history.append(("resume", ()))
        return True

    # --- what the world answers

    def answer(self, r: Random, action: Any) -> Event:
        match action:
            case RunHook(name=name):
                return HookAnswered(
                    name=name,
                    instructions=("and the ports",) if r.random() < 0.3 else (),
                    veto="not now" if name == "pre_compact" and r.random() < 0.15 else "",
                    context=tuple(f"hook text {self.name('h')} {FILLER[: r.choice((0, 100, 1_000))]}" for _ in range(r.randint(0, 2))),
                    failed=("a hook threw",) if r.random() < 0.2 else (),
                )
            case ReadMemory():
                return MemoryRead(text=r.choice((None, "memory", "memory")), running=r.random() < 0.1)
            case ReadFiles(paths=paths):
                found = [RestoredFile(path, FILLER[: r.choice((20, 600, 3_000))]) for path in paths if r.random() < 0.8]
                skills = tuple(FILLER[: r.choice((30, 1_400))] for _ in range(r.randint(0, 1)))
                return FilesRead(files=tuple(found), attachments=skills, skipped=("gone.py: missing",))
            case CountTokens():
                return Counted(tokens=r.choice((None, true_tokens(self.wire, self.rate, self.fixed))))
            case Summarize():
                return self.summary(r, action)
        raise AssertionError(f"nothing answers {action!r}")

    def summary(self, r: Random, action: Summarize) -> Event:
        luck = r.random()
        calls = 1 if action.method == "model" else 0
        if luck < 0.12:
            return SummaryFailed(why="no summary came", calls=calls)
        if action.first is None or action.last is None:
            span = self.own_span(r, action)
            if span is None:
                return SummaryFailed(why="there is nothing to fold")
        else:
            span = action.first, action.last
        log = self.state.log
        low, high = log.position(span[0]), log.position(span[1])
        if action.first is None:
            told = self.told_by_log(low, high)
        else:
            told = marks((item.entry.id, list(item.entry.blocks)) for item in self.state.view.shown() if low <= item.position <= high)
        pinned = [text for text in self.pins.values() if not set(MARK.findall(text)) - set(told)]
        told = [mark for mark in dict.fromkeys(told) if all(mark not in text for text in pinned)]
        filler = FILLER[: int(self.setup.window.auto * r.choice((0, 0, 0.1, 0.3, 0.6, 2)) * action.pressure)]
        text = "" if luck < 0.16 else "\n".join(["summary", " ".join(told), *pinned, filler]).rstrip()
        own = {"first": span[0], "last": span[1]} if action.first is None else {}
        block: Any = {"type": "compaction", "content": text} if action.method == "native" and text else {}
        return Summarized(
            text=text if not block else r.choice(("", "what people said")),
            method=action.method,
            middle=self.middle(r, high) if action.method == "structural" and r.random() < 0.3 else (),
            calls=calls,
            usage=Usage(input=100, output=50) if calls else None,
            block=block,
            **own,
        )

    def told_by_log(self, low: int, high: int) -> list[str]:
        """The marks of a stretch of the log, made anew from what was said; what was snipped is not told again."""
        folds = [placed.fold for placed in self.state.log.folds if placed.fold.level == "snip"]
        ids = {id for fold in folds for change in fold.changes if isinstance(change, HideEntries) for id in change.ids}
        gone = {mark for entry in self.entries() if entry.id in ids for mark in MARK.findall(words(entry.blocks))} - set(
            marks(self.picture.shown)
        )
        return [mark for entry in self.entries()[low : high + 1] for mark in MARK.findall(words(entry.blocks)) if mark not in gone]

    def own_span(self, r: Random, action: Summarize) -> tuple[str, str] | None:
        """Where a structural summariser would cut, made anew from the whole log; now and then where it may not."""
        said = self.entries()
        first = next((i for i, entry in enumerate(said) if entry.kind not in ("system", "note")), None)
        if first is None:
            return None
        least = first if action.not_before is None else self.state.log.position(action.not_before)
        spoken = len(said)
        while spoken > 0 and said[spoken - 1].kind != "assistant":
            spoken -= 1
        legal = [count for count in cuts(said) if count > max(first, least) and count <= max(spoken, least + 1)]
        if r.random() < 0.1 or not legal:
            legal = list(range(first + 1, len(said) + 1))
        if r.random() < 0.7 and action.keep_tail:
            legal = legal[: max(1, len(legal) - r.randint(0, 6))]
        return (said[first].id, said[r.choice(legal[-3:]) - 1].id) if legal else None

    def middle(self, r: Random, high: int) -> tuple[tuple[Target, str], ...]:
        """Results behind the span that shrink (L14)."""
        found = [
            Target(item.entry.id, i)
            for item in self.state.view.shown()
            if item.position > high and item.side == 0 and item.entry.id not in self.pins
            for i, block in enumerate(item.original.blocks)
            if isinstance(block, ToolResult) and not item.edits.texts
        ]
        return tuple((target, "picked lines") for target in r.sample(found, min(2, len(found))))

    # --- what may not happen

    def illegal(self, r: Random) -> bool:
        """Something that this phase does not take, or that cannot be: refused, and nothing has changed."""
        before, records = self.state, list(self.state.log.records())
        legal = engine.LEGAL[self.state.phase]
        events = [event for event in self.samples() if type(event) not in legal or self.answers_another(event)]
        wrong: list[tuple[Event, type[Exception]]] = [(event, IllegalEventError) for event in events]
        if self.picture.shown:
            wrong.append(
                (Said(entries=(self.entry("user", Text("new")), self.entries()[0] if self.entries() else self.entry("note"))), LogError)
            )
        wrong += [(Pinned(name="p", text="  "), PinError), (Unpinned(name="nobody"), PinError)]
        wrong.append((Pinned(name="p", text=FILLER), PinError))
        if self.state.phase is Phase.READY:
            wrong += [(Undone(folds=("nobody",), now=self.now), FoldError), (Undone(folds=(), now=self.now), FoldError)]
        event, error = r.choice(wrong)
        with pytest.raises(error):
            engine.step(self.state, event)
        assert self.state is before and list(self.state.log.records()) == records
        assert self.state.view == view_of(self.state.log)
        self.history.append((f"illegal {type(event).__name__}", ()))
        return True

    def answers_another(self, event: Event) -> bool:
        answers = {RunHook: HookAnswered, ReadMemory: MemoryRead, ReadFiles: FilesRead, CountTokens: Counted}
        wanted: Any = (Summarized, SummaryFailed) if isinstance(self.waiting, Summarize) else answers.get(type(self.waiting), ())
        answer = isinstance(event, HookAnswered | MemoryRead | FilesRead | Summarized | SummaryFailed | Counted)
        return self.state.phase is Phase.WAITING and answer and not isinstance(event, wanted)

    def samples(self) -> list[Event]:
        now = self.now
        return [
            RequestDue(now=now), Replied(entries=(), now=now), RequestRejected(rejection=Rejection(why="too_long", message=""), now=now),
            CompactAsked(now=now), Undone(folds=("f",), now=now), HookAnswered(name="pre_compact"), MemoryRead(text="m"), FilesRead(),
            Summarized(text="s", method="model"), SummaryFailed(why=""), Counted(tokens=5),
        ]  # fmt: skip

    # --- one step, looked at

    def gives(self, event: Event) -> None:
        self.history.append((event, ()))
        before = self.state
        step = engine.step(before, event)
        again = engine.step(before, event)
        assert step.actions == again.actions and same(step.state, again.state), "a step is a function of state and event"
        type(self).done[type(event).__name__] += 1
        self.state = step.state
        self.history[-1] = event, step.actions
        asks = [action for action in step.actions if isinstance(action, NEEDS_ANSWER)]
        waits = step.state.phase is Phase.WAITING
        if waits and isinstance(event, Said | Staged | MemoryUpdated | Marked | Pinned | Unpinned) and before.phase is Phase.WAITING:
            assert not asks, "what happens meanwhile asks for nothing"
        else:
            assert len(asks) == waits and (not asks or step.actions[-1] is asks[0]), "one action waits for its answer, and it is the last"
            self.waiting = asks[0] if asks else None
        self.stages += [action for action in step.actions if isinstance(action, Stage)]
        self.extracts += [action for action in step.actions if isinstance(action, ExtractMemory)]
        self.grew(before, step)
        self.waits_quietly(before, event, step)
        self.watch.saw(event, step.state, step.actions, self.input, self.now)
        self.folds_are_a_success(before, step)
        changed = any(not isinstance(record, Entry) for record in list(step.state.log.records(before.log.record_count)))
        if changed or any(isinstance(action, Send) for action in step.actions):
            self.can_be_sent()
        if waits is False:
            assert kept_of(remember.recalled(step.state.log) or type(step.state.tracking)()) == kept(step.state), "K2: the log keeps it"
        for action in step.actions:
            if isinstance(action, Send):
                self.goes_out(action)

    def input(self) -> object:
        """What a compaction works on: what is shown, and the last fold."""
        notes = {entry.id for entry in self.state.log.entries() if entry.kind == "note"}
        folds = self.state.log.folds
        return folds[-1].fold.id if folds else "", *((id, words(blocks)) for id, blocks in self.picture.shown if id not in notes)

    def grew(self, before: State, step: Step) -> None:
        """The log only grows, by what was said to be appended; each fold keeps what it has no right to take (K4, section 0)."""
        log = step.state.log
        old, new = list(before.log.records()), list(log.records())
        assert all(a is b for a, b in zip(old, new, strict=False)) and len(new) >= len(old)
        told = [record for action in step.actions if isinstance(action, Append) for record in action.records]
        assert told == new[len(old) :], "what is appended is told, and nothing else"
        snipped = tied(list(log.entries()), self.marked) if any(isinstance(record, Fold) for record in new[len(old) :]) else set()
        for record in new[len(old) :]:
            shown = self.picture.shown
            if isinstance(record, Fold):
                said = sum(isinstance(one, Entry) for one in self.picture.oracle.records)
                self.views[record.id] = (said, list(view_of(Log(log.head, self.picture.oracle.records)).entries()))
            if isinstance(record, Entry):
                self.too_late |= self.of_hidden_calls(record)
            self.picture.take(record)
            if isinstance(record, Fold):
                type(self).done[f"fold {record.level}"] += 1
                missing = lost(record, shown, [*self.picture.shown, *self.put_off()], self.picture, snipped)
                assert not missing, f"a fold of {record.level} loses {sorted(missing)}"
                self.policy_holds(record, shown)
            if not isinstance(record, Entry):
                self.sent_changed = True
        if len(new) > len(old):
            assert [(entry.id, list(entry.blocks)) for entry in step.state.view.entries()] == self.picture.shown
            assert step.state.view == view_of(log)
            ids = [id for id, _ in self.picture.shown]
            assert len(ids) == len(set(ids)), "I4"
            twice = set(doubled(self.picture.shown)) - self.pinned_marks
            assert not twice, f"shown twice: {twice}"
            broken = torn(list(log.entries()), self.picture.shown, self.too_late)
            assert not broken, broken

    def of_hidden_calls(self, entry: Entry) -> set[str]:
        """Results in an entry whose calls are folded away already."""
        calls = {block.id for _, blocks in self.picture.shown for block in blocks if isinstance(block, ToolUse)}
        return {block.tool_use_id for block in entry.blocks if isinstance(block, ToolResult)} - calls

    def policy_holds(self, fold: Fold, shown: list[tuple[str, list[Any]]]) -> None:
        """Whose results may be cleared, and how many stay (M1, M2)."""
        results = [(id, i, block) for id, blocks in shown for i, block in enumerate(blocks) if isinstance(block, ToolResult)]
        tools = {block.id: block.name for entry in self.entries() for block in entry.blocks if isinstance(block, ToolUse)}
        clearable = [(id, i) for id, i, block in results if tools.get(block.tool_use_id) in CLEARABLE and holds_more(block)]
        for change in fold.changes:
            if isinstance(change, ReplaceBlocks) and fold.level == "micro" and "cleared" in change.texts[0]:
                keep = self.setup.policy.micro.keep_results
                cleared = {(target.entry, target.block) for target in change.targets}
                assert cleared.issubset(clearable), "M1: a result that may not be cleared"
                assert cleared.isdisjoint(clearable[-keep:]), "M2: the newest stay"

    def waits_quietly(self, before: State, event: Event, step: Step) -> None:
        """While a compaction waits, and when it is cancelled, log and tracking are what they were (Q4, A6)."""
        if before.phase is not Phase.WAITING or isinstance(event, Said | Staged | MemoryUpdated | Marked | Pinned | Unpinned | Counted):
            return
        ended = any(
            isinstance(action, Emit) and action.name in ("compaction_finished", "compaction_failed", "compaction_vetoed")
            for action in step.actions
        )
        hooked = isinstance(event, HookAnswered) and event.name == "post_compact"
        if isinstance(event, Cancelled) or not (ended or hooked):
            added = list(step.state.log.records())[before.log.record_count :]
            assert all(isinstance(record, Entry) and record.kind == "note" for record in added), "nothing of it stays"
            assert step.state.tracking == before.tracking
            assert list(step.state.view.sent()) == list(before.view.sent())

    def folds_are_a_success(self, before: State, step: Step) -> None:
        """A11, by sizes of our own: what the provider would count is less, and the meter is under the threshold with headroom."""
        finished = [action for action in step.actions if isinstance(action, Emit) and action.name == "compaction_finished"]
        for action in finished:
            fields: dict[str, Any] = action.fields
            policy = self.setup.policy.auto
            after, most = fields["tokens_after"], step.state.setup.window.auto * (1 - policy.headroom_percent / 100)
            assert after < fields["tokens_before"], "A11: not smaller"
            if fields["level"] != "partial":
                limit = before.work.must_fit if before.work is not None else None
                assert after <= max(most, 0.95 * (limit or 0)), "A11: over the threshold less headroom"
                assert after <= fields["tokens_before"] * (1 - policy.min_gain_percent / 100)
            fold = next(fold for fold in reversed([placed.fold for placed in step.state.log.folds]) if fold.id == fields["fold"])
            assert fold.tokens_after == after
            self.sent_changed = True
            assert step.state.used >= self.plain() or step.state.tracking.correction < 1, "T3: the meter is under the plain estimate"
            unanswered = self.unanswered_words()
            ids = {id for id, _ in self.picture.shown}
            if fields["level"] != "partial" and "takes in as well" not in words(dict(self.picture.shown).get(f"{fold.id}.summary", [])):
                assert all(entry.id in ids for entry in unanswered) or self.cut_by_script, "C6: words that nobody has answered are gone"

    cut_by_script = True

    def unanswered_words(self) -> list[Entry]:
        found = []
        for entry in reversed(self.entries()):
            if entry.kind == "assistant":
                break
            if entry.kind == "user" and not entry.meta and not any(isinstance(block, ToolResult) for block in entry.blocks):
                found.append(entry)
        return found

    @property
    def wire(self) -> Wire:
        """What would be sent now."""
        if self.wire_of is not self.state.view:
            self.wire_of, self.wire_now = self.state.view, flat(outgoing(list(self.state.view.sent())))
        return self.wire_now

    def can_be_sent(self) -> None:
        """A provider would take the view as it is now (I1–I4), and its bytes are the same when asked twice (I5)."""
        request = outgoing(list(view_of(self.state.log).sent()))
        if request.messages:
            assert not refused(request.messages), refused(request.messages)
        assert flat(request) == self.wire, "I5"
        assert not self.thoughts.changed(self.wire), "I2: thinking goes back as it was made, in order, or not at all"

    def goes_out(self, action: Send) -> None:
        type(self).done["sent"] += 1
        if action.drop_thinking or self.provider_vouches():
            self.thoughts.valid_here(self.wire)
        if self.binds():
            assert not self.thoughts.misplaced(self.wire), "I7: thinking behind a prefix that has changed"
        if not self.sent_changed:
            assert self.wire[: len(self.sent)] == self.sent, "I5: what was sent before is a prefix of what is sent now"
        if action.transition not in ("", "max_tokens_retry") and not self.said_since:
            smaller = self.smaller() if action.transition not in ("media_retry", "body_retry") else fewer(self.wire, self.sent)
            assert smaller, "R9: not smaller than what was refused"
        seen = "\n".join(words(blocks) for _, blocks in [*self.picture.shown, *self.put_off()])
        assert all(text in seen for text in self.pins.values()), "X7: what is pinned is gone"
        self.sent_sizes = self.sizes()
        self.sent, self.sent_changed, self.said_since = self.wire, bool(self.open_calls()), False

    def sizes(self) -> tuple[int, int]:
        """What is sent: by the plain estimate, and as the provider counts."""
        return self.plain(), true_tokens(self.wire, self.rate, self.fixed)

    def smaller(self) -> bool:
        """Whether it is smaller than what was sent before, by one of two sizes, each of which can be wrong by a little."""
        return any(now < then for now, then in zip(self.sizes(), self.sent_sizes, strict=True))

    def plain(self) -> int:
        """Tokens of what is sent, one entry after another, with nothing learned."""
        return sum(self.state.measure(entry).tokens for entry in self.state.view.sent())

    def put_off(self) -> list[tuple[str, list[Any]]]:
        """Attachments that wait for a call to be answered (C1)."""
        return [(entry.id, list(entry.blocks)) for entry in self.state.tracking.waiting]

    def provider_vouches(self) -> bool:
        folds = self.state.log.folds
        return any('"type": "compaction"' in block for _, block in self.wire) and bool(folds) and self.sent_changed


def holds_more(result: ToolResult) -> bool:
    """Whether a result is longer than what would stand for it, or holds media, which go with it (M5)."""
    text = words([result])
    media = isinstance(result.content, tuple) and any(isinstance(part, Image) for part in result.content)
    return text != CLEARED and (len(text) > len(CLEARED) or media)


def without_thinking(entries: list[Entry]) -> list[Entry]:
    return [msgspec.structs.replace(e, blocks=tuple(block for block in e.blocks if not isinstance(block, Thinking))) for e in entries]


def kept(state: State) -> dict[str, object]:
    """The part of the tracking that has to survive a restart."""
    return kept_of(state.tracking)


def kept_of(tracking: Any) -> dict[str, object]:
    return {name: getattr(tracking, name) for name in remember.KEPT}


def same(a: State, b: State) -> bool:
    """Whether two states are equal; ledgers by what they say."""
    if a.ledger.size() != b.ledger.size() or a.ledger.measures != b.ledger.measures or a.ledger.calibration != b.ledger.calibration:
        return False
    return a._replace(ledger=b.ledger, measure=b.measure) == b


def told(happened: tuple[object, tuple[object, ...]]) -> str:
    """An event and what it led to, in a line."""
    event, actions = happened
    return f"{brief(event)} -> {[brief(action) for action in actions if not isinstance(action, Append)]}"


def brief(value: object) -> str:
    return value if isinstance(value, str) else f"{type(value).__name__} {json.dumps(msgspec.to_builtins(value), default=str)[:160]}"


@pytest.mark.parametrize("kind", KINDS)
def test_random_conversations_keep_every_promise(kind: str) -> None:
    """Sections 3–11: at least 100,000 steps over all kinds; FIVEFOLD_MACHINE_STEPS sets another number."""
    wanted = max(1, STEPS // len(KINDS))
    machine = type(f"{kind.title()}Machine", (EngineMachine,), {"kind": kind, "done": Counter()})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=-(-wanted // STEPS_A_RUN) + 1,
            stateful_step_count=STEPS_A_RUN,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            derandomize=True,
        ),
    )
    print(kind, dict(machine.done))
    assert machine.done["steps"] >= wanted
