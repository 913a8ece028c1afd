"""What a tool call is for and which file it is about, told by the tool's name and the keys of its input.

The rule for names. A name is taken apart at ``__``, ``.``, ``:`` and ``/``: its last part is the tool, what stands before it is whose tool
it is. The tool is looked up in lower case without ``_``, ``-`` and blanks, so that ``read_file``, ``ReadFile`` and ``read-file`` are one.
Names of the harness's own parts (``functions.shell``, ``container.exec``) count as if they stood alone. Of a foreign server (``mcp__…``)
only names that say what they are about are taken: ``read_file`` is, ``read`` or ``create`` may be about letters or tickets.
"""

from __future__ import annotations

import hashlib
import json
import re

from .messages import JSON, Object, ServerToolUse, ToolUse

_PATH_KEYS = (
    "file_path", "path", "filePath", "filename", "file", "notebook_path", "absolute_path", "target_file", "abs_path"
)  # fmt: skip
_MANY_KEYS = ("files", "paths", "file_paths")
_MOST_CHARS = 500
_MOST_NAME_CHARS = 200

_NAMES: dict[str, str] = {
    "read": """
        read cat open view goto scroll_down scroll_up read_file read_files read_many_files file_read view_file view_line_range view_image
        show_file open_file get_file_contents read_text_file read_multiple_files read_media_file notebook_read read_notebook
        list_code_definition_names""",
    "shell": """
        bash sh zsh shell terminal powershell pwsh cmd exec execute python ipython exec_command write_stdin unified_exec local_shell
        local_shell_call shell_command shell_exec execute_command execute_bash run_command run_commands run_shell run_shell_command run_bash
        run_terminal_cmd run_terminal_command run_in_terminal get_terminal_output bash_output bash_session bash_code_execution read_bash
        write_bash stop_bash list_bash kill_bash kill_shell read_powershell write_powershell stop_powershell list_powershell execute_python
        execute_python_code execute_ipython_cell python_repl python_exec code_execution execute_code run_code code_interpreter""",
    "grep": """
        grep rg ripgrep grep_search grep_files grep_file search_files search_file search_dir search_file_content search_in_files search_code
        code_search codebase_search semantic_search file_grep""",
    "glob": """
        glob find ls list find_file find_files find_path find_by_name file_search file_glob_search glob_file_search glob_search glob_files
        list_dir list_directory list_files list_file directory_tree list_directory_with_sizes""",
    "web_search": """
        web_search search_web google_web_search google_search brave_web_search brave_search duckduckgo_search duckduckgo_results_json
        tavily_search tavily_search_results_json internet_search web_search_preview codesearch""",
    "web_fetch": """
        fetch web_fetch fetch_url url_fetch fetch_webpage fetch_web_page fetch_web_content fetch_url_content read_url read_url_content
        read_web_page web_reader visit_webpage scrape_url""",
    "edit": """
        edit editor insert replace patch multi_edit apply_patch apply_diff edit_file edit_files edit_existing_file edit_notebook_file
        file_edit file_editor text_editor str_replace str_replace_editor str_replace_file str_replace_based_edit_tool
        text_editor_code_execution notebook_edit replace_in_file replace_file_content multi_replace_file_content replace_string_in_file
        multi_replace_string_in_file search_replace search_and_replace single_find_and_replace find_and_replace insert_content
        insert_edit_into_file insert_text undo_edit delete_file""",
    "write": """
        write create write_file write_files file_write write_to_file create_file create_new_file create_text_file new_file save_file""",
}  # fmt: skip
"""Kind → names of its tools at Claude Code, Codex, OpenCode, Gemini CLI, Cline, Roo, pi, Copilot CLI, OpenHands, SWE-agent, mini-swe-agent,
Cursor, Windsurf, VS Code, Kimi, Qwen, Zed, Continue, LangChain, Inspect and the reference MCP servers. A listing of a directory counts as
glob, a program that is run as shell."""

_SAY_LITTLE = """
    read cat open view goto scroll_down scroll_up shell terminal cmd exec execute python find list fetch edit editor insert replace patch
    write create"""
"""Names that mean this only as a harness's own tools."""

_HOLD_WORK = """
    todo_write todo_read todo_list todo write_todos read_todos manage_todo_list update_todo update_todo_list update_plan plan planner
    exit_plan_mode enter_plan_mode plan_mode_respond planning_file_editor task_create task_update task_get task_list task_output task_stop
    task_tracker task_completion task agent new_task sub_agent subagent run_subagent spawn_agent send_input resume_agent wait_agent
    close_agent list_agents delegate delegate_task dispatch_agent send_message ask_user ask_user_question ask_question
    ask_followup_question request_user_input question skill use_skill activate_skill save_memory memory think finish attempt_completion
    submit complete report_intent"""
"""Tools whose results are the work itself: lists of what is to be done, plans, answers of other agents and of people."""

_QUESTIONS = """
    ask_user ask_user_question ask_followup_question request_user_input question exit_plan_mode plan_mode_respond"""
"""Tools that put something to a person, whose words are the result."""

_APART = re.compile(r"__|[.:/]")
_NOT_IN_KEY = re.compile(r"[\s_-]+")
_OWN_PARTS = frozenset(
    {"functions", "function", "tools", "tool", "defaultapi", "container", "developer", "builtin", "builtins", "native", "computer", "local"}
)
_STATELESS = frozenset({"read", "grep", "glob", "web_search", "web_fetch"})
_SAID_BESIDE = frozenset({"description", "explanation", "justification", "security_risk", "toolSummary", "toolAction", "reason"})
"""Keys of an input that tell people why, and change nothing about the result."""


def _key(name: str) -> str:
    return _NOT_IN_KEY.sub("", name.lower())


_PURPOSES: dict[str, str] = {_key(name): kind for kind, names in _NAMES.items() for name in names.split()}
_OWN_ONLY = frozenset(_key(name) for name in _SAY_LITTLE.split())
_WORK = frozenset(_key(name) for name in _HOLD_WORK.split())
_ASKING = frozenset(_key(name) for name in _QUESTIONS.split())


def purpose_of(name: str) -> str | None:
    """The kind of a tool whose results may be cleared (``policy.COMPACTABLE``) by its name, see the rule above; None for all others:
    todo lists, plans, sub-agents, and what is not known (M1)."""
    key, foreign = _taken_apart(name)
    return None if foreign and key in _OWN_ONLY else _PURPOSES.get(key)


def holds_work(name: str) -> bool:
    """Whether a tool's results are the work itself, which no level may lose (M1): todo lists, plans, answers of agents and of people."""
    return _taken_apart(name)[0] in _WORK


def asks_people(name: str) -> bool:
    """Whether a tool's result is what a person answered (C6). A foreign server's tool of such a name asks somebody else."""
    key, foreign = _taken_apart(name)
    return not foreign and key in _ASKING


def _taken_apart(name: str) -> tuple[str, bool]:
    """What to look a tool up by, and whether it is a foreign server's."""
    if len(name) > _MOST_NAME_CHARS:
        return "", True
    *owner, tool = [_key(part) for part in _APART.split(name.strip())]
    return tool, any(part and part not in _OWN_PARTS for part in owner)


def reads_whole(call: ToolUse) -> str | None:
    """What two calls share of which the later one's result makes the earlier one's superfluous (X3): the kind and the input, what is told
    beside it left out. None for all but reads, searches, listings and fetches that say themselves what they are about: a shell never
    gives the same twice for certain, and "scroll down" depends on what was before it."""
    given = call.input if isinstance(call.input, dict) else {}
    kind = purpose_of(call.name)
    if kind == "edit" and given.get("command") == "view":
        kind = "read"
    told: Object = {key: value for key, value in given.items() if value is not None and key not in _SAID_BESIDE}
    if kind not in _STATELESS or not told or (kind == "read" and not _names_files(call)):
        return None
    text = json.dumps(told, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return f"{kind}:{hashlib.blake2b(text.encode('utf-8', 'surrogatepass'), digest_size=16).hexdigest()}"


def _names_files(call: ToolUse) -> bool:
    given = call.input if isinstance(call.input, dict) else {}
    return file_of(call) is not None or any(_is_filled(given.get(key)) for key in _MANY_KEYS)


def _is_filled(value: JSON) -> bool:
    return isinstance(value, list) and bool(value)


def file_of(call: ToolUse | ServerToolUse) -> str | None:
    """The file that a call names under one of the usual keys of its input; None where it names none."""
    if not isinstance(call.input, dict):
        return None
    for key in _PATH_KEYS:
        value = call.input.get(key)
        if isinstance(value, str) and 0 < len(value) < _MOST_CHARS and "\n" not in value:
            return value
    return None
