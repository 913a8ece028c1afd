"""What is still in view of what the assistant used later: our fold without a model beside plain policies of the same size (B2).

    python benchmarks/retention.py DIR… [--share 0.35] [--cut 0.5] [--least 40] [--sessions]

Each conversation under DIR is cut at a share of its rounds; what stands before is compacted to a share of its tokens, and
``fivefold.replay.retention`` judges what is shown instead. Ours sets the size; the others get the same size within 3%, all by
one estimator. A conversation counts where the assistant used at least LEAST references later that were not told again.

keep-last: the newest text that fits. drop-oldest: what stands before the first response, then the newest that fits.
mask: the oldest results become a placeholder, ten at a time, until it fits, the last ten one by one. Prints a table of
medians (worst), who is better where, and each session in which plain recency wins, with what it kept that ours lost.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from fivefold.core.entries import CLEARED, Entry
from fivefold.core.estimate import measure_entry
from fivefold.core.log import Log
from fivefold.core.messages import Text, ToolResult
from fivefold.core.pairing import legal_cuts, rounds
from fivefold.core.transcript import Conversation
from fivefold.core.window import Window
from fivefold.drive import Driver
from fivefold.errors import FivefoldError
from fivefold.formats.registry import read_transcript
from fivefold.replay.retention import Question, Retention, end_of, judge, kept, prepare, suffix_of
from fivefold.setup import make_setup
from fivefold.summarize.structural import Budget

BATCH = 10
"""Results masked at a time."""
SAME_SIZE = 0.03
AUTO_AT = 167_000
"""Auto threshold of a window of 200,000 tokens, to whose proportions windows are scaled."""
FEW = 5
"""A share of fewer references than this says nothing and is left out of its column."""


class Case(NamedTuple):
    """A conversation, where it is cut, and what is asked of a view of its history."""

    name: str
    conversation: Conversation
    entries: list[Entry]
    cut: int
    question: Question


class Outcome(NamedTuple):
    """One policy on one case. ``lift`` is against a plain suffix of the policy's own size."""

    case: Case
    retention: Retention
    lift: float
    fits: bool
    """Its size is ours, within ``SAME_SIZE``."""


def size(entries: Sequence[Entry]) -> int:
    """Tokens, unpadded."""
    return sum(measure_entry(entry).tokens for entry in entries)


def cases(folders: Sequence[Path], at: float, least: int) -> Iterator[Case]:
    """The conversations of all files that can be read; rewound branches repeat their main one and are left out."""
    for folder in folders:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            try:
                transcript = read_transcript(path)
            except FivefoldError:
                continue
            for number, conversation in enumerate(transcript.conversations):
                name = f"{path.parent.name}/{path.name.split('.')[0]}" + (f" {conversation.kind} {number}" if number else "")
                case = case_of(name, conversation, at)
                if case is not None and conversation.kind != "branch" and len(case.question.needs) >= least:
                    yield case


def case_of(name: str, conversation: Conversation, at: float) -> Case | None:
    """One conversation cut at a share of its rounds, at or before the round where a cut is legal."""
    entries = list(conversation.log.entries())
    found = rounds(entries)
    if len(found) < 4:
        return None
    cut = found[int(len(found) * at)].start
    legal = legal_cuts(entries)
    while not legal[cut]:
        cut -= 1
    return Case(name, conversation, entries, cut, prepare(entries, cut))


# --- policies: what is shown instead of a history


def ours(case: Case, tokens: float) -> list[Entry] | None:
    """What the driver shows after a full compaction without a model that was asked for, in a window in which the default summary
    leaves about ``tokens``; None where there is nothing to fold or the result would be no success. Recorded usage is left out:
    system prompt and tools, which it holds, are not part of what is compared."""
    threshold = round(tokens / Budget.of(1.0).total)
    scale = threshold / AUTO_AT
    context, effective, warning, blocking = (round(part * scale) for part in (200_000, 180_000, 147_000, 177_000))
    window = Window(context, effective, warning, threshold, blocking)
    setup = msgspec.structs.replace(make_setup(window=window.context), window=window)
    history = [msgspec.structs.replace(entry, usage=None) for entry in case.entries[: case.cut]]
    driver = Driver(Log(case.conversation.log.head, history), setup=setup, clock=lambda: 0.0)
    plan = driver.preview(level="auto")
    return list(plan.state.view.sent()) if plan.success and plan.folds else None


def keep_last(history: list[Entry], tokens: float) -> list[Entry]:
    """The newest text that fits."""
    return suffix_of(history, len(history), tokens)


def drop_oldest(history: list[Entry], tokens: float) -> list[Entry]:
    """What stands before the first response, and then the newest that fits beside it."""
    start = next((i for i, entry in enumerate(history) if entry.kind == "assistant"), 0)
    left = tokens - size(history[:start])
    return [*history[:start], *suffix_of(history[start:], len(history) - start, left)] if left > 0 else keep_last(history, tokens)


def mask(history: list[Entry], tokens: float) -> list[Entry]:
    """Oldest results first, ten at a time until it fits; of the last ten, as many come back, newest first, as fit, and the end
    of one more."""
    shown = list(history)
    sizes = [measure_entry(entry).tokens for entry in shown]
    results = [i for i, entry in enumerate(shown) if masked(entry) is not entry]
    batches = [results[at : at + BATCH] for at in range(0, len(results), BATCH)]
    total = sum(sizes)
    last: list[int] = []
    for batch in batches:
        if total <= tokens:
            break
        for i in batch:
            shown[i] = masked(history[i])
            total += measure_entry(shown[i]).tokens - sizes[i]
        last = batch
    for i in reversed(last if total <= tokens else []):
        room = tokens - total + measure_entry(shown[i]).tokens
        part = end_of(history[i], room)
        if part is None or measure_entry(part).tokens <= measure_entry(shown[i]).tokens:
            break
        total += measure_entry(part).tokens - measure_entry(shown[i]).tokens
        shown[i] = part
    return shown


def masked(entry: Entry) -> Entry:
    """An entry whose results are cleared; the same object where that gains nothing. In formats that write results as the
    harness's text, that text is one."""
    blocks = tuple(
        msgspec.structs.replace(block, content=CLEARED)
        if isinstance(block, ToolResult)
        else Text(CLEARED)
        if isinstance(block, Text) and entry.kind == "user" and entry.meta
        else block
        for block in entry.blocks
    )
    cleared = msgspec.structs.replace(entry, blocks=blocks)
    return cleared if measure_entry(cleared).tokens < measure_entry(entry).tokens else entry


OTHERS: dict[str, Callable[[list[Entry], float], list[Entry]]] = {"keep-last": keep_last, "drop-oldest": drop_oldest, "mask": mask}


def outcome(case: Case, shown: list[Entry], ours: int) -> Outcome:
    """A view judged, beside a plain suffix of its own size."""
    found = judge(case.question, shown)
    plain = judge(case.question, suffix_of(case.entries, case.cut, found.tokens))
    return Outcome(case, found, (found.kept - plain.kept) / found.needed, abs(found.tokens / ours - 1) <= SAME_SIZE)


# --- what is printed


def share(part: int, whole: int) -> float | None:
    return part / whole if whole >= FEW else None


COLUMNS: dict[str, Callable[[Outcome], float | None]] = {
    "refs": lambda one: share(one.retention.kept, one.retention.needed),
    "in context": lambda one: share(one.retention.context_kept, one.retention.needed),
    "old": lambda one: share(one.retention.old_kept, one.retention.old_needed),
    "found": lambda one: share(one.retention.found_kept, one.retention.found_needed),
    "lift": lambda one: one.lift,
    "sentences": lambda one: share(one.retention.sentences_kept, one.retention.sentences),
    "size": lambda one: one.retention.tokens / one.case.question.tokens,
}


def cell(outcomes: Sequence[Outcome], name: str) -> str:
    """Median, worst in brackets; the worst of the size is the largest."""
    values = [value for one in outcomes if (value := COLUMNS[name](one)) is not None]
    worst = max if name == "size" else min
    return f"{statistics.median(values):.2f} ({worst(values):.2f})" if values else "–"


def table(runs: dict[str, list[Outcome]]) -> Iterator[str]:
    """A Markdown table, a row a policy."""
    yield "| policy | " + " | ".join(COLUMNS) + " | not at the size |"
    yield "| --- |" + " --- |" * (len(COLUMNS) + 1)
    for name, outcomes in runs.items():
        cells = " | ".join(cell(outcomes, column) for column in COLUMNS)
        yield f"| {name} | {cells} | {sum(not one.fits for one in outcomes)} of {len(outcomes)} |"


def duel(name: str, us: list[Outcome], them: list[Outcome]) -> str:
    """Who keeps more, session by session, over those in which both have the same size."""
    parts = []
    for column in ("refs", "in context", "old", "found", "sentences"):
        both = [(COLUMNS[column](a), COLUMNS[column](b)) for a, b in zip(us, them, strict=True) if b.fits]
        pairs = [(a, b) for a, b in both if a is not None and b is not None]
        better, worse = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
        parts.append(f"{column} {better}/{len(pairs) - better - worse}/{worse}")
    return f"against {name}, ours better/equal/worse: " + ", ".join(parts)


def recency_wins(us: Outcome, shown: list[Entry], last: list[Entry]) -> str:
    """What plain recency kept and ours lost in one session, and where that had stood."""
    case = us.case
    ours, newest = ({need.reference for need in kept(case.question, view)} for view in (shown, last))
    lost = [need for need in case.question.needs if need.reference in newest - ours]
    ago = statistics.median(size(case.entries[need.last_seen : case.cut]) / case.question.tokens for need in lost)
    recent = sum(not need.old for need in case.question.needs) / len(case.question.needs)
    kinds = ", ".join(f"{count} {kind}" for kind, count in Counter(need.kind for need in lost).most_common(3))
    return (
        f"- {case.name}: {us.lift:+.2f} of {len(case.question.needs)}. {recent:.0%} of what was needed had last stood in the newest "
        f"quarter; recency kept {len(lost)} that ours lost ({kinds}; {sum(need.found for need in lost)} found by tools only; in the median "
        f"{ago:.0%} of the history before the cut), ours {len(ours - newest)} that recency lost."
    )


def each(us: Outcome) -> str:
    """One session as a row."""
    case, found = us.case, us.retention
    cells = (COLUMNS[name](us) for name in COLUMNS)
    return (
        f"| {case.name} | {case.question.tokens} | {found.needed} | {case.question.refetched} | "
        + " | ".join("–" if value is None else f"{value:.2f}" for value in cells)
        + " |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--share", type=float, default=0.35)
    parser.add_argument("--cut", type=float, default=0.5)
    parser.add_argument("--least", type=int, default=40)
    parser.add_argument("--sessions", action="store_true", help="one row a session for ours, too")
    given = parser.parse_args()
    runs: dict[str, list[Outcome]] = {"ours": [], **{name: [] for name in OTHERS}}
    wins: list[str] = []
    seconds: list[float] = []
    for case in cases(given.folders, given.cut, given.least):
        start = time.process_time()
        shown = ours(case, given.share * case.question.tokens)
        seconds.append(time.process_time() - start)
        if shown is None:
            print(f"no compaction: {case.name}", file=sys.stderr)
            continue
        tokens = size(shown)
        us = outcome(case, shown, tokens)
        runs["ours"].append(us)
        for name, policy in OTHERS.items():
            runs[name].append(outcome(case, policy(case.entries[: case.cut], tokens), tokens))
        if us.lift < 0:
            wins.append(recency_wins(us, shown, keep_last(case.entries[: case.cut], tokens)))
    needs = sum(one.retention.needed for one in runs["ours"])
    again = sum(one.case.question.refetched for one in runs["ours"])
    print(f"{len(runs['ours'])} conversations, {needs} references needed, {again} more used but told again first\n")
    print("\n".join(table(runs)), end="\n\n")
    print("\n".join(duel(name, runs["ours"], runs[name]) for name in OTHERS), end="\n\n")
    print(f"Plain recency keeps more references in {len(wins)} of {len(runs['ours'])}:", *wins, sep="\n")
    print(f"\nprocessor time of ours, its own index included: median {statistics.median(seconds):.2f} s, most {max(seconds):.2f} s")
    if given.sessions:
        print("\n| conversation | tokens | needed | told again | " + " | ".join(COLUMNS) + " |")
        print("| --- |" + " ---: |" * (3 + len(COLUMNS)), *map(each, runs["ours"]), sep="\n")


if __name__ == "__main__":
    main()
