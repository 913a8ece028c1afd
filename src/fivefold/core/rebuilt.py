"""A summary and what is restored, built into a fold, weighed and, where it is a success, appended (A7, A9, A11, C1, I7)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from . import ops, restore
from .actions import Action, Done
from .edits import cut, rebuild, shorten, thinking
from .entries import Entry, Fold, ReplaceBlocks
from .events import Summarized
from .levels import auto, caps
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
    if not (summary.text.strip() or summary.block):
        return "the summary is empty (L3)"
    shown = view.shown()
    start = next((i for i, item in enumerate(shown) if item.position >= log.position(work.first)), len(shown))
    stop = next((i for i, item in enumerate(shown) if item.position > log.position(work.last)), len(shown))
    while work.level != "partial" and 0 < start < stop and cut.stands_in(shown[start - 1]):
        start -= 1  # what an earlier fold put in front of it goes with it
        work = msgspec.structs.replace(work, first=log.entry_at(max(log.base, shown[start].position)).id)
    if not cut.legal(view)[stop]:
        return "the summary ends inside a response, or behind a call that it takes from its result (I1, I2, I9)"
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
    made = Candidate(fold, built.waiting, drop)
    found = _weighed(state, work, made)
    if isinstance(found, str) and not summary.middle:
        shorter = _weighed(state, work, made, stop)
        return found if isinstance(shorter, str) else shorter
    return found


def _weighed(state: State, work: Work, found: Candidate, kept: int | None = None) -> Candidate | str:
    """The candidate with its size, where that is a success and breaks nothing. ``kept``: where what stays begins; then its largest
    results are shortened first, as far as that is what it takes (R3)."""
    new = state.with_records(found.fold)
    waiting = ops.metered(state, sum(state.measure(entry).tokens for entry in found.waiting))
    if kept is not None and work.level != "partial":
        shorter = _shortened(state, work, new.used + waiting, kept)
        if shorter is None:
            return "the kept part cannot be made small enough"
        found = found._replace(fold=msgspec.structs.replace(found.fold, changes=(*found.fold.changes, shorter)))
        new = state.with_records(found.fold)
    after = new.used + waiting
    if work.level == "partial":
        reason = f"{after:,} tokens are not fewer than {work.before:,}" if after >= work.before else None
    else:
        reason = auto.failure_of(work.before, after, state.setup, work.must_fit)
    plain = new.ledger.estimated + sum(state.measure(entry).tokens for entry in found.waiting)
    if reason is None and plain >= state.ledger.estimated:
        reason = "what would be shown is no less than what is"  # before a fold the meter may say what a response counted
    if reason is None:
        reason = _broken(state, new)
    return reason or found._replace(fold=msgspec.structs.replace(found.fold, tokens_after=after))


def _shortened(state: State, work: Work, after: int, kept: int) -> ReplaceBlocks | None:
    """The change that shortens the largest results of the kept part by what a rebuilt view of ``after`` tokens has too much."""
    known = state.ledger.calibration
    surplus = int((after - auto.most(work.before, state.setup, work.must_fit)) / max(0.01, state.tracking.correction)) + 1
    for margin in (1.1, 1.0):  # the height that results are cut to is an estimate
        change = caps.trim(
            state.view.shown(kept),
            int(surplus * margin),
            lambda text: known.apply(ops.tokens_of(state, text)),
            least=shorten.LEAST_CHARS // 3,
            pinned=ops.pinned(state),
        )
        if change is not None:
            return change
    return None


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
    pinned, end = ops.pinned(state), state.log.position(last)
    middle = tuple(one for one in summary.middle if state.log.position(one[0].entry) > end and one[0].entry not in pinned)
    put_back = share > 0
    carried = (text,) if summary.block and text else ()  # nothing may stand between a block and what was kept (L10, I7)
    pins = ops.pins_not_in(state, (item.entry for item in view.shown() if not state.log.position(work.first) <= item.position <= end), text)
    given = restore.not_shown(view, work.attachments, kept)
    return rebuild.Parts(
        text="" if summary.block else text,
        first=work.first,
        last=last,
        middle=middle,
        standing=summary.standing,
        files=restore.files(state, work.files or (), share, restore.kept_files(view, stop, {target.entry for target, _ in middle})),
        attachments=(*carried, *pins, *restore.texts(state, given, policy.skills_tokens, each=policy.skill_tokens)),
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
    if tracking.asked is not None:
        out.append(Done(success=True))  # what the agent has asked for meanwhile is made with it (X8)
    before, plain = state.view, state.ledger.estimated
    state = ops.pin_again(ops.append(state, out, fold), out, fold, before.sent())
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
        summary_failures=_summary_failures(state, work, applied=True),
        left=fold.tokens_after,
        covered=f"{fold.id}.summary" if method == "memory" else ("" if tracking.covered is not None else None),
        staged=() if is_main(work.source) else tracking.staged,
        staging=tracking.staging and not is_main(work.source),
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
    return state._replace(work=msgspec.structs.replace(work, applied=fold.id, freed=plain - state.ledger.estimated))


def _summary_failures(state: State, work: Work, *, applied: bool) -> int:
    """How many times in a row a model was asked and its summary could not be used, under what the conversation runs under now: none
    came, or with it the view was no success (A7)."""
    known = state.tracking.summary_failures if state.tracking.failed_under == auto.fingerprint(state.setup) else 0
    if not (work.calls or work.failed_calls):
        return known
    return 0 if applied and work.summary is not None and work.summary.method in ("model", "native") else known + 1


def failed(state: State, out: list[Action], work: Work) -> State:
    """What a failure leaves behind: the same input is not tried again, and so many in a row open the breaker (A6, A10)."""
    under = auto.fingerprint(state.setup)
    changes: dict[str, object] = {
        "failed_on": auto.input_of(state),
        "summary_failures": _summary_failures(state, work, applied=False),
    }
    if work.trigger != "auto":
        changes["failed_under"] = under
    else:
        before = state.tracking.failures if state.tracking.failed_under == under else 0
        changes |= {"failures": before + 1, "failed_at": work.now, "failed_under": under}
        if before + 1 >= state.setup.policy.auto.max_failures:
            ops.emit(out, "breaker_opened", failures=before + 1)
    return ops.track(state, **changes)


def put_back(state: State, out: list[Action], work: Work, texts: tuple[str, ...]) -> State:
    """Texts of post-compact hooks as attachments, within their budget and as far as the view stays a success (A11); they wait while a
    call is open (C1, C5)."""
    most = work.before - 1 if work.level == "partial" else auto.most(work.before, state.setup, work.must_fit)
    room, plain, chosen = most - state.used, work.freed, []
    for text in restore.texts(state, texts, state.setup.policy.restore.hook_tokens):
        tokens = ops.tokens_of(state, text)
        room, plain = room - ops.metered(state, tokens), plain - tokens
        if room >= 0 and plain > 0:
            chosen.append(text)
        else:
            ops.emit(out, "restore_skipped", what="text of a post-compact hook: no room")
    return ops.attach(
        state,
        out,
        tuple(
            Entry(id=f"{state.tracking.turn_id}.hook{i}", kind="attachment", blocks=(Text(text),), time=work.now)
            for i, text in enumerate(chosen, 1)
        ),
    )
