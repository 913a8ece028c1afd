"""The command line (Z1, Z2): thin commands over the library.

Exit codes: 0 done; 1 the conversation cannot be made to fit or has violations; 2 usage or input errors.
"""

from __future__ import annotations

import io
import os
import signal
import sys

import click

from ..errors import FivefoldError
from .compact import compact
from .inspect import inspect
from .pin import pin
from .recall import recall
from .screen import printable_lines
from .simulate import simulate
from .undo import undo


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="fivefold", prog_name="fivefold")
def app() -> None:
    """Keep an LLM agent's conversation inside its context window.

    Every command takes --json. Exit codes: 0 done, 1 the conversation has violations or cannot be made to fit, 2 usage or
    input errors.
    """


app.add_command(compact)
app.add_command(inspect)
app.add_command(pin)
app.add_command(recall)
app.add_command(simulate)
app.add_command(undo)


def main() -> None:
    """Run the command line; errors of ours become one line and exit code 2."""
    if hasattr(signal, "SIGPIPE"):
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # a reader that has seen enough ends us silently, as in any pipe
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a terminal without Unicode is no reason to fail
    try:
        code = app.main(prog_name="fivefold", standalone_mode=False)  # the code of click's Exit, else what the command returns: None
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except click.Abort:
        click.echo("aborted", err=True)
        sys.exit(130)
    except FivefoldError as error:
        click.echo(printable_lines(f"error: {error}"), err=True)
        sys.exit(2)
    except OSError as error:
        click.echo(f"error: the output cannot be written: {error.strerror}", err=True)
        os._exit(2)  # the ordinary way out would try to write it once more
