"""A summary written by a model, as a generator that yields requests and is sent answers (L1, L3–L5, L7, L8, L11, L12): no clock, no
network, no randomness, so that one body serves sync and async callers and tests.

For each model by name, in order:

1. a fork, where the model is the conversation's own: the conversation as it is sent, and the instruction behind it (L1);
2. a direct request: the conversation as inert text, made to fit before it is sent (L11); refused for its size it shrinks and is
   sent again (L7); after a tool call, a repeated message, or an answer that its limit cut off, it is asked once more, otherwise (L4).

The first usable answer ends it. No request is sent twice as it was, but after a transient error (L8). Closing it cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from itertools import chain
from math import ceil
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from ..core.entries import Entry, Usage
from ..core.estimate import encode_json, measure_entry, pad
from ..core.messages import Block, Text, ToolResult, result_text
from ..core.policy import SummaryPolicy
from ..core.rejection import Rejection
from ..errors import SummaryError
from .parse import CUT_OFF, NO_SUMMARY, capped, judged, pause_before, shortened, tagged
from .prompts import SYSTEM, Before, Direction, Wanted, direct, instruction
from .render import Rendered, Sheet, first_words, open_results, sent_tokens

ANSWER_SHARE = 2.5
"""Draft, thinking and summary together, by the cap of the summary: the default cap of 8,000 makes the 20,000 that W1 reserves."""
SHORT_TOKENS = 1_000
"""Under this cap the prompt is the short one, and no draft is asked for."""
INSTRUCTIONS_CHARS = 0.4
"""A token of the window: so much of each of the instructions and of the feedback goes into the prompt (H4)."""
BODY_FRAME_BYTES = 2_000
"""About what a request's body holds beside the text: model, limits, keys."""
HOPELESS = frozenset({401, 403, 404})
"""Statuses of a model that will not answer otherwise however it is asked."""
CUT_NOTE = "[The summary ends here: its size limit cut it off.]"
_SIZE = ("too_long", "output_too_large", "bytes")
_WHY_CHARS = 200


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be summarised, by whom, within what. Sizes are tokens where the name does not say otherwise."""

    entries: tuple[Entry, ...]
    """As shown in the view, in order; may begin with an earlier summary, which is then brought up to date (L12)."""
    window: int
    """Of the model that writes; of several the smallest."""
    max_output: int
    models: tuple[str, ...] = ("",)
    """Names to try in order, the first that works; empty: the conversation's own."""
    fork: bool = True
    own_model: str = ""
    estimate: Callable[[str], float]
    """Unpadded tokens of a text."""
    max_tokens: int
    """Cap of the summary, scaled to the window already (L12, W7)."""
    instructions: tuple[str, ...] = ()
    """The user's, the project's, the hooks', in that order (L5)."""
    feedback: str = ""
    direction: Direction = "all"
    policy: SummaryPolicy = SummaryPolicy()
    body_limit: int | None = None
    """Bytes of a request (T7)."""
    before: tuple[Entry, ...] = ()
    """What stands in front of ``entries`` in the view and stays there: a fork sends it too, or it would miss the cache."""
    fork_tokens: int | None = None
    """Size of ``before`` and ``entries`` as the conversation sends them, system prompt and tools included, by the ledger (T2);
    None: not known, and the padded estimate is taken."""


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """One request to be sent. ``entries`` go out through ``core.repair.outgoing``; of a direct one they hold just ``text``."""

    kind: Literal["fork", "direct"]
    model: str
    """Empty: the conversation's own."""
    system: str
    """Of a direct request; a fork is sent with the conversation's own."""
    entries: tuple[Entry, ...]
    text: str
    """What is asked: the last block of the last entry."""
    max_tokens: int
    thinking: Literal["inherit", "lowest"]
    tools: Literal["inherit", "none"]
    """``inherit``: the conversation's, none of which is to be run, with ``tool_choice`` as it was (L1)."""


class Wait(msgspec.Struct, frozen=True):
    """Do nothing for so long, then send None."""

    seconds: float


class Answer(msgspec.Struct, frozen=True):
    """What a model said. ``stop_reason`` is the provider's own word."""

    text: str
    called_tool: bool = False
    stop_reason: str = ""
    usage: Usage | None = None
    model: str | None = None


class Written(msgspec.Struct, frozen=True, kw_only=True):
    """A summary: not redacted, not escaped and not framed yet (``compose``)."""

    text: str
    usages: tuple[Usage, ...]
    """Of all answers, the useless ones too: a cost of its own, never the size (T2)."""
    model: str
    unseen: tuple[str, ...] = ()
    """Entries that the summary was not made from, left out for their size (L13)."""
    shortened: int = 0
    """Texts that it saw in part."""
    asks: int = 1
    notes: tuple[str, ...] = ()


Flow: TypeAlias = Generator[Ask | Wait, Answer | Rejection | None, Written]
_Asking: TypeAlias = Generator[Ask | Wait, Answer | Rejection | None, Answer | Rejection]
_Trying: TypeAlias = Generator[Ask | Wait, Answer | Rejection | None, Written | None]


def summarise(task: Task) -> Flow:
    """The summary of a task. Raises SummaryError, which says what each model did and names the sizes, where none came."""
    if min(task.window, task.max_output, task.max_tokens) < 1:
        raise SummaryError(f"window {task.window}, output {task.max_output} and cap {task.max_tokens} have to be positive")
    run = _Run(task, Sheet.of(task.entries))
    for name in names_of(task):
        made = yield from _Model(run, name, task.window).write()
        if made is not None:
            return made
    if run.spare is not None:
        return run.written(*run.spare)
    raise SummaryError(f"no usable summary: {'; '.join(run.faults) or 'there is no model to ask'}")


def names_of(task: Task) -> list[str]:
    """The models to try, each once, under the first of its names."""
    first: dict[str, str] = {}
    for name in task.models:
        first.setdefault(name or task.own_model, name)
    return list(first.values())


def most_asks(task: Task) -> int:
    """The bound on the requests of a whole run, the repeats after transient errors included (A6)."""
    names = names_of(task)
    forks = sum(name in ("", task.own_model) for name in names) if task.fork else 0
    return 2 * forks + len(names) * 2 * (1 + task.policy.max_retries)


class _Style(NamedTuple):
    short: bool
    before: Before = ""


class _Judged(NamedTuple):
    """An answer looked at: a text where it is of use, else what is wrong with it; ``other``: how to ask instead."""

    text: str
    fault: str = ""
    other: _Style | None = None


@dataclass(slots=True)
class _Run:
    """What the models of a run share."""

    task: Task
    sheet: Sheet
    usages: list[Usage] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    asks: int = 0
    spare: tuple[str, str, str, Rendered | None] | None = None
    """An answer that was cut off, by whom, made from what: better than none."""

    @property
    def cap(self) -> int:
        return min(self.task.max_tokens, self.task.max_output)

    def written(self, text: str, called: str, model: str, page: Rendered | None) -> Written:
        """The end of a run that worked."""
        short = capped(text, self.cap, self.task.estimate)
        notes = [*self.faults, f"{called} wrote it"] if self.faults else []
        if short != text:
            notes.append(f"shortened from about {ceil(self.task.estimate(text)):,} tokens to {self.cap:,}")
        return Written(
            text=short,
            usages=tuple(self.usages),
            model=model,
            unseen=page.unseen if page is not None else (),
            shortened=page.shortened if page is not None else 0,
            asks=self.asks,
            notes=("; ".join(notes),) if notes else (),
        )


@dataclass(slots=True)
class _Model:
    """One model's tries."""

    run: _Run
    name: str
    window: int
    """Lowered by what refusals tell of it (W9)."""
    repeats: int = 0
    """Transient errors so far."""

    @property
    def real(self) -> str:
        return self.name or self.run.task.own_model

    @property
    def called(self) -> str:
        return self.real or "the model of the conversation"

    @property
    def answer_tokens(self) -> int:
        task = self.run.task
        return max(1, min(task.max_output, ceil(ANSWER_SHARE * task.max_tokens), self.window // 4))

    def write(self) -> _Trying:
        """The summary, or None with the reasons among the run's faults."""
        task = self.run.task
        style = _Style(task.max_tokens < SHORT_TOKENS)
        if task.fork and self.name in ("", task.own_model) and (ask := self._fork(style)) is not None:
            got = yield from self._sent(ask)
            if isinstance(got, Rejection) and (lower := self._lower(got, ask.max_tokens)):
                got = yield from self._sent(msgspec.structs.replace(ask, max_tokens=lower))
            if isinstance(got, Rejection):
                self._failed(_told(got), "fork of ")
                if got.status in HOPELESS or got.why == "transient":
                    return None
            else:
                found = self._judged(got, style, None)
                if found.text:
                    return self.run.written(found.text, self.called, got.model or self.real, None)
                self._failed(found.fault, "fork of ")
                style = found.other or style
        return (yield from self._direct(style))

    # --- a fork

    def _fork(self, style: _Style) -> Ask | None:
        """The conversation with the instruction behind it; None where it does not fit as it is."""
        task = self.run.task
        entries = (*task.before, *task.entries)
        text = instruction(self._wanted(style, inert=False))
        size = pad(sent_tokens(entries, task.estimate)) if task.fork_tokens is None else task.fork_tokens
        room = self.window - size - pad(task.estimate(text))
        body = sum(measure_entry(entry).bytes for entry in entries) + len(encode_json(text)) + BODY_FRAME_BYTES
        if room < min(self.run.cap, self.answer_tokens) or (task.body_limit is not None and body > task.body_limit):
            self.run.faults.append(f"no fork of {self.called}: its {size:,} tokens and {body:,} bytes leave no room for a summary")
            return None
        entries = (*entries, _asked(*open_results(entries), Text(text)))
        most = min(room, self.answer_tokens)
        return Ask(
            kind="fork", model=self.name, system="", entries=entries, text=text, max_tokens=most, thinking="inherit", tools="inherit"
        )  # fmt: skip

    # --- a direct request

    def _direct(self, style: _Style) -> _Trying:
        most, retries, varied = self.answer_tokens, self.run.task.policy.max_retries, False
        page = self.run.sheet.fitted(self._fits(style, most))
        if page is None:
            self._failed(f"the conversation does not fit its window of {self.window:,} tokens, however short it is written")
        while page is not None:
            ask = self._ask(page, style, most)
            got = yield from self._sent(ask)
            if isinstance(got, Rejection):
                self._failed(f"{_told(got)}{self._sizes(ask) if got.why in _SIZE else ''}")
                if got.why not in _SIZE or not retries:
                    return None
                retries -= 1
                lower = self._lower(got, most)
                most, page = (lower, page) if lower else (most, self._smaller(page, got))
                continue
            found = self._judged(got, style, page)
            if found.text:
                return self.run.written(found.text, self.called, got.model or self.real, page)
            self._failed(found.fault)
            if found.other in (None, style) or varied:
                return None
            varied, style = True, found.other
            page = self.run.sheet.fitted(self._fits(style, most), dropped=page.dropped, level=page.level)
        return None

    def _ask(self, page: Rendered, style: _Style, most: int) -> Ask:
        text = direct(page.text, self._wanted(style, inert=True))
        entries = (_asked(Text(text)),)
        return Ask(
            kind="direct", model=self.name, system=SYSTEM, entries=entries, text=text, max_tokens=most, thinking="lowest", tools="none"
        )  # fmt: skip

    def _fits(self, style: _Style, most: int) -> Callable[[str], bool]:
        """Whether a conversation's text, with all that is sent beside it, fits the window and the body's limit (L11, T7)."""
        task, wanted = self.run.task, self._wanted(style, inert=True)

        def fits(conversation: str) -> bool:
            text = direct(conversation, wanted)
            if task.body_limit is not None and len(encode_json(text)) + BODY_FRAME_BYTES > task.body_limit:
                return False
            return pad(task.estimate(SYSTEM) + task.estimate(text)) + most <= self.window

        return fits

    def _smaller(self, page: Rendered, refused: Rejection) -> Rendered | None:
        """A text that covers what was too much (L7)."""
        task, gap = self.run.task, float(refused.gap) if refused.gap else None
        if refused.why == "bytes" and gap is not None:
            gap *= task.estimate(page.text) / max(1, len(encode_json(page.text)))
        made = self.run.sheet.smaller(page, gap, task.policy.drop_percent, task.estimate)
        if made is None:
            self._failed("there is nothing left to leave out")
        return made

    # --- both

    def _wanted(self, style: _Style, *, inert: bool) -> Wanted:
        task = self.run.task
        chars = int(task.window * INSTRUCTIONS_CHARS)
        return Wanted(
            max_tokens=self.run.cap,
            inert=inert,
            short=style.short,
            before=style.before,
            updates=any(entry.summary for entry in task.entries),
            direction=task.direction,
            pivot=first_words(task.entries) if task.before and not inert else "",
            instructions=[shortened(text, chars) for text in task.instructions if text.strip()],
            feedback=shortened(task.feedback, chars),
        )

    def _sent(self, ask: Ask) -> _Asking:
        """What comes back, after a transient error asked again, with a pause (L8)."""
        while True:
            self.run.asks += 1
            got = yield ask
            if got is None:
                got = Rejection(why="other", message="no answer was given")
            if isinstance(got, Answer):
                if got.usage is not None:
                    self.run.usages.append(got.usage)
                return got
            if got.why in ("too_long", "output_too_large") and got.limit:
                self.window = min(self.window, got.limit)
            pause = pause_before(self.repeats, got) if self.repeats < self.run.task.policy.max_retries else None
            if pause is None:
                return got
            self.repeats += 1
            yield Wait(pause)

    def _lower(self, refused: Rejection, most: int) -> int:
        """A smaller output that there is room for beside the input; 0 where none is worth asking for."""
        if refused.why != "output_too_large":
            return 0
        told = refused.limit - refused.actual if refused.limit is not None and refused.actual is not None else most // 2
        lower = min(told, most - 1)
        return lower if lower >= max(1, self.run.cap // 2) else 0

    def _judged(self, answer: Answer, style: _Style, page: Rendered | None) -> _Judged:
        entries = self.run.task.entries
        said = (block.text for entry in entries if entry.kind == "assistant" for block in entry.blocks if isinstance(block, Text))
        shown = (result_text(block) for entry in entries for block in entry.blocks if isinstance(block, ToolResult))
        text, fault = judged(answer.text, answer.stop_reason, answer.called_tool, chain(said, *map(tagged, shown)))
        before: Before = "tool_call" if fault and answer.called_tool else "repeat" if fault == NO_SUMMARY else ""
        if before:
            return _Judged("", fault, style._replace(before=before))
        if answer.stop_reason not in CUT_OFF:
            return _Judged(text, fault)
        if text:
            self.run.spare = (f"{text}\n{CUT_NOTE}", self.called, answer.model or self.real, page)
        fault = f"{fault or 'an unfinished summary'}, its limit cut it off"
        return _Judged("", fault, style._replace(short=True))

    def _failed(self, why: str, what: str = "") -> None:
        self.run.faults.append(f"{what}{self.called} failed: {why}")

    def _sizes(self, ask: Ask) -> str:
        size = ceil(self.run.task.estimate(ask.system) + self.run.task.estimate(ask.text))
        return f" (about {size:,} tokens sent, up to {ask.max_tokens:,} asked for, in a window of {self.window:,})"


def _asked(*blocks: Block) -> Entry:
    """The entry that asks."""
    return Entry(id="summary-request", kind="user", blocks=blocks, source="compact", meta=True)


def _told(refused: Rejection) -> str:
    told = " ".join(refused.message.split())[:_WHY_CHARS] or refused.why
    return told if refused.status is None else f"{told} ({refused.status})"
