"""``fivefold compact``: make a recorded session fit its window, with nothing lost (Z1, Z4, X1, X2, X6)."""

from __future__ import annotations

import contextlib
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import click
import msgspec

from .. import settings
from ..core.economics import Model
from ..core.entries import Entry, Fold, HideSpan, Record
from ..core.estimate import measure_entry
from ..core.events import Direction, LevelName
from ..core.log import Log
from ..core.messages import JSON, Object, ToolResult
from ..core.pairing import rounds
from ..core.policy import MicroPolicy, Policy
from ..core.state import Setup
from ..core.transcript import Conversation, Transcript
from ..core.view import view_of
from ..drive import Driver
from ..formats import session as session_format
from ..outcome import target_of
from ..plan import Plan
from ..report.build import choose
from ..report.compaction import CompactReport, Output, report_of
from .compaction import Told, show
from .options import Judged, entry_id, input_options, last_time, load, model_options, setup_of
from .outfile import STDOUT, TARGETS, Result, Target, check_place
from .screen import Screen
from .sessions import writing

LEVELS: tuple[LevelName, ...] = ("snip", "micro", "auto", "partial")
ELSEWHERE = {
    "memory": "is kept while a conversation goes on; a recording has none. In Python: Driver(…, ports=Ports(memory=…))",
    "collapse": "commits summaries that were staged while a conversation went on; a recording has none",
    "reactive": "answers a provider's refusal; a recording has none. In Python: Driver.rejected",
}
"""Levels that need what a file does not hold."""
BY_MODELS = ("model", "native")


class Asked(NamedTuple):
    """What the options say. Sizes are tokens."""

    level: LevelName | None
    from_id: str | None
    up_to_id: str | None
    keep: int | None
    instructions: tuple[str, ...]
    threshold: Object
    """Fields of the policy's window section."""
    overhead: int | None
    dry_run: bool
    to: Target | None
    out: Path | None
    force: bool
    html_file: Path | None
    policy: Path | None

    @property
    def pivot(self) -> str | None:
        """Where a partial compaction turns, as it was typed."""
        return self.from_id or self.up_to_id

    @property
    def direction(self) -> Direction:
        """Which side of the pivot is folded."""
        return "from" if self.from_id is not None else "up_to"


def level_of(_context: click.Context, _option: click.Parameter, value: str | None) -> LevelName | None:
    """A level's name, or why it cannot be asked for here."""
    known = next((level for level in LEVELS if level == value), None)
    if known is not None or value is None:
        return known
    if value in ELSEWHERE:
        raise click.BadParameter(f"level {value} {ELSEWHERE[value]}")
    raise click.BadParameter(f"{value!r} is none of {', '.join(LEVELS)}")


def summarizer_of(_context: click.Context, _option: click.Parameter, value: str) -> str:
    """``structural``, or how to get the other ones."""
    if value == "structural":
        return value
    if value in BY_MODELS:
        raise click.BadParameter(f"{value} needs a model, which is given in Python: Driver(…, ports=Ports(ask=…)); structural needs none")
    raise click.BadParameter(f"{value!r} is not structural, the one that needs no model")


def named(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    """An entry's id. An empty one is a variable that was never set, and no wish for a compaction of everything."""
    if value is not None and not value.strip():
        raise click.BadParameter("it is empty; give an entry's id, or its beginning, or line:NUMBER")
    return value


def threshold_of(_context: click.Context, _option: click.Parameter, value: str | None) -> Object:
    """``150000`` or ``60%`` as fields of the policy."""
    if value is None:
        return {}
    match = re.fullmatch(r"([\d_]+)|(\d+(?:\.\d+)?)\s*%", value.strip())
    if match is None:
        raise click.BadParameter(f"{value!r} is neither a number of tokens nor a percentage, such as 150000 or 60%")
    tokens, percent = match.groups()
    if not float((tokens or percent).replace("_", "") or 0):
        raise click.BadParameter(f"{value!r} is no threshold: it has to be over 0")
    return {"threshold_tokens": int(tokens.replace("_", "") or 0)} if tokens else {"threshold_percent": float(percent)}


@click.command()
@input_options
@model_options
@click.option(
    "--level", metavar="LEVEL", callback=level_of, help="Force one level, needed or not: snip, micro, auto (a full one), partial."
)
@click.option("--from", "from_id", metavar="ID", callback=named, help="Fold this entry and what follows; or its beginning, or line:NUMBER.")
@click.option("--up-to", "up_to_id", metavar="ID", callback=named, help="Fold what comes before this entry.")
@click.option("--keep", type=click.IntRange(min=1), metavar="TOKENS", help="Keep at least so much of the newest rounds verbatim.")
@click.option("--threshold", metavar="TOKENS|N%", callback=threshold_of, help="Auto-compact threshold; it can only be lowered.")
@click.option("--overhead", type=click.IntRange(min=0), metavar="TOKENS", help="System prompt and tools, instead of what was recorded.")
@click.option(
    "--policy",
    "policy",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Numbers of the policy in a TOML file; FIVEFOLD_<SECTION>_<FIELD> in the environment holds over it.",
)
@click.option("--instructions", multiple=True, metavar="TEXT", help="What the summary should heed, where a model writes it.")
@click.option(
    "--summarizer",
    default="structural",
    show_default=True,
    metavar="NAME",
    callback=summarizer_of,
    expose_value=False,
    help="Who writes summaries: structural, code alone.",
)
@click.option("--to", type=click.Choice(TARGETS), metavar="FORMAT", help=f"Format of OUT: {', '.join(TARGETS)} (the first by default).")
@click.option("-o", "--output", "out", type=click.Path(path_type=Path), metavar="OUT", help="Write the result there; - is standard output.")
@click.option("--force", is_flag=True, help="Replace OUT where it is there already.")
@click.option("--html", "html_file", type=click.Path(path_type=Path), metavar="PAGE", help="Write a self-contained page.")
@click.option("--dry-run", is_flag=True, help="Show what would be done; write no result.")
def compact(
    file: Path | None,
    use_latest: bool,
    conversation: str | None,
    strict: bool,
    as_json: bool,
    model: str | None,
    window: int | None,
    max_output: int | None,
    models_file: Path | None,
    **options: Any,
) -> None:
    """Make a recorded session fit its window, without a model, with nothing lost. Old results are cleared or the earlier part
    gives way to a summary, whatever is enough and costs least.

    A fivefold session is compacted in place, unless -o says otherwise, and `fivefold undo` brings everything back. Any other
    file stays as it is: -o OUT writes the result. OUT is never the input, and is replaced only with --force.
    """
    asked = Asked(**options)
    check(asked)
    transcript = load(file, use_latest, strict)
    job = Job(asked, transcript, choose(transcript, conversation), file or Path(transcript.path))
    check_places(asked, job.path)
    judged = Judged(model, window, max_output, models_file)
    report = job.in_place(judged) if job.is_in_place else job.aside(judged)
    if asked.html_file is not None:
        from ..report.compaction_page import write_page

        write_page(report, asked.html_file)
    with contextlib.redirect_stdout(sys.stderr) if str(asked.out) == STDOUT else contextlib.nullcontext():
        tell(report, asked, job, as_json)
    if not report.success or report.violations:
        raise click.exceptions.Exit(1)


def check(asked: Asked) -> None:
    """Refuse what cannot be meant. Raises UsageError."""
    if asked.from_id is not None and asked.up_to_id is not None:
        raise click.UsageError("give either --from or --up-to: one side of an entry is folded")
    if asked.pivot is not None and asked.level not in (None, "partial"):
        raise click.UsageError(f"--from and --up-to make a partial compaction; leave out --level {asked.level}")
    if asked.level == "partial" and asked.pivot is None:
        raise click.UsageError("--level partial needs --from ID or --up-to ID")
    if asked.to is not None and asked.out is None:
        raise click.UsageError("--to is the format of -o OUT; give -o too (- is standard output)")
    if asked.out is not None and asked.html_file is not None and asked.html_file.absolute() == asked.out.absolute():
        raise click.UsageError("-o and --html name the same file")


def check_places(asked: Asked, file: Path) -> None:
    """Refuse to write over anything, before there is a result to write. Raises InputError."""
    if asked.out is not None and not asked.dry_run:
        check_place(asked.out, file, "-o", replace=asked.force)
    if asked.html_file is not None:
        check_place(asked.html_file, file, "--html", replace=True)


class Job:
    """One conversation of one file, and what is to become of it."""

    def __init__(self, asked: Asked, transcript: Transcript, chosen: Conversation, path: Path) -> None:
        self.asked = asked
        self.transcript = transcript
        self.chosen = chosen
        self.path = path

    @property
    def is_session(self) -> bool:
        """Whether it is a session file of ours, and a file."""
        return self.transcript.format == session_format.NAME and self.path.is_file()

    @property
    def is_in_place(self) -> bool:
        """Whether the folds go into the session itself."""
        return self.is_session and self.asked.out is None and not self.asked.dry_run

    def in_place(self, judged: Judged) -> CompactReport:
        """Append the folds to the session, which is locked from before they are made until they are in it (K3)."""
        with writing(self.path) as session:
            driver = Driver(session.log, setup=self._setup(judged), keeper=session, clock=lambda: last_time(session.log))
            plan = self._plan(driver)
            if plan.success and plan.changes_anything:
                driver.apply(plan)
        done = plan.success and plan.changes_anything
        return self._report(plan, written(self.transcript.path, "fivefold", plan, in_place=True) if done else None)

    def aside(self, judged: Judged) -> CompactReport:
        """Write the result elsewhere, or nowhere."""
        log, asked = self.chosen.log, self.asked
        plan = self._plan(Driver(log, setup=self._setup(judged), clock=lambda: last_time(log)))
        output: Output | None = None
        if asked.out is not None and not asked.dry_run and plan.success:
            to = asked.to or "fivefold"
            file = self.path if self.path.is_file() else None
            Result(self.transcript, self.chosen, plan.state.log, plan.state.view, file).write(asked.out, to, force=asked.force)
            output = written(str(asked.out), to, plan)
        return self._report(plan, output)

    def _setup(self, judged: Judged) -> Setup:
        """The summary names where all of it can be read, but in a session of its own, which holds it all."""
        kept = self.is_in_place or self.asked.to in (None, "fivefold") or not self.path.is_file()
        log, transcript = self.chosen.log, "" if kept else str(self.path.resolve())
        policy = policy_of(self.asked, log, setup_of(log, judged).model)
        return setup_of(log, judged, policy=policy, overhead=self.asked.overhead, transcript=transcript)

    def _plan(self, driver: Driver) -> Plan:
        plan = self._tried(driver)
        return plan if last_time(plan.base.log) else untimed(plan)

    def _tried(self, driver: Driver) -> Plan:
        asked, instructions = self.asked, self.asked.instructions
        if asked.pivot is not None:
            pivot = entry_id(self.chosen.log, asked.pivot, self.transcript.path)
            return driver.preview(pivot=pivot, direction=asked.direction, instructions=instructions)
        match asked.level:
            case "snip" | "micro":
                return driver.preview(level=asked.level)
            case _ if asked.keep is not None:
                return self._keeping(driver, asked.keep)
            case "auto":
                return driver.preview(instructions=instructions)
            case _:
                return driver.fit()

    def _keeping(self, driver: Driver, tokens: int) -> Plan:
        """With the newest tokens verbatim: a summary stands for what comes before them. The cheap levels leave them alone anyway
        (``policy_of``)."""
        cheap = driver.fit() if self.asked.level is None else None
        if cheap is not None and not (cheap.success and cheap.summary):
            return cheap
        log, most = self.chosen.log, target_of(driver.state)
        pivot = newest(log, tokens, driver.state.setup.model)[0].id
        plan = driver.preview(pivot=pivot, direction="up_to", instructions=self.asked.instructions)
        passed = [] if cheap is None else [row for row in cheap.levels if not row.applied]
        if plan.success and plan.after > most:
            why = f"with the newest {tokens:,} tokens verbatim it would still hold {plan.after:,}, over {most:,}: keep less"
            made = [msgspec.structs.replace(row, applied=False, folds=(), why=why) for row in plan.levels]
            return plan._replace(state=plan.base, levels=(*passed, *made), success=False, why=why)
        return plan._replace(levels=(*passed, *plan.levels))

    def _report(self, plan: Plan, output: Output | None) -> CompactReport:
        return report_of(plan, self.transcript.path, output, notes=list(self._notes(plan, output)))

    def _notes(self, plan: Plan, output: Output | None) -> Iterator[str]:
        asked, window = self.asked, plan.base.setup.window
        if asked.instructions:
            yield "the instructions had no effect: the structural summariser, which uses no model, takes none"
        wanted = asked.threshold.get("threshold_tokens")
        if isinstance(wanted, int) and wanted > window.auto:
            yield f"--threshold can only lower the threshold, which is {window.auto:,} in this window"
        bad = self.transcript.bad_lines
        if bad:
            yield f"lines of {self.transcript.path} that could not be read: {len(bad)}, the first is {bad[0].line}: {bad[0].why}"
        others = len(self.transcript.conversations) - 1
        if output is not None and not output.in_place and others:
            yield f"{output.path} holds this conversation only; {others} more of {self.transcript.path} are not in it"
        for event in plan.events:
            if event.get("event") in ("note", "summary_note"):
                yield str(event.get("text", ""))


def policy_of(asked: Asked, log: Log, model: Model) -> Policy:
    """The policy that file, environment and options make, each over the one before (P1). Raises PolicyError."""
    values: dict[str, JSON] = {"window": asked.threshold}
    if asked.keep is not None:
        results = sum(isinstance(block, ToolResult) for entry in newest(log, asked.keep, model) for block in entry.blocks)
        values["micro"] = {"keep_results": max(MicroPolicy().keep_results, results)}
    return settings.load(file=asked.policy, code=values, conversation=log.head.id).policy


def newest(log: Log, tokens: int, model: Model) -> list[Entry]:
    """The newest rounds of a view that hold so many tokens together, unpadded."""
    entries = list(view_of(log).entries())
    found, held = rounds(entries), 0
    for start, stop, _ in reversed(found):
        held += sum(measure_entry(entry, model.generation, model.image_cap).tokens for entry in entries[start:stop])
        if held >= tokens:
            return entries[start:]
    return entries


def untimed(plan: Plan) -> Plan:
    """The same plan where nothing in the conversation says when it was said: then what is appended does not either."""

    def bare(record: Record) -> Record:
        if isinstance(record, Fold):
            changes = [_bare_span(change) if isinstance(change, HideSpan) else change for change in record.changes]
            return msgspec.structs.replace(record, time=None, changes=tuple(changes))
        return msgspec.structs.replace(record, time=None)

    state = plan.base.with_records(*map(bare, plan.records))
    return plan._replace(state=plan.state._replace(log=state.log, view=state.view, ledger=state.ledger))


def _bare_span(change: HideSpan) -> HideSpan:
    brought = [tuple(msgspec.structs.replace(entry, time=None) for entry in entries) for entries in (change.stand_ins, change.tail)]
    return msgspec.structs.replace(change, stand_ins=brought[0], tail=brought[1])


def written(path: str, to: Target, plan: Plan, *, in_place: bool = False) -> Output:
    """Where the result is, and what brings everything back."""
    undo = ""
    if plan.folds and to == "fivefold" and path != STDOUT:
        first = f" --fold {shlex.quote(plan.folds[0].id)}" if len(plan.folds) > 1 else ""
        undo = f"fivefold undo {shlex.quote(path)}{first}"
    return Output(path, to, in_place, undo)


def tell(report: CompactReport, asked: Asked, job: Job, as_json: bool) -> None:
    """Print the report."""
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))
        return
    show(report, Screen(), Told(job.is_session, asked.dry_run, asked.out is not None))
    if asked.html_file is not None:
        click.echo(f"page written: {asked.html_file}")
