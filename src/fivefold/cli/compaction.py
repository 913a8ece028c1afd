"""A compaction in the terminal: readable without colour and in a pipe (Z5)."""

from __future__ import annotations

from typing import NamedTuple

from ..report.compaction import CompactReport, LevelEffect, Side, dollars, words_of
from ..report.meter import LEVEL_WORDS, SOURCE_WORDS, ruler, size, tokens
from ..report.went import Receipt
from ..summarize.receipt import Count
from .screen import Screen
from .terminal import COLOURS, MOST_LISTED

LARGE_OVERHEAD = 0.25
"""Share of what fits from which system prompt and tools are worth a word."""


class Told(NamedTuple):
    """What the command knows beside the report."""

    is_session: bool
    """The input is a session file of ours."""
    dry_run: bool
    has_out: bool


def show(report: CompactReport, screen: Screen, told: Told) -> None:
    """Print a report."""
    screen.line(report.file, "title")
    screen.line(f"{report.model} · {_count(report.before.messages, 'message')} in view · fits at {report.target:,} tokens or less")
    _meters(report, screen)
    if report.levels:
        _levels(report, screen)
    elif report.success and report.why:
        screen.line()
        screen.line(f"nothing had to be done: {report.why}", "good")
    if report.success and any(level.applied for level in report.levels):
        _receipt(report.receipt, screen)
    if not report.success:
        _failure(report, screen)
    _violations(report, screen)
    for note in report.notes:
        screen.line(f"note: {note}", "warn")
    _written(report, screen, told)


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _meters(report: CompactReport, screen: Screen) -> None:
    """The window before and after, one scale, the thresholds below."""
    changed = report.after != report.before
    sides = [("before", report.before), ("after", report.after)] if changed else [("now", report.before)]
    width = max(20, min(72, screen.width - 28))
    marks = ""
    screen.line()
    for name, side in sides:
        line, marks = ruler(side.tokens, report.window, width)
        screen.line(
            f"{name:<6} {line} {side.tokens * 100 / report.window.context:.0f}% of {tokens(report.window.context)}", COLOURS[side.level]
        )
    screen.line(f"{'':<6} {marks}", "soft")
    for name, side in sides:
        screen.line(f"{name:<6} {_sized(side)}", COLOURS[side.level])
    thresholds = ((" w warning", report.window.warning), ("a auto compact", report.window.auto), ("b blocking", report.window.blocking))
    screen.line(f"{'':<6}" + ", ".join(f"{name} at {tokens(at)}" for name, at in thresholds), "soft")


def _sized(side: Side) -> str:
    doubt = ", uncertain" if side.uncertain else ""
    known = f"{side.tokens:,} tokens ({SOURCE_WORDS[side.source]}{doubt})"
    return f"{known}, {_count(side.messages, 'message')}, {size(side.bytes)}; {LEVEL_WORDS[side.level]}, {side.percent_left}% left"


def _levels(report: CompactReport, screen: Screen) -> None:
    freed = report.before.tokens - report.after.tokens
    calls = f"{report.llm_calls:,} LLM call{'' if report.llm_calls == 1 else 's'}" if report.llm_calls else "no LLM call"
    share = f", {freed / report.before.tokens:.0%} of the view" if report.before.tokens else ""
    screen.title(f"Levels: {freed:,} tokens freed{share}, {calls}" if freed > 0 else f"Levels: nothing freed, {calls}")
    for level in report.levels:
        _level(level, screen, said_below="" if report.success else report.why)


def _level(level: LevelEffect, screen: Screen, said_below: str) -> None:
    state = "applied" if level.applied else "not applied"
    sizes = f"{level.tokens_before:,} → {level.tokens_after:,}" if level.tokens_after != level.tokens_before else f"{level.tokens_before:,}"
    screen.line(f"  {level.level:<7} {state:<12} {sizes}", "good" if level.applied else "plain")
    said = words_of(level)
    if level.applied:
        screen.line(f"  {'':<7} {said}" + (f" ({', '.join(level.folds)})" if level.folds else ""))
        screen.line(f"  {'':<7} {_money(level)}", "soft")
    elif level.why != said_below:
        screen.line(f"  {'':<7} {level.why or said}", "soft")


def _money(level: LevelEffect) -> str:
    if level.rewrite_usd is None or level.saved_per_turn_usd is None:
        return "price not known"
    if level.saved_per_turn_usd <= 0:
        return "saves nothing a turn"
    after = f", paid back after {level.break_even_turns:.0f} turns" if level.break_even_turns else ""
    once = f"costs {dollars(level.rewrite_usd)} once if the cache is warm"
    return f"saves {dollars(level.saved_per_turn_usd)} a turn, {once}{after}"


def _receipt(receipt: Receipt, screen: Screen) -> None:
    rows = [
        (name, count)
        for name, count in (
            ("paths", receipt.paths),
            ("commands", receipt.commands),
            ("identifiers", receipt.identifiers),
            ("sentences of people", receipt.user_instructions),
        )
        if count.folded
    ]
    if not rows:
        return
    screen.title("Receipt: what the folded texts held, and how much of it still stands in view")
    for name, count in rows:
        screen.line(f"  {name:<20} {count.still_in_view:>6,} of {count.folded:>6,}  {_share(count):>4}")


def _share(count: Count) -> str:
    """Percent, rounded down: not all is not 100%."""
    return f"{count.still_in_view * 100 // count.folded}%"


def _failure(report: CompactReport, screen: Screen) -> None:
    screen.title("Not done")
    screen.line(report.why, "bad")
    if report.before.tokens <= report.target:
        return
    screen.line("The largest parts:")
    for part in report.largest:
        screen.line(f"  {tokens(part.tokens):>6}  {part.what}", one=True)
    screen.line("What helps:")
    if report.overhead > report.target * LARGE_OVERHEAD:
        known = f"system prompt and tools had {report.overhead:,} tokens when it was recorded"
        screen.line(f"  --overhead TOKENS, if it goes on elsewhere: {known}")
    screen.line("  --window TOKENS or --model NAME, if it goes on with a larger window")


def _violations(report: CompactReport, screen: Screen) -> None:
    screen.line()
    if not report.violations:
        if report.success:
            screen.line("A provider would take it as it is.", "good")
        return
    screen.line(f"A provider would refuse it: {_count(len(report.violations), 'violation')}", "bad")
    for row in report.violations[:MOST_LISTED]:
        where = f"line {row.line}: " if row.line else f"{row.entry}: " if row.entry else ""
        screen.line(f"  {row.rule} {where}{row.text} → {row.repair}")
    if len(report.violations) > MOST_LISTED:
        screen.line(f"  … and {len(report.violations) - MOST_LISTED} more", "soft")


def _written(report: CompactReport, screen: Screen, told: Told) -> None:
    output = report.output
    if output is not None:
        where = "appended to the session itself" if output.in_place else f"written: {output.path} ({output.format})"
        if output.path == "-":
            where = f"written to standard output ({output.format})"
        screen.line(where)
        if output.undo:
            screen.line(f"everything back: {output.undo}")
    elif told.dry_run:
        screen.line("nothing was written: a dry run")
    elif not report.success:
        screen.line("nothing was written" + ("; the session is what it was" if told.is_session else ""))
    elif told.is_session and not told.has_out:
        screen.line("nothing was written: the session fits as it is")
    else:
        screen.line("nothing was written: -o OUT writes it, as a fivefold session or --to anthropic, openai, claude-code")
