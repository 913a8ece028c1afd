"""Which file a tool call is about."""

from __future__ import annotations

from .messages import ServerToolUse, ToolUse

_PATH_KEYS = (
    "file_path", "path", "filePath", "filename", "file", "notebook_path", "absolute_path", "target_file", "abs_path"
)  # fmt: skip
_MOST_CHARS = 500


def file_of(call: ToolUse | ServerToolUse) -> str | None:
    """The file that a call names under one of the usual keys of its input; None where it names none."""
    if not isinstance(call.input, dict):
        return None
    for key in _PATH_KEYS:
        value = call.input.get(key)
        if isinstance(value, str) and 0 < len(value) < _MOST_CHARS and "\n" not in value:
            return value
    return None
