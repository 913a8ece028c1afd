"""``fivefold inspect``: what fills the window."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from ..errors import InputError
from ..providers.models import read_overrides
from ..report.build import Options
from ..report.build import inspect as build_report
from .options import input_options, load
from .screen import Screen, printable_lines
from .terminal import show


@click.command()
@input_options
@click.option("--model", metavar="NAME", help="The model to judge by, instead of the one that the file names.")
@click.option("--window", type=click.IntRange(min=1), metavar="TOKENS", help="Context window, instead of the model's.")
@click.option("--max-output", type=click.IntRange(min=1), metavar="TOKENS", help="Maximum output, instead of the model's.")
@click.option("--models", "models_file", type=click.Path(path_type=Path), metavar="FILE", help="Model data of your own, TOML or JSON.")
@click.option("--html", "html_file", type=click.Path(path_type=Path), metavar="OUT", help="Write a self-contained page.")
def inspect(
    file: Path | None,
    use_latest: bool,
    conversation: str | None,
    strict: bool,
    as_json: bool,
    model: str | None,
    window: int | None,
    max_output: int | None,
    models_file: Path | None,
    html_file: Path | None,
) -> None:
    """Show what fills the window of a recorded session: by kind, tool, file and round, how far it is from each threshold,
    where it was compacted before, and what a provider would refuse in it."""
    transcript = load(file, use_latest, strict)
    overrides = read_overrides(models_file) if models_file else {}
    report, unknown_model = build_report(transcript, Options(model, window, max_output, conversation, overrides))
    if html_file is not None:
        if file is not None and html_file.exists() and file.exists() and html_file.samefile(file):
            raise InputError("--html would write over the session itself; name another file", path=str(html_file))
        from ..report.html import write_page

        write_page(report, html_file)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2))
    else:
        show(report, Screen())
        if html_file is not None:
            click.echo(f"\npage written: {html_file}")
    if unknown_model:
        click.echo(printable_lines(f"error: {report.file}: {report.note}"), err=True)
        raise click.exceptions.Exit(2)
    if report.note and as_json:
        click.echo(f"note: {report.file}: {report.note}", err=True)
    if report.violations:
        raise click.exceptions.Exit(1)
