"""A full compaction, step by step (A4, A6–A9, X1, C): what it needs is asked for, one thing at a time; each rung is tried on the
whole rebuilt view; the first success is appended in one record. On every other way out log and view are what they were.

It ends: a rung is popped when it has been tried, nothing is pushed, and each thing is asked for once.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from . import ops, rebuilt
from .actions import Action, Done, End, GiveUp, ReadFiles, ReadMemory, RunHook, Summarize
from .edits import cut
from .entries import Usage
from .events import FilesRead, HookAnswered, MemoryRead, Summarized, SummaryFailed
from .levels import auto, session_memory
from .messages import Object
from .pairing import is_speech
from .restore import material, recent_files
from .state import Phase, Rung, State, Work
from .window import scaled

FRAME_TOKENS = 250
"""About what the frame of a summary takes (L9)."""
CARRIED_SHARE = 0.2
"""People's words beside a summary take at most this share of the threshold in a small window (L12)."""


def begin(state: State, out: list[Action], work: Work) -> State:
    """Start a compaction."""
    ops.emit(
        out,
        "compaction_started",
        trigger=work.trigger,
        level=work.level,
        why=work.why,
        tokens=work.before,
        threshold=state.setup.window.auto,
        source=work.source,
        **auto.began(work.asked, state.tracking),
    )
    instructions = (*work.instructions, *state.setup.policy.summary.instructions)
    return advance(state._replace(work=msgspec.structs.replace(work, instructions=instructions)), out)


def work_of(state: State) -> Work:
    """The compaction that is going on."""
    assert state.work is not None
    return state.work


def at_work(state: State, **changes: object) -> State:
    """With some of the work changed."""
    return state._replace(work=msgspec.structs.replace(work_of(state), **changes))


def _wait(state: State, out: list[Action], action: Action, tag: str) -> State:
    out.append(action)
    return state._replace(phase=Phase.WAITING, waits_for=tag)


def advance(state: State, out: list[Action]) -> State:
    """Go on until something has to be waited for, or it is through."""
    work = work_of(state)
    if not work.hooked:
        if "pre_compact" in state.setup.hooks:
            return _wait(state, out, RunHook(name="pre_compact", payload=_payload(state)), "hook_answered")
        state = at_work(state, hooked=True)
    known, most = auto.fixed(state), most_of(state)
    if known.total >= most and work.level != "partial":
        why = (
            f"the fixed parts alone hold {known.total:,} of the {most:,} tokens that the view may have: system prompt and tools "
            f"{known.overhead:,}, entries that stay in front {known.head:,}, pins {known.pins:,}"
        )
        return fail(at_work(state, rungs=(), reasons=(why,)), out)
    while state.work is not None and state.phase is not Phase.WAITING:
        if not state.work.rungs:
            return fail(state, out)
        state = _rung(state, out, state.work.rungs[0])
    return state


def most_of(state: State) -> int:
    """The most that the rebuilt view may have."""
    work, target = work_of(state), auto.target(state.setup)
    return target if work.must_fit is None else max(target, int(work.must_fit * 0.95))


def _payload(state: State) -> Object:
    work = work_of(state)
    return {
        "trigger": work.trigger,
        "tokens": work.before,
        "threshold": state.setup.window.auto,
        "instructions": list(work.instructions),
        "source": work.source,
    }


def popped(state: State, reason: str) -> State:
    """On to the next step, with the reason why this one was no success."""
    work = work_of(state)
    return at_work(state, rungs=work.rungs[1:], reasons=(*work.reasons, f"{work.rungs[0].name}: {reason}"))


def _rung(state: State, out: list[Action], rung: Rung) -> State:
    """Try one step: ask for what it needs, or build with what is there."""
    work = work_of(state)
    if rung.method == "memory" and not work.memory_read:
        policy = state.setup.policy.memory
        return _wait(state, out, ReadMemory(wait_seconds=policy.wait_seconds, stale_seconds=policy.stale_seconds), "memory_read")
    if rung.method == "memory" and work.memory is None:
        return popped(state, "there is no session memory")
    if work.summary is not None and work.summary_of == (rung.method, rung.tail) and rung.method != "structural":
        return settle(state, out)
    return _ask(state, out, rung)


def _ask(state: State, out: list[Action], rung: Rung) -> State:
    """Ask for the summary of a step."""
    work, setup = work_of(state), state.setup
    if work.level == "partial":
        span: cut.Span | str | None = cut.Span(0, 0, work.first, work.last)
    elif rung.method == "structural":
        span = None
    else:
        span = _span(state, rung)
    if isinstance(span, str):
        return popped(state, span)
    first, last = ("", "") if span is None else (span.first, span.last)
    if span is not None and work.summary is not None and (work.summary_of[0], work.first, work.last) == (rung.method, first, last):
        return settle(state, out)
    covered = cut.covered_until(state.view)
    action = Summarize(
        method=rung.method,
        trigger=work.trigger,
        first=first or None,
        last=last or None,
        target_tokens=most_of(state),
        pressure=rung.pressure,
        keep_tail=rung.tail != "none",
        instructions=work.instructions,
        direction=_direction(work),
        max_tokens=scaled(setup.policy.summary.max_tokens, setup.window),
        memory=work.memory or "" if rung.method == "memory" else "",
        memory_path=work.memory_path if rung.method == "memory" else "",
        not_before=state.log.entry_at(covered - 1).id if covered > state.log.base else None,
        tail_follows=span is None or _follows(state, last),
    )
    state = at_work(state, first=first, last=last, summary_of=(rung.method, rung.tail))
    return _wait(state, out, action, "summarized")


def _direction(work: Work) -> Literal["all", "from", "up_to"]:
    return work.asked.direction if work.level == "partial" and work.asked is not None else "all"


def _follows(state: State, last: str) -> bool:
    return state.log.position(last) < len(state.log) - 1


def _span(state: State, rung: Rung) -> cut.Span | str:
    """What a step's summary stands for, or why there is nothing."""
    view, sizes, setup = state.view, ops.sizes(state), state.setup
    start = cut.head_end(view, sizes, auto.target(setup) / 8)
    if rung.method == "memory":
        kept = session_memory.kept(view, sizes, state.tracking.covered, setup.policy.memory, setup.window, minimum=rung.tail == "minimum")
        if isinstance(kept, str):
            return kept
        at = kept.at
    else:
        at = _model_cut(state, rung, sizes, start)
    found = cut.span(view, start, max(start, at))
    return "no legal cut leaves anything to fold" if found is None else found


def _model_cut(state: State, rung: Rung, sizes: list[int], start: int) -> int:
    """Where a model's summary ends: before the kept tail, or before what has not been answered (A8); only the last step takes in the
    newest calls and results too. A tail with which the rebuilt view could not be a success is not tried: a summary for it would be
    paid for in vain (A7, A11)."""
    view, policy, window = state.view, state.setup.policy.summary, state.setup.window
    legal, speech = cut.legal(view), cut.speech_start(view)
    end = cut.back(legal, speech if rung.files == 0.0 else cut.unanswered_start(view), start)
    if rung.method == "native":
        end = cut.back_to_other_role(view, legal, end, start)
    if rung.tail != "kept":
        return end
    room = _room(state, sizes, start)
    most = min(scaled(policy.keep_max_tokens, window), room)
    at = cut.tail_start(
        view,
        sizes,
        tokens=min(most, max(scaled(policy.keep_tokens, window), _gap(state))),
        texts=policy.keep_entries,
        most=most,
        floor=max(start, cut.last_stand_in(view)),
        at=speech,
    )
    at = cut.back(legal, at, start)
    while at < end and sum(sizes[at:]) > room:
        at = cut.forward(legal, at + 1)
    return cut.back_to_other_role(view, legal, min(at, end), start) if rung.method == "native" else min(at, end)


def _room(state: State, sizes: list[int], start: int) -> int:
    """Unpadded tokens that a tail may hold for the whole rebuilt view to be a success, beside the largest summary."""
    work, ledger, policy = work_of(state), state.ledger, state.setup.policy
    known = auto.fixed(state)
    gain = work.before * (1 - policy.auto.min_gain_percent / 100)
    most = min(most_of(state), gain) - known.overhead - known.pins
    unpadded = most / state.tracking.correction / (ledger.calibration.apply(1_000) / 1_000)
    window = state.setup.window
    most_said = min(int(window.auto * CARRIED_SHARE), scaled(policy.summary.people_tokens, window))
    said = 0
    for entry in state.log.entries():
        if said >= most_said:
            break
        said += state.measure(entry).tokens if is_speech(entry) and not entry.summary else 0
    beside = scaled(policy.summary.max_tokens, window) + FRAME_TOKENS + min(said, most_said)
    return max(0, int(unpadded) - sum(sizes[:start]) - beside)


def _gap(state: State) -> int:
    """What a refused request had too much, and a summary's room: so much is peeled from the tail, so that what goes to the
    summariser has the prefix that the provider has cached, and fits (R3)."""
    work = work_of(state)
    if work.must_fit is None:
        return 0
    return max(0, work.before - work.must_fit) + scaled(state.setup.policy.summary.max_tokens, state.setup.window)


# --- answers


def hook_answered(state: State, out: list[Action], event: HookAnswered) -> State:
    """One of the three kinds of hooks has answered; what failed in them is said and changes nothing (P2)."""
    for why in event.failed:
        ops.emit(out, "hook_failed", hook=event.name, why=why)
    if event.name == "post_compact":
        return conclude(rebuilt.put_back(state, out, work_of(state), event.context), out)
    if event.name == "session_start":
        return settle(at_work(state, context=event.context), out)
    if event.veto:
        return veto(state, out, event.veto)
    work = work_of(state)
    given = (*work.instructions, *event.instructions, *event.context)  # what a pre-compact hook prints is meant for the summary (L5)
    return advance(at_work(state, hooked=True, instructions=given), out)


def memory_read(state: State, out: list[Action], event: MemoryRead) -> State:
    """The session memory, or that there is none."""
    if event.running:
        ops.emit(out, "memory_wait_over")
    text = event.text if event.text and event.text.strip() else None  # an empty one is none (S4)
    if text is not None and state.tracking.covered is None:
        ops.emit(out, "memory_resumed")
    return advance(at_work(state, memory=text, memory_path=event.path, memory_read=True), out)


def files_read(state: State, out: list[Action], event: FilesRead) -> State:
    """Files and attachments to put back."""
    for what in event.skipped:
        ops.emit(out, "restore_skipped", what=what)
    return settle(at_work(state, files=event.files, attachments=event.attachments), out)


def summarized(state: State, out: list[Action], event: Summarized) -> State:
    """A summary came."""
    for note in event.notes:
        ops.emit(out, "summary_note", text=note)
    work = work_of(state)
    changes: dict[str, object] = {"summary": event, "calls": work.calls + event.calls, "usage": _both(work.usage, event.usage)}
    if event.first is not None and event.last is not None:
        changes |= {"first": event.first, "last": event.last}
    return settle(at_work(state, **changes), out)


def summary_failed(state: State, out: list[Action], event: SummaryFailed) -> State:
    """None came: the steps that would ask the same again are left out. Where nobody asked, the structural one is at the end of the
    ladder (A4); who asked for a model's summary is told that there is none, with everything as it was (X1)."""
    work = work_of(state)
    method = work.rungs[0].method
    ops.emit(out, "summary_failed", method=method, why=event.why, calls=event.calls)
    failed = work.failed_calls or method in ("model", "native")
    state = at_work(state, calls=work.calls + event.calls, usage=_both(work.usage, event.usage), failed_calls=failed)
    state = popped(state, event.why)
    if method in ("model", "native"):
        left = () if work.trigger == "manual" else tuple(rung for rung in work_of(state).rungs if rung.method != method)
        state = at_work(state, rungs=left)
    return advance(state, out)


def _both(a: Usage | None, b: Usage | None) -> Usage | None:
    return a + b if a is not None and b is not None else a or b


def settle(state: State, out: list[Action]) -> State:
    """Put the summary and what is restored together, and see whether it is a success (A7, A11)."""
    work, setup = work_of(state), state.setup
    if setup.restores and work.files is None:
        paths = tuple(read.path for read in recent_files(material(state.log), setup.policy.restore.files))
        return _wait(state, out, ReadFiles(paths=paths), "files_read")
    if "session_start" in setup.hooks and work.context is None:
        return _wait(state, out, RunHook(name="session_start", payload={**_payload(state), "source": "compact"}), "hook_answered")
    found = rebuilt.candidate(state, work)
    state = state._replace(phase=Phase.READY)
    if isinstance(found, str):
        return advance(popped(state, found), out)
    return _apply(rebuilt.applied(state, out, work, found), out)


def _apply(state: State, out: list[Action]) -> State:
    if "post_compact" in state.setup.hooks:
        payload = {**_payload(state), "tokens_after": state.used, "fold": work_of(state).applied}
        return _wait(state, out, RunHook(name="post_compact", payload=payload), "hook_answered")
    return conclude(state, out)


# --- the ways out


def conclude(state: State, out: list[Action]) -> State:
    """It is through, with success."""
    if work_of(state).asked is not None:
        out.append(Done(success=True))
    return state._replace(work=None, phase=Phase.READY)


def fail(state: State, out: list[Action]) -> State:
    """No step was a success: log and view are what they were. Counts for the breaker where nobody asked (A6)."""
    work = work_of(state)
    why = "; ".join(work.reasons) or "there is nothing to fold"
    largest = auto.largest(state)
    ops.emit(
        out,
        "compaction_failed",
        trigger=work.trigger,
        why=why,
        tokens=work.before,
        llm_calls=work.calls,
        largest=[[name, tokens] for name, tokens in largest],
    )
    state = rebuilt.failed(state, out, work)
    if work.trigger == "reactive":
        message = f"{work.why}; compaction could not make it fit: {why}"
        out.append(GiveUp(end="prompt_too_long", message=message, actual=work.before, limit=work.must_fit, largest=largest))
        state = state._replace(pending=None)
    elif work.asked is not None:
        none_came = work.failed_calls and work.summary is None
        end: End = "summary_failed" if none_came else "cannot_fit"
        out.append(GiveUp(end=end, message=why, actual=work.before, limit=most_of(state), largest=() if none_came else largest))
        out.append(Done(success=False, why=why))
    return state._replace(work=None, phase=Phase.READY)


def veto(state: State, out: list[Action], why: str) -> State:
    """A hook said no: nothing happens, and it is no failure."""
    work = work_of(state)
    ops.emit(out, "compaction_vetoed", why=why)
    if work.trigger == "reactive":
        out.append(GiveUp(end="vetoed", message=why, actual=work.before, limit=work.must_fit))
        state = state._replace(pending=None)
    elif work.asked is not None:
        out.append(GiveUp(end="vetoed", message=why))
        out.append(Done(success=False, why=why))
    state = ops.track(state, failed_on=auto.input_of(state))
    return state._replace(work=None, phase=Phase.READY)


def cancel(state: State, out: list[Action]) -> State:
    """The user stopped it: nothing of it stays, and it is no failure (A6). Where only the hooks behind it are still waited for, it is
    made, and is through."""
    if work_of(state).applied:
        return conclude(state, out)
    ops.emit(out, "compaction_cancelled")
    return state._replace(work=None, phase=Phase.READY, pending=None)
