"""A report in the terminal: readable without colour and in a pipe (Z5)."""

from __future__ import annotations

from ..report.meter import LEVEL_WORDS, SOURCE_WORDS, bar, columns, ruler, size, tokens
from ..report.model import Part, Report
from ..report.timeline import thin
from .screen import Screen, Style, cells, fit, printable

COLOURS: dict[str, Style] = {"ok": "good", "error": "warn", "auto": "bad", "blocking": "bad"}
MOST_LISTED = 10
MOST_NAME = 46
BAR = 24
BESIDE_NAME = 40
"""Columns of a table that its numbers and a short bar take."""


def show(report: Report, screen: Screen) -> None:
    """Print a report."""
    width = max(30, min(72, screen.width - 12))
    _head(report, screen)
    _meter(report, screen, width)
    _parts("What fills it, by kind", report.by_kind, screen)
    _parts("By tool", report.by_tool, screen, calls=True)
    _parts("By file", report.by_file, screen, calls=True)
    _timeline(report, screen, width)
    _compactions(report, screen)
    _largest(report, screen)
    _violations(report, screen)
    _bad_lines(report, screen)


def _head(report: Report, screen: Screen) -> None:
    screen.line(report.file, "title")
    chosen = next((row for row in report.conversations if row.name == report.conversation), None)
    messages, calls = (chosen.entries, chosen.tool_calls) if chosen else (report.entries, report.tool_calls)
    counts = f"{_count(messages, 'message')} · {_count(report.rounds, 'round')} · {_count(calls, 'tool call')}"
    screen.line(f"{report.format} · {report.model or 'no model named'} · {counts}")
    others = len(report.conversations) - 1
    if others:
        whole = f"{_count(report.entries, 'message')}, {_count(report.tool_calls, 'tool call')} in the file"
        screen.line(f"conversation {report.conversation!r}; {others} more (--conversation N); {whole}")
        for i, row in enumerate(report.conversations[:MOST_LISTED], 1):
            screen.line(
                f"  {i} {row.kind} {row.name} · {_count(row.entries, 'message')} · {_count(row.tool_calls, 'tool call')}", "soft", one=True
            )
        _more(len(report.conversations), screen)


def _count(count: int, what: str) -> str:
    return f"{count:,} {what}" if count == 1 else f"{count:,} {what}s"


def _place(report: Report, line: int | None, entry: str) -> str:
    return f"{report.places} {line}" if line else entry


def _meter(report: Report, screen: Screen, width: int) -> None:
    screen.line()
    doubt = ", uncertain" if report.tokens.uncertain else ""
    used = f"{report.tokens.used:,} tokens ({SOURCE_WORDS[report.tokens.source]}{doubt}), {size(report.bytes)}"
    if report.window is None or report.state is None:
        screen.line(used)
        screen.line(report.note or "", "warn")
        return
    window, state = report.window, report.state
    label = f" {report.tokens.used * 100 / window.context:.0f}% of {tokens(window.context)}"
    line, marks = ruler(report.tokens.used, window, min(width, screen.width - len(label)))
    screen.line(line + label, COLOURS[state.level])
    screen.line(marks, "soft")
    screen.line(used)
    screen.line(f"{LEVEL_WORDS[state.level]}: {state.percent_left}% left until auto compact", COLOURS[state.level])
    screen.line("fivefold's thresholds in this window (an agent may have others):", "soft")
    for name, at in (("w  warning", window.warning), ("a  auto compact", window.auto), ("b  blocking", window.blocking)):
        screen.line(f"{name:<15} at {tokens(at):>5}, {_distance(at - report.tokens.used)}", "soft")
    if report.note:
        screen.line(report.note, "warn")
    if window.cliff is not None:
        screen.line(f"the price per token rises above {tokens(window.cliff)}")


def _distance(left: int) -> str:
    return f"{tokens(left)} to go" if left > 0 else f"passed by {tokens(-left)}"


def _parts(title: str, parts: dict[str, Part], screen: Screen, *, calls: bool = False) -> None:
    if not parts:
        return
    screen.title(title)
    listed = list(parts.items())[:MOST_LISTED]
    width = min(MOST_NAME, max(10, screen.width - BESIDE_NAME), max(cells(printable(name)) for name, _ in listed))
    word = ("call", "calls") if calls else ("block", "blocks")
    for name, part in listed:
        counted = f"{part.count:>5} {word[part.count != 1]:<{len(word[1])}}"
        line = f"  {fit(printable(name), width, end=calls)}  {tokens(part.tokens):>6}  {part.share:>4.0%} {counted}  {bar(part.share, BAR)}"
        screen.line(line.rstrip(), one=True)
    _more(len(parts), screen)


def _more(count: int, screen: Screen) -> None:
    if count > MOST_LISTED:
        screen.line(f"  … and {count - MOST_LISTED} more", "soft")


def _timeline(report: Report, screen: Screen, width: int) -> None:
    if len(report.timeline) < 2:
        return
    points = thin(report.timeline, width)
    peak = max(point.tokens for point in report.timeline)
    ceiling = max(peak, report.window.auto) if report.window and peak * 3 > report.window.auto else peak
    screen.title("Size by round")
    screen.line(columns([point.tokens for point in points], ceiling))
    marks = [" "] * len(points)
    for row in report.compactions:
        place = min(len(points) - 1, sum(point.round < row.round for point in points))
        marks[place] = "▼"
    if report.compactions:
        screen.line("".join(marks).rstrip())
    legend = "; ▼ compaction" if report.compactions else ""
    screen.line(f"rounds 1 to {report.rounds}; peak {tokens(peak)}, full height {tokens(ceiling)}{legend}", "soft")


def _compactions(report: Report, screen: Screen) -> None:
    if not report.compactions:
        return
    screen.title("Compactions")
    for row in report.compactions[:MOST_LISTED]:
        line = f", {report.places} {row.line}" if row.line else ""
        trigger = f" ({row.trigger})" if row.trigger else ""
        sizes = f"{tokens(row.tokens_before)} → {tokens(row.tokens_after)}"
        screen.line(f"  round {row.round}{line}: {row.level}{trigger}, {sizes}, {row.hidden_entries} entries folded")
    _more(len(report.compactions), screen)


def _largest(report: Report, screen: Screen) -> None:
    screen.title("Largest entries")
    for row in report.largest:
        where = _place(report, row.line, row.entry)
        what = " ".join(filter(None, (row.tool, row.file))) or row.kind
        screen.line(f"  {tokens(row.tokens):>6}  {where:<10} {what}  {row.text}", one=True)


def _violations(report: Report, screen: Screen) -> None:
    screen.line()
    if not report.violations:
        screen.line("A provider would take it as it is.", "good")
        return
    screen.line(f"A provider would refuse it: {len(report.violations)} violation{'s' if len(report.violations) > 1 else ''}", "bad")
    for row in report.violations[:MOST_LISTED]:
        where = _place(report, row.line, row.entry)
        screen.line(f"  {row.rule} {where + ': ' if where else ''}{row.text} → {row.repair}")
    _more(len(report.violations), screen)


def _bad_lines(report: Report, screen: Screen) -> None:
    if not report.bad_lines:
        return
    screen.line()
    screen.line(f"Lines that could not be read: {len(report.bad_lines)}", "warn")
    for row in report.bad_lines[:MOST_LISTED]:
        screen.line(f"  line {row.line}: {row.why}")
    _more(len(report.bad_lines), screen)
