"""``fivefold recall``: find and read back what was said, folded away or not (K4)."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import click
import msgspec

from ..core.entries import Entry
from ..core.messages import JSON, Thinking, ToolResult, ToolUse, encode_block, result_text
from ..core.messages import Text as TextBlock
from ..report.build import choose
from ..store.search import Hit, read_back
from ..store.search import recall as search
from .options import input_options, load
from .screen import printable, printable_lines

SCHEMA = "fivefold.recall/1"


@click.command()
@input_options
@click.argument("query", required=False, default="")
@click.option("--entry", "entry_id", metavar="ID", help="Read one entry back in full instead of searching.")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True, help="At most so many hits.")
def recall(
    file: Path | None, use_latest: bool, conversation: str | None, strict: bool, as_json: bool, query: str, entry_id: str | None, limit: int
) -> None:
    """Search everything that was said in a session, what is folded away included.

    QUERY is words, all of which an entry has to hold, in any order and case; "quoted words" stand together.
    """
    if use_latest and file is not None and not query:
        query, file = str(file), None  # with --latest the only argument is the query
    if not query.strip() and entry_id is None:
        raise click.UsageError("give a QUERY, or --entry ID")
    transcript = load(file, use_latest, strict)
    log = choose(transcript, conversation).log
    if entry_id is not None:
        _show_entry(read_back(log, entry_id), as_json)
        return
    hits = search(log, query, limit=limit)
    if as_json:
        click.echo(_json({"schema": SCHEMA, "file": transcript.path, "query": query, "hits": [hit._asdict() for hit in hits]}))
        return
    for hit in hits:
        click.echo(_line(hit))
    if not hits:
        click.echo("nothing found", err=True)


def _line(hit: Hit) -> str:
    when = "" if hit.time is None else f" · {datetime.fromtimestamp(hit.time, UTC):%Y-%m-%d %H:%M}"
    where = f"line {hit.line}" if hit.line else "stand-in"
    folded = f" · folded away by {hit.fold}" if hit.hidden else ""
    tool = f" · {hit.tool}" if hit.tool else ""
    return printable(f"{hit.id} · {where} · {hit.kind}{tool}{when}{folded}") + f"\n    {printable(hit.text)}"


def _show_entry(entry: Entry, as_json: bool) -> None:
    if as_json:
        blocks: list[JSON] = [encode_block(block) for block in entry.blocks]
        click.echo(
            _json(
                {"schema": SCHEMA, "entry": {"id": entry.id, "kind": entry.kind, "line": entry.line, "time": entry.time, "content": blocks}}
            )
        )
        return
    for block in entry.blocks:
        match block:
            case TextBlock(text) | Thinking(text):
                click.echo(printable_lines(text))
            case ToolUse(_, name, input):
                click.echo(printable_lines(f"{name} {_json(input)}"))
            case ToolResult():
                click.echo(printable_lines(result_text(block)))
            case _:
                click.echo(_json(encode_block(block)))


def _json(value: object) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
