"""Where a command writes its result: a file, standard output, a pipe. Nothing is written over unasked, never the input itself."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from ..core.log import Log
from ..core.transcript import Conversation, OtherRecord, Transcript
from ..core.view import View
from ..errors import InputError
from ..formats.write import render
from ..store.jsonl import place_new, sync_folder, write_session, write_temporary

Target: TypeAlias = Literal["fivefold", "anthropic", "openai", "claude-code"]
TARGETS: tuple[Target, ...] = get_args(Target)
STDOUT = "-"


def is_same_file(out: Path, file: Path | None) -> bool:
    """Whether a path to be written leads to the input."""
    return file is not None and out.exists() and file.exists() and out.samefile(file)


def check_place(out: Path, file: Path | None, option: str, *, replace: bool) -> None:
    """Refuse a path before any work is done. Raises InputError where it is the input itself, or a file is there already that
    ``replace`` does not allow to be replaced."""
    if str(out) == STDOUT:
        return
    if is_same_file(out, file):
        raise InputError(f"{option} would write over the session itself; name another file", path=str(out))
    if not out.parent.is_dir() or out.is_dir():
        raise InputError("is a folder" if out.is_dir() else f"there is no folder {out.parent}", path=str(out))
    if out.is_file() and not replace:
        raise InputError("there is a file already; --force replaces it", path=str(out))


class Result:
    """What is to be written: a conversation's log and view, and the file that it was read from."""

    def __init__(self, transcript: Transcript, chosen: Conversation, log: Log, view: View, file: Path | None) -> None:
        self.log = log
        self.view = view
        self._whole = chosen is transcript.main
        """Records beside the conversations, and the file's own lines, belong to the main one."""
        self._transcript = transcript
        self._file = file

    def write(self, out: Path, to: Target, *, force: bool) -> None:
        """Write it: whole or not at all, for its owner only (0600). Raises InputError where that can't be done or a file is there."""
        special = out.exists() and not out.is_file()
        try:
            if str(out) == STDOUT:
                sys.stdout.buffer.write(self._bytes(to))
                sys.stdout.buffer.flush()
            elif special:
                out.write_bytes(self._bytes(to))
            elif to == "fivefold" and (force or not out.exists()):
                write_session(out, self.log, self._other())
            else:
                _place(self._bytes(to), Path(os.path.realpath(out)), force=force)
        except FileExistsError:
            raise InputError("there is a file already; --force replaces it", path=str(out)) from None
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror}", path=str(out)) from None

    def _other(self) -> tuple[OtherRecord, ...]:
        return self._transcript.other if self._whole else ()

    def _bytes(self, to: Target) -> bytes:
        if to != "fivefold":
            return render(self.log.head, self.log, self.view, to, source_lines=self._source_lines())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "session.jsonl"
            write_session(path, self.log, self._other())
            return path.read_bytes()

    def _source_lines(self) -> list[bytes] | None:
        """The lines of a Claude Code session; those of a pipe are gone, and the log's own records stand for them."""
        if self._file is None or self._transcript.format != "claude-code" or not self._whole or not self._file.is_file():
            return None
        with self._file.open("rb") as file:
            return list(file)


def _place(data: bytes, path: Path, *, force: bool) -> None:
    temporary = write_temporary(path, [data])
    if not force:
        place_new(temporary, path)
        return
    try:
        os.replace(temporary, path)
    except OSError:
        temporary.unlink()
        raise
    sync_folder(path.parent)
