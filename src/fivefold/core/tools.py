"""What tools are for, by their names in the common agents (M1), and which file a call is about."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

from .messages import JSON, ServerToolUse, ToolUse

Purpose: TypeAlias = Literal["read", "edit", "write", "shell", "grep", "glob", "web_search", "web_fetch", "other"]

_NAMES: dict[Purpose, tuple[str, ...]] = {
    "read": ("read", "read_file", "readfile", "view", "open", "open_file", "view_file", "cat", "notebookread", "read_many_files", "str_replace_editor.view", "fs_read"),
    "edit": ("edit", "multiedit", "edit_file", "str_replace", "str_replace_editor", "str_replace_based_edit_tool", "apply_patch", "replace", "replace_in_file", "notebookedit", "insert", "apply_diff", "file_editor", "patch", "editor"),
    "write": ("write", "write_file", "create", "create_file", "write_to_file", "fs_write", "save_file"),
    "shell": ("bash", "shell", "exec_command", "execute_bash", "run_command", "run_shell_command", "execute_command", "terminal", "local_shell", "bashoutput", "write_stdin", "run_in_terminal", "powershell", "execute", "python", "execute_ipython_cell", "bash_session"),
    "grep": ("grep", "search", "search_files", "search_file_content", "ripgrep", "rg", "search_dir", "search_file", "codebase_search", "grep_search", "search_code"),
    "glob": ("glob", "ls", "list", "list_dir", "list_directory", "list_files", "find_file", "find", "file_search", "tree"),
    "web_search": ("websearch", "web_search", "google_web_search", "search_web"),
    "web_fetch": ("webfetch", "web_fetch", "fetch", "fetch_url", "browse"),
}  # fmt: skip
_PURPOSES: dict[str, Purpose] = {name: purpose for purpose, names in _NAMES.items() for name in names}
_PATH_KEYS = ("file_path", "path", "filePath", "filename", "file", "notebook_path", "absolute_path", "target_file", "abs_path")


def purpose_of(name: str) -> Purpose:
    """What a tool is for, by its name, whatever the case; ``other`` for todo, plan, sub-agent and unknown tools."""
    plain = name.lower().removeprefix("functions.").removeprefix("default_api.").removeprefix("container.")
    return _PURPOSES.get(plain) or _PURPOSES.get(plain.replace("-", "_"), "other")


def file_of(call: ToolUse | ServerToolUse) -> str | None:
    """The file that a call names in one of the usual keys of its input; None where it names none."""
    return next(_paths(call.input), None)


def _paths(input: JSON) -> Iterator[str]:
    if isinstance(input, dict):
        for key in _PATH_KEYS:
            value = input.get(key)
            if isinstance(value, str) and value and "\n" not in value and len(value) < 500:
                yield value
