"""Files that are read again behind a compaction, from inside allowed roots only (C2, H3, H4).

The paths come from tool calls of a model, and whoever can write into a root can put a link there. So a path is resolved first, links
and ``..`` included, and must then lie in a root; what is opened is what was resolved: on the way from the root no link is
followed any more, so one that is put there meanwhile is refused and not read through. Only regular files are opened.
"""

from __future__ import annotations

import codecs
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from .core.events import FilesRead, RestoredFile
from .errors import InputError

MOST_NAME_CHARS = 300
"""So much of a path is told where it is skipped."""
_STEP = getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_PATH", os.O_RDONLY)
"""Flags to walk through a directory, for which it need not be readable where the system can tell the two apart."""
_READ = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
"""Flags to open the file; a FIFO that has just taken its place does not keep us waiting for a writer."""
_KINDS = {
    stat.S_IFDIR: "a directory",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFSOCK: "a socket",
    stat.S_IFLNK: "a link that leads nowhere",
}


class FileReader:
    """Reads text files inside ``roots``, of each at most ``most_bytes``. Relative paths are taken against the first root; without a
    root nothing is read."""

    def __init__(self, roots: Sequence[Path], *, most_bytes: int = 1_000_000) -> None:
        self._roots = tuple(Path(os.path.realpath(root)) for root in roots)
        self._most = most_bytes

    def __call__(self, paths: Sequence[str]) -> FilesRead:
        """The answer to ``ReadFiles``: see ``read``."""
        files, skipped = self.read(paths)
        return FilesRead(files=files, skipped=skipped)

    def read(self, paths: Sequence[str]) -> tuple[tuple[RestoredFile, ...], tuple[str, ...]]:
        """The files in the order asked for, under the paths that were asked for, and what was skipped with the reason. Never raises.

        Of a file that is too large the start is read; both the text and the second list say so."""
        files: list[RestoredFile] = []
        skipped: list[str] = []
        for path in paths:
            name = path[:MOST_NAME_CHARS].encode("utf-8", "replace").decode()
            try:
                data, size = self._bytes_of(path)
                text = _text_of(data[: self._most], whole=len(data) <= self._most)
            except InputError as error:
                skipped.append(f"{name}: {error.message}")
            except FileNotFoundError:
                skipped.append(f"{name}: it is not there any more")
            except (OSError, ValueError) as error:  # ValueError: a NUL or half a surrogate pair in the path
                skipped.append(f"{name}: it can't be read ({_reason(error)})")
            else:
                if len(data) > self._most:
                    note = f"only the first {self._most:,} of {max(size, len(data)):,} bytes were read"
                    text += f"\n[… {note}]"
                    skipped.append(f"{name}: {note}")
                files.append(RestoredFile(path, text))
        return tuple(files), tuple(skipped)

    def _bytes_of(self, path: str) -> tuple[bytes, int]:
        """At most one byte more than the bound, and the file's size. Raises InputError, OSError, ValueError."""
        if not self._roots:
            raise InputError("no root is allowed to be read from")
        path.encode()  # a name that is no text can be opened, and could then be neither stored nor sent
        real = Path(os.path.realpath(self._roots[0] / path))
        root = next((root for root in self._roots if real.is_relative_to(root)), None)
        if root is None:
            raise InputError("it lies outside the allowed roots")
        with open(_open(root, real.relative_to(root).parts), "rb") as file:
            found = os.fstat(file.fileno())
            _only_regular(found)
            return file.read(self._most + 1), found.st_size


def _open(root: Path, parts: Sequence[str]) -> int:
    """Open a file under a root without following a link on the way. Raises OSError, InputError for what is no regular file."""
    if not parts:
        raise InputError("it is a directory")
    if os.open not in os.supports_dir_fd:
        path = root.joinpath(*parts)
        _only_regular(os.lstat(path))
        return os.open(path, _READ)
    at = os.open(root, _STEP & ~getattr(os, "O_NOFOLLOW", 0))
    try:
        for part in parts[:-1]:
            further = os.open(part, _STEP, dir_fd=at)
            os.close(at)
            at = further
        _only_regular(os.stat(parts[-1], dir_fd=at, follow_symlinks=False))  # before it is opened: opening a device can do something
        return os.open(parts[-1], _READ, dir_fd=at)
    finally:
        os.close(at)


def _only_regular(found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise InputError(f"it is {_KINDS.get(stat.S_IFMT(found.st_mode), 'no regular file')}")


def _text_of(data: bytes, *, whole: bool) -> str:
    """The text; what is cut off may end inside a character. Raises InputError for what is no text."""
    if b"\0" in data:
        raise InputError("it is binary (it holds a NUL byte)")
    try:
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data, final=whole)
    except UnicodeDecodeError as error:
        raise InputError(f"it is binary, or text that is not UTF-8 (byte 0x{data[error.start]:02x} at {error.start})") from None


def _reason(error: OSError | ValueError) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or str(error)[:200]
