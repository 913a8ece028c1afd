"""Bytes that are cut off a session file are kept in a file beside it (K1)."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import BinaryIO

from .jsonl import sync_folder


def set_aside(file: BinaryIO, start: int, path: Path, *, sync: bool) -> Path:
    """Copy the bytes of a session file from ``start`` on into ``<path>.torn-1``, ``-2`` … (mode 0600), the first name that is
    free; give the name back. Raises OSError."""
    file.seek(start)
    number = 0
    while True:
        number += 1
        aside = Path(f"{path}.torn-{number}")
        try:
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o600)
        except FileExistsError:
            continue
        try:
            with open(fd, "wb") as target:
                shutil.copyfileobj(file, target)
                target.flush()
                if sync:
                    os.fsync(target.fileno())
        except BaseException:
            aside.unlink()
            raise
        if sync:
            sync_folder(path.parent)
        return aside
