"""A conversation written out by rule, and the command line run in this process."""

from __future__ import annotations

import gc
import json
from pathlib import Path
from typing import Any

from click.testing import CliRunner, Result

from fivefold.cli import app

REQUEST = "Go through the modules of src/engine and note every handler that drops its error. Keep the public names."
NEWEST = "Fix handle_case_07 first, and do not touch handle_case_08."
LONG = Path(__file__).parents[2] / "examples" / "long-session.jsonl"
"""A Claude Code session of 159,501 tokens in view."""


def messages(rounds: int = 30, chars: int = 2400) -> list[dict[str, Any]]:
    """A request, so many files read one by one, an answer, and what the person asks next; about 42,700 tokens as estimated."""
    made: list[dict[str, Any]] = [{"role": "user", "content": REQUEST}]
    for i in range(1, rounds + 1):
        path = f"src/engine/part_{i:02}.py"
        call = {"type": "tool_use", "id": f"toolu_{i:02}", "name": "Read", "input": {"file_path": path}}
        line = f"def handle_case_{i:02}(event): return Registry{i:02}.dispatch(event)  # see docs/cases/case_{i:02}.md\n"
        result = {"type": "tool_result", "tool_use_id": f"toolu_{i:02}", "content": line * (chars // len(line))}
        made += [
            {"role": "assistant", "content": [{"type": "text", "text": f"Next is {path}."}, call]},
            {"role": "user", "content": [result]},
        ]
    return [
        *made,
        {"role": "assistant", "content": "All parts are read; handle_case_07 drops its error."},
        {"role": "user", "content": NEWEST},
    ]


def messages_file(folder: Path, rounds: int = 30) -> Path:
    """The conversation as a list of messages in a file."""
    path = folder / "messages.json"
    path.write_text(json.dumps(messages(rounds)))
    return path


def inside(*arguments: str | Path) -> Result:
    """``fivefold ARGUMENTS`` in this process; an error of ours is in ``exception``, as ``main`` would meet it."""
    try:
        return CliRunner(env={"COLUMNS": "100", "NO_COLOR": "1"}).invoke(app, list(map(str, arguments)))
    finally:
        gc.enable()  # a command turns it off, since its process ends with it


def done(*arguments: str | Path, code: int = 0) -> str:
    """What it prints; fails where it ends with another code than ``code``."""
    result = inside(*arguments)
    assert result.exit_code == code, f"{result.output}\n{result.exception!r}"
    return result.stdout


def told(*arguments: str | Path, code: int = 0) -> dict[str, Any]:
    """What it prints with ``--json``."""
    found: dict[str, Any] = json.loads(done(*arguments, "--json", code=code))
    return found


def session(folder: Path, name: str = "session.jsonl", *options: str, rounds: int = 30) -> Path:
    """The conversation as a fivefold session, compacted as ``options`` say; by default not at all."""
    path = folder / name
    done("compact", messages_file(folder, rounds), "-o", path, *(options or ("--window", "200000")))
    return path
