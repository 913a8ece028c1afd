"""What the model saw of a Claude Code attachment line: recalled memory, changed files, hook output, queued prompts …

The file keeps the parts, not the sentences that the harness puts around them, so the text here is what was attached and
no more. Kinds of which nothing that was shown is recorded, or that only the person saw, give nothing.
"""

from __future__ import annotations

import msgspec

from ..core.messages import JSON, Block, Image, Object, Text, decode_content
from .source import loads

UNSEEN = frozenset(
    (
        "hook_system_message",
        "hook_cancelled",
        "hook_non_blocking_error",
        "command_permissions",
        "auto_mode",
        "plan_mode",
        "plan_mode_exit",
        "plan_mode_reentry",
    )
)
"""Kinds that show the model nothing, or only standing text that is not in the file."""
TEXT_KEYS = ("prompt", "snippet", "addedBlocks", "addedLines", "content", "text", "message", "newDate", "filename")
"""Where the text is, the first that holds some."""


def attachment_blocks(raw: msgspec.Raw) -> tuple[Block, ...]:
    """The blocks of an attachment, empty where it showed the model nothing."""
    try:
        data = loads(bytes(raw) or b"null")
    except ValueError:
        return ()
    if not isinstance(data, dict) or str(data.get("type")) in UNSEEN:
        return ()
    if data.get("type") == "queued_command" and isinstance(data.get("prompt"), list):
        return decode_content(data["prompt"])[0]
    if data.get("type") == "task_reminder":
        return _texts("\n".join(_task(item) for item in _list(data.get("content"))))
    image = _image(data.get("content"))
    if image is not None:
        return (image,)
    for key in TEXT_KEYS:
        text = _text(data.get(key))
        if text.strip():
            return _texts(text)
    return ()


def _texts(text: str) -> tuple[Block, ...]:
    return (Text(text),) if text.strip() else ()


def _list(value: JSON) -> list[JSON]:
    return value if isinstance(value, list) else []


def _task(item: JSON) -> str:
    """One line of a todo list."""
    if not isinstance(item, dict):
        return item if isinstance(item, str) else ""
    status, subject = item.get("status"), item.get("subject") or item.get("content")
    return f"{item.get('id', '-')} [{status}] {subject}"


def _text(value: JSON) -> str:
    """The text in a value: itself, its lines, or what its ``file`` or ``content`` holds (three steps down at most)."""
    for _ in range(4):
        if isinstance(value, str):
            return value
        if isinstance(value, list):
            return "\n".join(item for item in value if isinstance(item, str))
        if not isinstance(value, dict):
            return ""
        value = value.get("file") or value.get("content")
    return ""


def _image(content: JSON) -> Image | None:
    """A file attachment that is an image."""
    if not isinstance(content, dict) or content.get("type") != "image" or not isinstance(content.get("file"), dict):
        return None
    file = content["file"]
    data, kind = (file.get("base64"), file.get("type")) if isinstance(file, dict) else (None, None)
    if not isinstance(data, str) or not isinstance(kind, str):
        return None
    source: Object = {"type": "base64", "media_type": kind, "data": data}
    return Image(source)
