"""A conversation that goes through the engine, its actions performed: all but how a call is made (Q2, X1–X8).

What an event leads to is worked out on the side and put in place at once when it is through: on an error or a cancel the
conversation is exactly what it was.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any, TypeVar

import msgspec

from . import agent_tools
from .core import engine
from .core.actions import NEEDS_ANSWER, Append, Emit, ExtractMemory, GiveUp, Send, Stage
from .core.edits import cut, thinking
from .core.entries import Entry, Fold, HideSpan, Record, Unfold
from .core.events import (
    Cancelled,
    CompactAsked,
    Event,
    Marked,
    Pinned,
    Replied,
    RequestDue,
    RequestRejected,
    Said,
    Staged,
    Summarized,
    SummaryFailed,
    Undone,
    Unpinned,
)
from .core.levels import auto, server_edits
from .core.log import Log
from .core.messages import JSON
from .core.rejection import Rejection
from .core.repair import Request, outgoing
from .core.state import Setup, State, Tracking
from .core.window import state_of
from .errors import CompactionError, FoldError, PinError
from .outcome import Trial, cleared_in, error_of, failure_of, plan_of, row_not_enough, words_of
from .perform import Effect, Ports, answer, extract_memory, stage_summary
from .plan import LevelRow, Plan, rows_of
from .ports import Keeper, Listener
from .setup import setup_for
from .warn import WarningStore

RECALL_CHARS = 20_000
"""Most of one answer to the agent: a page, not the history."""
T = TypeVar("T")
Work = Generator[Effect, Any, T]


@dataclass(frozen=True)
class Outgoing:
    """A request that is due: what is sent, and with which settings."""

    state: State = field(repr=False)
    send: Send

    @cached_property
    def request(self) -> Request:
        """System prompt and messages, repaired: made when it is first asked for, at a cost of the whole view, as sending it has."""
        return request_of(self.state, prefill=self.state.setup.model.prefill)


def request_of(state: State, *, prefill: bool = True, paused: bool = False) -> Request:
    """A state's view as a request. ``prefill``: whether one may end on the assistant (I3). ``paused``: the provider stopped inside its
    own tools, and goes on when it gets back what it said (I8)."""
    setup = state.setup
    prefill = prefill or setup.family != "anthropic"
    return outgoing(
        list(state.view.sent()), family=setup.family, foreign=setup.foreign, limits=setup.model.media, prefill=prefill, paused=paused
    )


class Driving:
    """What both drivers share: the state, and the generators that say what is to be done."""

    def __init__(
        self,
        log: Log | None = None,
        *,
        setup: Setup,
        ports: Ports | None = None,
        tracking: Tracking | None = None,
        keeper: Keeper | None = None,
        listen: Listener | None = None,
        history: Callable[[], Log] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.ports = ports or Ports()
        self.keeper = keeper
        self.listen = listen
        self.clock = clock
        self.history = history or (lambda: self.state.log)
        """The whole log, where ``log`` was not loaded whole (K2, K4)."""
        self.state: State = engine.begin(log if log is not None else Log(), setup_for(setup, self.ports), tracking)
        self.warnings = WarningStore()
        self._background: list[ExtractMemory | Stage] = []
        self._said: list[Event] = []
        self._busy = False
        self._unkept: list[Record] = []

    # --- reading

    @property
    def log(self) -> Log:
        """The conversation's log."""
        return self.state.log

    @property
    def tokens(self) -> int:
        """Size of the view (T2)."""
        return self.state.used

    def outgoing(self) -> Request:
        """The view as a request."""
        return request_of(self.state)

    # --- generators

    def _try(self, state: State, event: Event, *, tell: bool = False) -> Work[Trial]:
        """Everything that an event leads to. ``tell``: it is meant, so whoever listens hears of it while it goes on."""
        actions: list[object] = []
        waiting: Event | None = event
        while waiting is not None:
            state, made = engine.step(state, waiting)
            waiting = None
            for action in made:
                if isinstance(action, NEEDS_ANSWER):
                    waiting = yield from answer(self.ports, state, action)
                else:
                    actions.append(action)
                    if tell and isinstance(action, Emit):
                        self._tell(action)
        return Trial(state, tuple(actions))

    def _do(self, event: Event) -> Work[Trial]:
        """An event, put in place when it is through. What is said meanwhile waits."""
        if self._busy:
            raise CompactionError("this conversation is being compacted: wait for it, or cancel it")
        self._busy = True
        try:
            trial = yield from self._try(self.state, event, tell=True)
            self._put(trial)
        finally:
            self._busy = False
            self._take_said()
        return trial

    def _put(self, trial: Trial) -> None:
        records = [record for action in trial.of(Append) for record in action.records]
        self.state = trial.state
        self._background += [action for action in trial.actions if isinstance(action, ExtractMemory | Stage)]
        self._keep(records)
        for emit in trial.of(Emit):
            if emit.name == "compaction_finished":
                self._clean(str(emit.fields["source"]))
        self._warn()

    def _keep(self, records: Sequence[Record]) -> None:
        """Hand records to the keeper. One that fails is told, and gets them again with the next ones (K5)."""
        self._unkept += records
        if self.keeper is None or not self._unkept:
            return
        try:
            self.keeper.append(*self._unkept)
            self._unkept.clear()
        except Exception as error:
            self._tell(Emit(name="not_kept", fields={"records": len(self._unkept), "why": f"{type(error).__name__}: {error}"}))

    def _clean(self, source: str) -> None:
        for why in self.ports.cleanup.run(source) if self.ports.cleanup is not None else ():
            self._tell(Emit(name="cleanup_failed", fields={"why": why}))

    def _tell(self, emit: Emit) -> None:
        if emit.name == "compaction_started":
            self.warnings.attempt_started()
        if self.listen is not None:
            variant = self.state.setup.variant
            self.listen(msgspec.structs.replace(emit, fields={**emit.fields, "variant": variant}) if variant else emit)

    def _warn(self) -> None:
        self.warnings.update(state_of(self.state.used, self.state.setup.window), suppressed=self.state.tracking.suppressed)

    def _take_said(self) -> None:
        for event in self._said:
            self._now(event)
        self._said.clear()

    def _now(self, event: Event) -> Trial:
        """An event that asks nothing of the world."""
        if self._busy:
            self._said.append(event)
            return Trial(self.state, ())
        state, actions = engine.step(self.state, event)
        trial = Trial(state, actions)
        for action in trial.of(Emit):
            self._tell(action)
        self._put(trial)
        return trial

    def due_work(self, source: str, max_tokens: int | None, thinks: bool, reactive: bool) -> Work[Outgoing]:
        event = RequestDue(now=self.clock(), source=source, max_tokens=max_tokens, thinks=thinks, reactive=reactive)
        return self._outgoing((yield from self._do(event)))

    def refused_work(self, rejection: Rejection) -> Work[Outgoing]:
        trial = yield from self._do(RequestRejected(rejection=rejection, now=self.clock()))
        return self._outgoing(trial)

    def _outgoing(self, trial: Trial) -> Outgoing:
        sent = trial.of(Send)
        if sent:
            return Outgoing(self.state, sent[-1])
        given_up = trial.of(GiveUp)
        if not given_up:
            raise CompactionError("the engine neither sent nor gave up")
        error = error_of(given_up[-1])
        if self.ports.hooks is not None and "stop_failure" in self.ports.hooks.names():
            self.ports.hooks.start("stop_failure", {"reason": given_up[-1].end, "message": str(error)})
        raise error

    def _compact(self, event: CompactAsked) -> Work[Plan]:
        base = self.state
        trial = yield from self._try(base, event)
        return plan_of(base, trial, ())

    def _compact_now(self, event: CompactAsked) -> Work[Plan]:
        base = self.state
        trial = yield from self._do(event)
        plan = plan_of(base, trial, ())
        if not plan.success:
            raise failure_of(trial, plan)
        return plan

    def _fit(self) -> Work[Plan]:
        """As much as success needs, the cheapest first (Z1): snip, clear, then a full compaction; a level that would not be enough by
        itself is not applied, since the full one makes it unnecessary."""
        base, now = self.state, self.clock()
        most = auto.target(base.setup)
        if base.used <= most:
            return Plan(base, base, (), True, f"{base.used:,} tokens are under {most:,} already", 0)
        passed: list[LevelRow] = []
        for level in ("snip", "micro"):
            trial = yield from self._try(base, CompactAsked(now=now, level=level))
            rows = rows_of([(emit.name, emit.fields) for emit in trial.of(Emit)])
            if trial.state.used <= most and rows:
                return plan_of(base, trial, passed)
            passed.append(row_not_enough(level, base, trial, rows, most))
        trial = yield from self._try(base, CompactAsked(now=now))
        return plan_of(base, trial, passed)

    def _applied(self, plan: Plan) -> Plan:
        plan.check(self.state)
        if self._busy:
            raise CompactionError("this conversation is being compacted: wait for it, or cancel it")
        emits = [Emit(name=str(event["event"]), fields={key: event[key] for key in event if key != "event"}) for event in plan.events]
        for emit in emits:
            self._tell(emit)
        self._put(Trial(plan.state, (Append(records=plan.records), *emits)))
        return plan

    def background_work(self) -> Work[int]:
        """Perform what may run in the background; says how many were done. A failure is an event and changes nothing (S3)."""
        done = 0
        self._learn()
        while self._background:
            action = self._background.pop(0)
            event: Event
            if isinstance(action, ExtractMemory):
                event = yield from extract_memory(self.ports, self.state, action.up_to, self.history)
            else:
                event = yield from self._stage(action)
            self._now(event)
            done += 1
        return done

    def _learn(self) -> None:
        """Let the structural summariser look at what is new ahead of time: a fold then pays for choosing alone (L6)."""
        known, log = self.ports.known, self.state.log
        if self.state.setup.policy.summary.method == "structural" and not log.base:
            known.learn([log.entry_at(position) for position in range(len(known.index.entries), len(log))])

    def _stage(self, action: Stage) -> Work[Event]:
        try:
            made = yield from answer(self.ports, self.state, stage_summary(self.state, action))
        except Exception as error:
            made = SummaryFailed(why=f"{type(error).__name__}: {error}")
        if isinstance(made, Summarized):
            return Staged(first=action.first, last=action.last, text=made.text)
        return Staged(first=action.first, last=action.last, text="", why=made.why if isinstance(made, SummaryFailed) else "it gave nothing")

    # --- what asks nothing of the world

    def say(self, *entries: Entry) -> None:
        """Entries of the user's side: words, tool results, notes. During a compaction they wait for its end."""
        self._now(Said(entries=entries))

    def replied(self, *entries: Entry, source: str = "main", context_management: JSON = None) -> None:
        """A response. ``context_management``: the response's field of this name, which says what the provider has cleared (E6)."""
        applied = server_edits.applied(context_management)
        self._now(Replied(entries=tuple(cleared_in(entries, applied)), now=self.clock(), source=source, applied=applied))

    def cancel(self) -> None:
        """The user stopped the request that is at the provider (Q4): what comes of it is no longer waited for, and another may be made."""
        self._now(Cancelled(now=self.clock()))

    def call_tool(self, name: str, input: object) -> str:
        """Perform a call of one of ``agent_tools.schemas`` and give the text of its result (X8). A compaction that the agent asks for is
        made before the next request, when the call has its result."""
        call = agent_tools.parse(name, input)
        match call:
            case agent_tools.BadCall(message=message):
                return message
            case agent_tools.RecallCall():
                return agent_tools.recall_text(self.history(), call, most_chars=RECALL_CHARS)
            case agent_tools.SnipCall():
                marks = agent_tools.snip_marks(self.state.view, call)
                if marks.ids:
                    self._now(Marked(ids=marks.ids))
                return marks.text
            case agent_tools.CompactCall(instructions=instructions):
                given = (instructions,) if instructions else ()
                self._now(CompactAsked(now=self.clock(), instructions=given, source="agent"))
                return "The conversation will be compacted before the next step; nothing is lost, `recall` finds what is folded away."

    def snip(self, *ids: str) -> None:
        """Mark entries to be folded away at the next request (X3)."""
        missing = [id for id in ids if cut.place_of(self.state.view, id) is None]
        if missing:
            raise FoldError(f"not in view: {', '.join(missing)}")
        self._now(Marked(ids=ids))

    def pin(self, entry_or_text: str) -> str:
        """Pin an entry by its id, or a text; gives the pin's name. Raises PinError over the budget (X7)."""
        found = self.state.log.find(entry_or_text)
        text = entry_or_text if found is None else words_of(found)
        name = entry_or_text if found is not None else self._free_name()
        if found is not None and not text.strip():
            raise PinError(f"entry {name!r} holds no text that could be kept")
        self._now(Pinned(name=name, text=text))
        return name

    def _free_name(self) -> str:
        """A name for one more pinned text, which no pin has."""
        names = {pin.name for pin in self.state.tracking.pins}
        return next(name for n in count(len(names) + 1) if (name := f"text {n}") not in names)

    def unpin(self, name: str) -> None:
        """Take a pin away."""
        self._now(Unpinned(name=name))

    def undo(self, fold: str | None = None) -> tuple[str, ...]:
        """Take a fold back, by default the last one, with all that stand on it (X5); gives what was taken back."""
        folds = [placed.fold.id for placed in self.state.log.folds if placed.fold.level not in thinking.FOLLOWS]
        if not folds or (fold is not None and fold not in folds):
            raise FoldError(f"no fold {fold!r} is in force" if fold else "no fold is in force")
        taken = tuple(reversed(folds[folds.index(fold) :] if fold else folds[-1:]))
        self._now(Undone(folds=taken, now=self.clock()))
        return taken

    def rewind(self, id: str) -> None:
        """Back to an entry, across folds (X5): folds made behind it are taken back, what was said behind it is hidden. Nothing is
        lost: ``undo`` brings it back."""
        if self._busy:
            raise CompactionError("this conversation is being compacted: wait for it, or cancel it")
        log = self.state.log
        position = log.position(id)
        later = [one.fold.id for one in reversed(log.folds) if one.at > position + 1 and one.fold.level not in thinking.FOLLOWS]
        now = self.clock()
        records: list[Record] = [Unfold(fold=fold, time=now) for fold in later]
        if position + 1 < len(log):
            change = HideSpan(first=log.entry_at(position + 1).id, last=log.entry_at(len(log) - 1).id)
            name = cut.fold_id(log)
            records.append(Fold(id=name, level="rewind", changes=(change,), why=f"back to entry {id}", time=now))
        if records:
            self.state = self.state.with_records(*records)
            self._keep(records)
