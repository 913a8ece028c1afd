"""A report in the terminal: readable without colour and in a pipe (Z5)."""

from __future__ import annotations

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from ..report.meter import LEVEL_WORDS, bar, columns, ruler, size, tokens
from ..report.model import Part, Report
from ..report.timeline import thin

COLOURS = {"ok": "green", "error": "yellow", "auto": "red", "blocking": "bold red"}
MOST_LISTED = 10
MOST_NAME = 46
BAR = 24


def show(report: Report, console: Console) -> None:
    """Print a report."""
    width = max(30, min(72, console.width - 12))
    _head(report, console)
    _meter(report, console, width)
    _parts("What fills it, by kind", report.by_kind, console)
    _parts("By tool", report.by_tool, console, calls=True)
    _parts("By file", report.by_file, console, calls=True)
    _timeline(report, console, width)
    _compactions(report, console)
    _largest(report, console)
    _violations(report, console)
    _bad_lines(report, console)


def _head(report: Report, console: Console) -> None:
    console.print(Text(report.file, style="bold"), soft_wrap=True)
    counts = f"{report.entries:,} messages · {report.rounds:,} rounds · {report.tool_calls:,} tool calls"
    console.print(Text(f"{report.format} · {report.model or 'no model named'} · {counts}"))
    others = len(report.conversations) - 1
    if others:
        console.print(Text(f"conversation {report.conversation!r}; {others} more in the file (--conversation N)"))
        for i, row in enumerate(report.conversations[:MOST_LISTED], 1):
            console.print(Text(f"  {i} {row.kind} {row.name} · {row.entries} messages · {row.tool_calls} tool calls"), style="dim")
        _more(len(report.conversations), console)


def _meter(report: Report, console: Console, width: int) -> None:
    known = {
        "usage": "the provider's count",
        "usage+estimate": "the provider's count and an estimate of what came after",
        "calibrated": "an estimate, calibrated",
        "estimate": "an estimate",
    }
    console.print()
    used = f"{report.tokens.used:,} tokens ({known[report.tokens.source]}), {size(report.bytes)}"
    if report.window is None or report.state is None:
        console.print(Text(used))
        console.print(Text(report.note or "", style="yellow"))
        return
    window, state = report.window, report.state
    line, marks = ruler(report.tokens.used, window, width)
    console.print(
        Text(line, style=COLOURS[state.level]), Text(f"{report.tokens.used * 100 / window.context:.0f}% of {tokens(window.context)}")
    )
    console.print(Text(marks, style="dim"))
    console.print(Text(used))
    console.print(Text(f"{LEVEL_WORDS[state.level]}: {state.percent_left}% left until auto compact", style=COLOURS[state.level]))
    distances = [("warning", window.warning), ("auto compact", window.auto), ("blocking", window.blocking)]
    console.print(Text(" · ".join(f"{name} at {tokens(at)} ({_distance(at - report.tokens.used)})" for name, at in distances)))
    if window.cliff is not None:
        console.print(Text(f"the price per token rises above {tokens(window.cliff)}"))


def _distance(left: int) -> str:
    return f"{tokens(left)} to go" if left > 0 else f"passed by {tokens(-left)}"


def _parts(title: str, parts: dict[str, Part], console: Console, *, calls: bool = False) -> None:
    if not parts:
        return
    console.print()
    console.print(Text(title, style="bold"))
    listed = list(parts.items())[:MOST_LISTED]
    width = min(MOST_NAME, max(cell_len(name) for name, _ in listed))
    word = ("call", "calls") if calls else ("block", "blocks")
    for name, part in listed:
        counted = f"{part.count:>5} {word[part.count != 1]:<{len(word[1])}}"
        line = f"  {_fit(name, width)}  {tokens(part.tokens):>6}  {part.share:>4.0%} {counted}  {bar(part.share, BAR)}"
        console.print(Text(line.rstrip()), overflow="ellipsis", no_wrap=True)
    _more(len(parts), console)


def _fit(name: str, width: int) -> str:
    """A name in exactly so many columns, its end kept where it is too long."""
    while cell_len(name) > width:
        name = "…" + name[2:]
    return set_cell_size(name, width)


def _more(count: int, console: Console) -> None:
    if count > MOST_LISTED:
        console.print(Text(f"  … and {count - MOST_LISTED} more", style="dim"))


def _timeline(report: Report, console: Console, width: int) -> None:
    if len(report.timeline) < 2:
        return
    points = thin(report.timeline, width)
    peak = max(point.tokens for point in report.timeline)
    ceiling = max(peak, report.window.auto) if report.window else peak
    console.print()
    console.print(Text("Size by round", style="bold"))
    console.print(Text(columns([point.tokens for point in points], ceiling)))
    marks = [" "] * len(points)
    for row in report.compactions:
        place = min(len(points) - 1, sum(point.round < row.round for point in points))
        marks[place] = "▼"
    if report.compactions:
        console.print(Text("".join(marks).rstrip()))
    legend = "; ▼ compaction" if report.compactions else ""
    console.print(
        Text(f"rounds {points[0].round} to {points[-1].round}; peak {tokens(peak)}, full height {tokens(ceiling)}{legend}", style="dim")
    )


def _compactions(report: Report, console: Console) -> None:
    if not report.compactions:
        return
    console.print()
    console.print(Text("Compactions", style="bold"))
    for row in report.compactions[:MOST_LISTED]:
        line = f", line {row.line}" if row.line else ""
        trigger = f" ({row.trigger})" if row.trigger else ""
        sizes = f"{tokens(row.tokens_before)} → {tokens(row.tokens_after)}"
        console.print(Text(f"  round {row.round}{line}: {row.level}{trigger}, {sizes}, {row.hidden_entries} entries folded"))
    _more(len(report.compactions), console)


def _largest(report: Report, console: Console) -> None:
    console.print()
    console.print(Text("Largest entries", style="bold"))
    for row in report.largest:
        where = f"line {row.line}" if row.line else row.entry
        what = " ".join(filter(None, (row.tool, row.file))) or row.kind
        console.print(Text(f"  {tokens(row.tokens):>6}  {where:<10} {what}  {row.text}"), no_wrap=True, overflow="ellipsis", crop=True)


def _violations(report: Report, console: Console) -> None:
    if not report.violations:
        console.print()
        console.print(Text("A provider would take it as it is.", style="green"))
        return
    console.print()
    console.print(
        Text(f"A provider would refuse it: {len(report.violations)} violation{'s' if len(report.violations) > 1 else ''}", style="bold red")
    )
    for row in report.violations[:MOST_LISTED]:
        where = f"line {row.line}" if row.line else row.entry
        console.print(Text(f"  {row.rule} {where}: {row.text} → {row.repair}"))
    _more(len(report.violations), console)


def _bad_lines(report: Report, console: Console) -> None:
    if not report.bad_lines:
        return
    console.print()
    console.print(Text(f"Lines that could not be read: {len(report.bad_lines)}", style="bold yellow"))
    for row in report.bad_lines[:MOST_LISTED]:
        console.print(Text(f"  line {row.line}: {row.why}"))
    _more(len(report.bad_lines), console)
