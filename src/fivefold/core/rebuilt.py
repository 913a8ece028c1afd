"""A summary and what is restored, built into a fold, weighed and, where it is a success, appended (A7, A9, A11, C1, I7)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from . import ops, restore
from .actions import Action
from .edits import cut, rebuild, thinking
from .entries import Entry, Fold
from .events import Summarized
from .levels import auto
from .levels.cached import CachedEdits
from .messages import Object, Text
from .repair import violations
from .sources import is_main
from .state import State, Work


class Candidate(NamedTuple):
    """A fold that is a success, with what has to wait, and what it does beside."""

    fold: Fold
    waiting: tuple[Entry, ...]
    drop_thinking: bool


def candidate(state: State, work: Work) -> Candidate | str:
    """The fold that the current step makes of its summary; a text that says why it is no success (A7)."""
    summary = work.summary
    assert summary is not None
    log, view = state.log, state.view
    if not work.last or (work.level != "partial" and log.position(work.last) + 1 < cut.covered_until(view)):
        return "the summary does not reach as far as the one before it"
    shown = view.shown()
    start = next((i for i, item in enumerate(shown) if item.position >= log.position(work.first)), len(shown))
    stop = next((i for i, item in enumerate(shown) if item.position > log.position(work.last)), len(shown))
    text, last, drop = summary.text, work.last, False
    bound = thinking.bound(view, state.setup.model, start, range(stop, len(shown)))
    if summary.block:
        bound = thinking.Bound("free")  # the provider's own block keeps the tail's thinking valid (L10)
    if bound.way == "wait" and state.setup.policy.thinking.drop_setting:
        drop = True
    elif bound.way == "wait":
        if work.trigger == "auto" and state.used < state.setup.window.auto:
            return "the open tool loop's thinking may not be touched: it waits (I7)"
        taken = _loop_taken_in(state, stop)
        if taken is None:
            return "a call is open and its thinking may not be touched (I7)"
        text, last, stop, bound = f"{text}\n\n{taken}", log.entry_at(len(log) - 1).id, len(shown), thinking.Bound("free")
    parts = _parts(state, work, summary, text, last, stop)
    built = rebuild.build(
        view,
        parts,
        level=work.level,
        trigger=work.trigger,
        why=work.why,
        now=work.now,
        tokens_before=work.before,
        extra=_extra(work, summary),
    )
    fold = msgspec.structs.replace(built.fold, changes=thinking.settled(built.fold.changes, bound), usage=work.usage)
    return _weighed(state, work, Candidate(fold, built.waiting, drop))


def _weighed(state: State, work: Work, found: Candidate) -> Candidate | str:
    """The candidate with its size, where that is a success and breaks nothing."""
    new = state.with_records(found.fold)
    waiting = sum(state.measure(entry).tokens for entry in found.waiting)
    after = new.used + waiting
    if work.level == "partial":
        reason = f"{after:,} tokens are not fewer than {work.before:,}" if after >= work.before else None
    else:
        reason = auto.failure_of(work.before, after, state.setup, work.must_fit)
    if reason is None:
        reason = _broken(state, new)
    return reason or found._replace(fold=msgspec.structs.replace(found.fold, tokens_after=after))


def _broken(state: State, new: State) -> str | None:
    """What a rebuilt view would newly break; None where nothing (I). Faults of dirty input stay what they were."""
    setup = state.setup
    found = {(one.rule, one.entry) for one in violations(list(new.view.sent()), family=setup.family, foreign=setup.foreign)}
    if not found:
        return None
    known = {(one.rule, one.entry) for one in violations(list(state.view.sent()), family=setup.family, foreign=setup.foreign)}
    worse = sorted(found - known)
    return f"it would break {worse[0][0]} at entry {worse[0][1]}" if worse else None


def _parts(state: State, work: Work, summary: Summarized, text: str, last: str, stop: int) -> rebuild.Parts:
    view, policy = state.view, state.setup.policy.restore
    share = work.rungs[0].files
    kept = range(stop, len(view))
    middle = tuple((target, short) for target, short in summary.middle if state.log.position(target.entry) > state.log.position(last))
    put_back = share > 0
    return rebuild.Parts(
        text=text,
        first=work.first,
        last=last,
        middle=middle,
        standing=summary.standing,
        files=restore.files(state, work.files or (), share, restore.kept_files(view, stop)),
        attachments=restore.texts(state, restore.not_shown(view, work.attachments, kept), policy.skills_tokens),
        context=restore.texts(state, restore.not_shown(view, work.context or (), kept), policy.hook_tokens)
        if put_back or work.context
        else (),
        block=summary.block or None,
    )


def _loop_taken_in(state: State, stop: int) -> str | None:
    """The open tool loop as text, its results verbatim, for the one message that stands for everything (I7); None while a call
    of it is open."""
    if cut.open_calls(state.view):
        return None
    lines = ["The newest steps, which the record takes in as well; results are verbatim:"]
    for item in state.view.shown()[stop:]:
        lines += rebuild.told(item.entry)
    return "\n".join(lines)


def _extra(work: Work, summary: Summarized) -> Object:
    """What a fold says of itself beside its fields."""
    extra: Object = {"path": work.rungs[0].name, "method": summary.method, "llm_calls": work.calls}
    if summary.receipt:
        extra["receipt"] = summary.receipt
    if summary.model:
        extra["model"] = summary.model
    if work.reasons:
        extra["tried"] = list(work.reasons)
    return extra


def applied(state: State, out: list[Action], work: Work, found: Candidate) -> State:
    """Append it and set everything back that a compaction sets back (A6, A9, M6)."""
    fold, tracking = found.fold, state.tracking
    chain = auto.began(work.asked, tracking)
    state = ops.append(state, out, fold)
    method = work.summary.method if work.summary is not None else ""
    state = ops.track(
        state,
        compacted=True,
        turns=0,
        turn_id=fold.id,
        failures=0,
        failed_at=None,
        failed_under=auto.fingerprint(state.setup),
        failed_on="",
        summary_failures=_summary_failures(state, work),
        left=fold.tokens_after,
        covered=f"{fold.id}.summary" if method == "memory" else ("" if tracking.covered is not None else None),
        staged=(),
        staging=False,
        cached=CachedEdits() if is_main(work.source) else tracking.cached,
        marked=(),
        asked=None,
        waiting=(*tracking.waiting, *found.waiting),
        suppressed=True,
        fresh=True,
        drop_thinking=tracking.drop_thinking or found.drop_thinking,
    )
    ops.emit(
        out,
        "compaction_finished",
        trigger=work.trigger,
        level=work.level,
        path=work.rungs[0].name,
        fold=fold.id,
        tokens_before=work.before,
        tokens_after=fold.tokens_after,
        threshold=state.setup.window.auto,
        source=work.source,
        llm_calls=work.calls,
        **chain,
    )
    return state._replace(work=msgspec.structs.replace(work, applied=fold.id))


def _summary_failures(state: State, work: Work) -> int:
    """How many model summaries have failed in a row, under what the conversation runs under now."""
    known = state.tracking.summary_failures if state.tracking.failed_under == auto.fingerprint(state.setup) else 0
    if work.failed_calls:
        return known + 1
    return 0 if work.calls else known


def failed(state: State, out: list[Action], work: Work) -> State:
    """What a failure leaves behind: the same input is not tried again, and so many in a row open the breaker (A6, A10)."""
    under = auto.fingerprint(state.setup)
    changes: dict[str, object] = {"failed_on": auto.input_of(state), "asked": None, "summary_failures": _summary_failures(state, work)}
    if work.trigger != "auto":
        changes["failed_under"] = under
    else:
        before = state.tracking.failures if state.tracking.failed_under == under else 0
        changes |= {"failures": before + 1, "failed_at": work.now, "failed_under": under}
        if before + 1 >= state.setup.policy.auto.max_failures:
            ops.emit(out, "breaker_opened", failures=before + 1)
    return ops.track(state, **changes)


def put_back(state: State, out: list[Action], texts: tuple[str, ...], now: float) -> State:
    """Texts of post-compact hooks as attachments, within their budget; they wait while a call is open (C1, C5)."""
    entries = tuple(
        Entry(id=f"{state.tracking.turn_id}.hook{i}", kind="attachment", blocks=(Text(text),), time=now)
        for i, text in enumerate(restore.texts(state, texts, state.setup.policy.restore.hook_tokens), 1)
    )
    if not entries:
        return state
    if cut.open_calls(state.view):
        return ops.track(state, waiting=(*state.tracking.waiting, *entries))
    return ops.append(state, out, *entries)
