"""Runs the command line as a user does: in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def fivefold(
    *arguments: str | Path, home: Path | None = None, cwd: Path | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """``fivefold ARGUMENTS`` with a fixed width and no colour; ``home``: the home folder it sees; ``env``: variables beside."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("CLAUDE_", "CODEX_", "FIVEFOLD_", "XDG_"))}
    environment |= {
        "COLUMNS": "100",
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONIOENCODING": "utf-8",
    }
    environment |= env or {}
    if home is not None:
        environment["HOME"] = str(home)
    return subprocess.run(
        [sys.executable, "-m", "fivefold", *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        env=environment,
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        timeout=120,
        check=False,
    )
