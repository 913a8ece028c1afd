"""The file of a session memory: Markdown, and in comments what code has to know of it (S3, H3, H4).

The first line names the last entry that the file covers, the last line has a checksum of each line that code or a model wrote.
Both are in the file itself, so text and covered id are replaced together: a crash leaves the old file or the new one. Readers of
Markdown do not show comments. What a person has changed is what the checksums do not know (``merge``).
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

import msgspec

from ..errors import InputError, StoreError, WriteError
from ..store.jsonl import sync_folder, write_temporary
from ..store.paths import session_path

SUFFIX = ".memory.md"
MAX_BYTES = 1_000_000
"""A larger file is refused as a whole: the sections of a memory have some 10,000 tokens together."""
MAX_ID_CHARS = 1_000
MAX_REMOVED = 500
"""So many lines that a person has taken out are remembered, the last ones."""
CHECK_BYTES = 4
_OURS = "<!-- fivefold "
_COVERS = re.compile(r'<!-- fivefold session memory, covers up to ("(?:[^"\\]|\\.)*") -->')
_LINES = re.compile(r"<!-- fivefold lines((?: [0-9a-f]+)*); removed((?: [0-9a-f]+)*) -->")
BINARY: int = getattr(os, "O_BINARY", 0)
NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)
"""A pipe in place of the file is refused, and not waited for."""


class Content(NamedTuple):
    """What a file says. ``text`` is without comments of ours, line ends as in POSIX."""

    text: str = ""
    covered: str | None = None
    """Last entry covered; None: not known, as after a comment that somebody took out (S8's resumed case)."""
    ours: tuple[str, ...] = ()
    """Checksums of the lines that code or a model wrote; where they are lost all lines count as a person's."""
    removed: tuple[str, ...] = ()
    """Checksums of lines that a person took out: they are not written again."""


def memory_path(folder: str | Path, id: str) -> Path:
    """The memory of conversation ``id`` in ``folder``. Raises StoreError for an id that is no plain file name, and for a file that,
    links followed, lies outside the folder (H3)."""
    session_path(folder, id)
    path = Path(folder) / f"{id}{SUFFIX}"
    try:
        inside = path.resolve().is_relative_to(Path(folder).resolve())
    except (OSError, RuntimeError) as error:
        raise StoreError(f"{path}: cannot be followed to a file: {error}") from None
    if not inside:
        raise StoreError(f"{path}: the link leads out of {folder}; memories stay inside their folder")
    return path


def checksum(line: str, section: str) -> str:
    """What a line of a section is known by; white space does not count, so that an editor may change it."""
    return hashlib.blake2b(" ".join([section, *line.split()]).encode("utf-8", "replace"), digest_size=CHECK_BYTES).hexdigest()


def encode(content: Content) -> bytes:
    """The bytes of a file."""
    lines = [content.text.strip("\n")]
    if content.covered is not None:
        id = msgspec.json.encode(content.covered).decode().replace(">", r"\u003e").replace("--", r"-\u002d")
        lines.insert(0, f"<!-- fivefold session memory, covers up to {id} -->")
    if content.ours or content.removed:
        known = (" ".join(["", *found]) for found in (dict.fromkeys(content.ours), dict.fromkeys(content.removed[-MAX_REMOVED:])))
        lines += ["", "<!-- fivefold lines{}; removed{} -->".format(*known)]
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


def decode(data: bytes) -> Content:
    """What the bytes of a file say, however a person or an editor has changed them."""
    lines = data.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\ufffd").split("\n")
    comments = [line.strip() for line in lines if line.lstrip().startswith(_OURS)]
    text = "\n".join(line.rstrip() for line in lines if not line.lstrip().startswith(_OURS)).strip("\n")
    covers = [found[1] for comment in comments if (found := _COVERS.fullmatch(comment))]
    known = [found for comment in comments if (found := _LINES.fullmatch(comment))]
    ours, removed = (tuple(known[-1][1].split()), tuple(known[-1][2].split())) if known else ((), ())
    return Content(text, _id(covers[0]) if covers else None, ours, removed[-MAX_REMOVED:])


def _id(quoted: str) -> str | None:
    try:
        id = msgspec.json.decode(quoted, type=str)
    except (msgspec.DecodeError, UnicodeError):
        return None
    return id if 0 < len(id) <= MAX_ID_CHARS else None


class MemoryFile:
    """A file that may be there. ``path``: links are followed once, now."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(os.path.realpath(path))

    def read(self) -> Content | None:
        """What it says; None where there is no file. Raises InputError where it is too large, no plain file, or cannot be read."""
        try:
            data = self._bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise InputError(f"the session memory cannot be read: {error.strerror}", path=str(self.path)) from None
        return decode(data)

    def _bytes(self) -> bytes:
        number = os.open(self.path, os.O_RDONLY | BINARY | NONBLOCK)
        with open(number, "rb") as file:
            if not stat.S_ISREG(os.fstat(number).st_mode):
                raise InputError("the session memory is no plain file; move it away", path=str(self.path))
            data = file.read(MAX_BYTES + 1)
        if len(data) > MAX_BYTES:
            raise InputError(f"the session memory is over {MAX_BYTES:,} bytes; shorten it, or move it away", path=str(self.path))
        return data

    def write(self, content: Content) -> None:
        """Replace the file, whole or not at all, mode 0600: written, synced, renamed, and the folder synced. Raises WriteError,
        and StoreError for what would be too large to be read again; the old file is then what it was."""
        data = encode(content)
        if len(data) > MAX_BYTES:
            raise StoreError(f"{self.path}: the session memory would have {len(data):,} bytes, over the limit of {MAX_BYTES:,}")
        try:
            temporary = write_temporary(self.path, [data])
            try:
                os.replace(temporary, self.path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
            sync_folder(self.path.parent)
        except OSError as error:
            raise WriteError(f"{self.path}: the session memory cannot be written: {error.strerror}") from None

    def sweep(self) -> None:
        """Remove what a crash in the middle of a write left beside the file; only for the one that holds its lock."""
        try:
            for left in self.path.parent.glob(f".{glob_safe(self.path.name[:100])}.*.tmp"):
                left.unlink(missing_ok=True)
        except OSError:
            return  # they are in nobody's way


def glob_safe(name: str) -> str:
    """A name in which no letter stands for others."""
    return re.sub(r"([*?[])", r"[\1]", name)
