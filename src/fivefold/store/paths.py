"""From the id of a session to the path of its file (H3)."""

from __future__ import annotations

from pathlib import Path

from ..errors import StoreError

SUFFIX = ".jsonl"
MAX_ID_BYTES = 200
"""So that the file's name and that of its lock stay under the 255 bytes that file systems allow."""
SEPARATORS = frozenset("/\\:")
"""The colon parts drives and streams on Windows."""


def session_path(folder: str | Path, id: str) -> Path:
    """The file of session ``id`` in ``folder``. Raises StoreError for an id that is no plain file name, and for one whose
    file, links followed, lies outside the folder."""
    fault = _fault(id)
    if fault:
        raise StoreError(f"session id {id[:MAX_ID_BYTES]!r} {fault}; give one of letters, digits, '-' and '_'")
    path = Path(folder) / f"{id}{SUFFIX}"
    try:
        inside = path.resolve().is_relative_to(Path(folder).resolve())
    except (OSError, RuntimeError) as error:
        raise StoreError(f"{path}: cannot be followed to a file: {error}") from None
    if not inside:
        raise StoreError(f"{path}: the link leads out of {folder}; sessions stay inside their folder")
    return path


def _fault(id: str) -> str:
    if not id.strip(". "):
        return "is empty or only dots"
    if SEPARATORS & set(id):
        return "holds a path separator"
    if not id.isprintable():
        return "holds a control character or another that can't be printed"
    size = len(id.encode())
    return f"has {size} bytes, over the limit of {MAX_ID_BYTES}" if size > MAX_ID_BYTES else ""
