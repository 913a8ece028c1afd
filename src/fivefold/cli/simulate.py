"""``fivefold simulate``: the providers' APIs on this machine, to try an agent offline (U1)."""

from __future__ import annotations

import signal
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from ..errors import InputError, SimulatorError
from ..formats.registry import read_transcript
from .screen import Screen

if TYPE_CHECKING:
    from ..simulator.accounts import Journal
    from ..simulator.script import Speaker

SCHEMA = "fivefold.simulate/1"
KEPT = 100
"""Requests whose text is kept, so that it can run for days."""


class SimulateReport(msgspec.Struct, frozen=True, kw_only=True):
    """One line of output. ``event``: ``started``, with where it listens, or ``stopped``, with what was asked and what it would have
    cost; tokens are counted by a real tokenizer. ``problem``: what did not go as planned."""

    schema: str = SCHEMA
    event: str
    url: str
    requests: int = 0
    answered: int = 0
    refused: int = 0
    faults: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0
    problem: str | None = None


@click.command()
@click.option("--port", type=click.IntRange(0, 65_535), default=0, help="Port on 127.0.0.1; 0, the default, takes a free one.")
@click.option("--model", "models", metavar="NAME=WINDOW", multiple=True, help="A model's context window in tokens; may be repeated.")
@click.option("--script", type=click.Path(path_type=Path), help="Answer with the replies of this JSON file, in order.")
@click.option("--recorded", type=click.Path(path_type=Path), help="Answer as the model did in this transcript, by position.")
@click.option("--rounds", type=click.IntRange(0), help="Without a script: tool calls before an answer ends.  [default: 1]")
@click.option("--fault", "faults", metavar="FAULT", multiple=True, help="Such as overloaded@3, rate_limit%10, or a JSON object.")
@click.option("--seed", type=int, default=0, help="Of the faults that come by chance.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON with a versioned schema, one object a line.")
def simulate(
    port: int,
    models: tuple[str, ...],
    script: Path | None,
    recorded: Path | None,
    rounds: int | None,
    faults: tuple[str, ...],
    seed: int,
    as_json: bool,
) -> None:
    """Serve Anthropic's Messages API and OpenAI's Chat Completions and Responses on this machine, until interrupted.

    Point a client at the address that is printed; any API key is taken and none is kept. Requests are checked as the providers check
    them. What the model says comes from a script, a recorded transcript, or a rule: it calls the first tool it is given, then ends.

    Exit code 1: requests came that the script did not foresee, or steps were left.
    """
    if sum(given is not None for given in (script, recorded, rounds)) > 1:
        raise click.UsageError("give one of --script, --recorded and --rounds")
    try:
        from ..simulator import Faults, Simulator, Structural, read_faults, read_script
        from ..simulator import recorded as played_back
    except ImportError as error:
        raise click.ClickException(f"{error.name} is not installed: pip install 'fivefold[simulator]'") from error
    model: Speaker
    if script is not None:
        model = read_script(script)
    elif recorded is not None:
        model = played_back(read_transcript(recorded).main.log.entries())
    else:
        model = Structural(1 if rounds is None else rounds)
    plan = read_faults(faults)
    simulator = Simulator(model, windows=dict(map(_window, models)), faults=Faults(plan.plan, seed=seed), port=port, keep=KEPT)
    screen = Screen()
    simulator.start()
    try:
        started = SimulateReport(event="started", url=simulator.url)
        _tell(started, screen, as_json)
        _wait()
    finally:
        url = simulator.url
        simulator.stop()
    try:
        simulator.finish()
        problem = None
    except SimulatorError as error:
        problem = str(error)
    _tell(_stopped(url, simulator.journal, len(simulator.faults.log), problem), screen, as_json)
    if problem is not None:
        raise click.exceptions.Exit(1)


def _window(text: str) -> tuple[str, int]:
    name, mark, number = text.rpartition("=")
    if not mark or not name or not number.isdigit():
        raise InputError(f"--model wants NAME=WINDOW, such as claude-opus-5-5=8192, not {text!r}")
    return name, int(number)


def _wait() -> None:
    """Until the process is interrupted or asked to end."""
    ended = threading.Event()
    before = {number: signal.signal(number, lambda *_: ended.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not ended.wait(0.2):
            pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _stopped(url: str, journal: Journal, faults: int, problem: str | None) -> SimulateReport:
    records = journal.records
    return SimulateReport(
        event="stopped",
        url=url,
        requests=len(records),
        answered=len(journal.answered),
        refused=len(journal.refused),
        faults=faults,
        input_tokens=sum(record.input for record in records),
        cache_read_tokens=sum(record.read for record in records),
        cache_write_tokens=sum(record.written for record in records),
        output_tokens=sum(record.output for record in records),
        usd=round(journal.usd, 6),
        problem=problem,
    )


def _tell(report: SimulateReport, screen: Screen, as_json: bool) -> None:
    if as_json:
        click.echo(msgspec.json.encode(report))
    elif report.event == "started":
        screen.line(report.url, "title")
        screen.line(f"Anthropic's SDK: base_url={report.url!r} · OpenAI's: base_url={report.url + '/v1'!r} · Ctrl-C ends it")
    else:
        screen.line(f"{report.requests:,} requests: {report.answered:,} answered, {report.refused:,} refused, {report.faults:,} faults")
        cached = f"{report.cache_read_tokens:,} read from the cache, {report.cache_write_tokens:,} written"
        screen.line(f"{report.input_tokens:,} tokens in ({cached}), {report.output_tokens:,} out, {report.usd:.4f} USD", "soft")
        if report.problem is not None:
            screen.line(report.problem, "bad")
