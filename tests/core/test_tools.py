"""M1: which tools' results may be cleared, by the names that agents give them; X3: which reads are the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.messages import JSON, ToolUse
from fivefold.core.policy import COMPACTABLE
from fivefold.core.tools import file_of, holds_work, purpose_of, reads_whole
from fivefold.formats.registry import read_transcript
from tests.build import DATA

AGENTS = {
    "Claude Code": {
        "Read": "read", "Bash": "shell", "PowerShell": "shell", "BashOutput": "shell", "Grep": "grep", "Glob": "glob", "LS": "glob",
        "WebSearch": "web_search", "WebFetch": "web_fetch", "Edit": "edit", "MultiEdit": "edit", "NotebookEdit": "edit", "Write": "write",
    },
    "Codex": {
        "shell": "shell", "local_shell": "shell", "container.exec": "shell", "exec_command": "shell", "write_stdin": "shell",
        "apply_patch": "edit", "read_file": "read", "list_dir": "glob", "grep_files": "grep", "view_image": "read",
        "web_search": "web_search",
    },
    "OpenCode": {
        "bash": "shell", "read": "read", "write": "write", "edit": "edit", "multiedit": "edit", "patch": "edit", "grep": "grep",
        "glob": "glob", "list": "glob", "webfetch": "web_fetch", "websearch": "web_search", "codesearch": "web_search",
    },
    "Gemini CLI": {
        "run_shell_command": "shell", "read_file": "read", "read_many_files": "read", "write_file": "write", "replace": "edit",
        "list_directory": "glob", "search_file_content": "grep", "google_web_search": "web_search", "web_fetch": "web_fetch",
    },
    "Cline, Roo": {
        "execute_command": "shell", "run_commands": "shell", "read_files": "read", "write_to_file": "write", "replace_in_file": "edit",
        "editor": "edit", "search_files": "grep", "list_files": "glob", "apply_diff": "edit", "insert_content": "edit",
        "codebase_search": "grep",
    },
    "pi": {"find": "glob", "ls": "glob"},
    "Copilot CLI": {"view": "read", "create": "write", "read_bash": "shell", "write_powershell": "shell"},
    "OpenHands": {
        "execute_bash": "shell", "terminal": "shell", "execute_ipython_cell": "shell", "str_replace_editor": "edit", "file_editor": "edit",
    },
    "SWE-agent": {"open": "read", "goto": "read", "insert": "edit", "find_file": "glob", "search_dir": "grep", "search_file": "grep"},
    "Inspect": {"python": "shell", "text_editor": "edit"},
    "LangChain": {"edit_file": "edit", "execute": "shell", "duckduckgo_search": "web_search", "tavily_search_results_json": "web_search"},
}  # fmt: skip

NEVER = (
    "TodoWrite", "todowrite", "update_plan", "ExitPlanMode", "exit_plan_mode", "Task", "Agent", "task", "TaskCreate", "TaskOutput",
    "new_task", "spawn_agent", "wait_agent", "AskUserQuestion", "ask_followup_question", "Skill", "think", "finish",
    "submit", "report_intent",
)  # fmt: skip

UNKNOWN = (
    "ToolSearch", "book_reservation", "browser_action", "get_weather", "search", "mcp__linear__create_issue", "mcp__browser__read_page",
    "", "__", "mcp__", "x" * 300, 'Task" >\n<parameter name="description',
)  # fmt: skip


@pytest.mark.parametrize(("agent", "name"), [(agent, name) for agent, names in AGENTS.items() for name in names])
def test_m1_each_agents_names_are_known_by_kind(agent: str, name: str) -> None:
    assert purpose_of(name) == AGENTS[agent][name]


def test_m1_a_kind_is_one_that_the_policy_can_name() -> None:
    kinds = {kind for names in AGENTS.values() for kind in names.values()}
    assert kinds == set(COMPACTABLE)


@pytest.mark.parametrize("name", NEVER)
def test_m1_todo_lists_plans_agents_and_peoples_answers_are_never_cleared(name: str) -> None:
    assert purpose_of(name) is None
    assert holds_work(name)


@pytest.mark.parametrize("name", UNKNOWN)
def test_m1_unknown_tools_are_never_cleared(name: str) -> None:
    assert purpose_of(name) is None
    assert not holds_work(name)


@pytest.mark.parametrize("name", ["read_file", "ReadFile", "readFile", "read-file", "READ_FILE", "Read File", " read_file "])
def test_m1_case_and_the_way_words_are_joined_make_no_difference(name: str) -> None:
    assert purpose_of(name) == "read"


def test_m1_a_harness_prefix_counts_for_nothing() -> None:
    assert [purpose_of(name) for name in ("functions.shell", "default_api:read_file", "developer__text_editor", "tools.read")] == [
        "shell", "read", "edit", "read",
    ]  # fmt: skip


def test_m1_a_foreign_servers_tool_has_to_say_what_it_is_about() -> None:
    clear = ("mcp__files__read_file", "mcp__files__readFile", "mcp__x__bash", "files/list_directory", "mcp__brave__brave_web_search")
    assert [purpose_of(name) for name in clear] == ["read", "read", "shell", "glob", "web_search"]
    may_be_anything = ("mcp__mail__read", "mcp__tickets__create", "mcp__notes__edit", "calendar.list", "crm/find", "mcp__x__fetch")
    assert [purpose_of(name) for name in may_be_anything] == [None] * 6


def test_m1_a_todo_list_of_a_foreign_server_is_one_too() -> None:
    assert holds_work("mcp__tasks__todo_write")


def test_m1_no_known_tool_holds_work() -> None:
    assert [name for names in AGENTS.values() for name in names if holds_work(name)] == []


def test_m1_nearly_all_calls_of_recorded_agents_are_known() -> None:
    names = [
        block.name
        for folder in ("claude_code", "codex", "opencode", "gemini_cli", "cline", "copilot_cli", "openhands", "pi", "swe_agent")
        for path in sorted((DATA / folder).glob("*"))
        for conversation in read_transcript(path).conversations
        for entry in conversation.log.entries()
        for block in entry.blocks
        if isinstance(block, ToolUse)
    ]
    known = [name for name in names if purpose_of(name) is not None or holds_work(name)]
    assert len(names) > 50
    assert len(known) >= 0.9 * len(names), sorted(set(names) - set(known))


# --- the same read twice


def read(name: str, **input: JSON) -> str | None:
    return reads_whole(ToolUse("t", name, input))


def test_x3_two_reads_of_one_thing_share_a_key_whatever_the_order_of_the_input() -> None:
    assert read("Read", file_path="a.py", limit=5) == read("Read", limit=5, file_path="a.py") is not None
    assert read("Read", file_path="a.py", offset=None) == read("read_file", file_path="a.py")


def test_x3_another_range_or_another_kind_is_another_read() -> None:
    keys = [
        read("Read", file_path="a.py"), read("Read", file_path="a.py", limit=5), read("Read", file_path="b.py"),
        read("Grep", pattern="a.py"), read("Glob", pattern="a.py"), read("WebFetch", url="a.py"), read("WebSearch", query="a.py"),
    ]  # fmt: skip
    assert None not in keys and len(set(keys)) == len(keys)


def test_x3_what_is_said_beside_a_read_does_not_make_it_another() -> None:
    assert read("Grep", pattern="x", description="look for x") == read("Grep", pattern="x", explanation="once more")


def test_x3_an_editors_view_is_a_read_and_its_edits_are_not() -> None:
    assert read("str_replace_editor", command="view", path="a.py") is not None
    assert read("str_replace_editor", command="create", path="a.py") is None


@pytest.mark.parametrize(
    ("name", "input"),
    [
        ("Bash", {"command": "cat a.py"}),  # may say something else each time
        ("Write", {"file_path": "a.py"}),
        ("Edit", {"file_path": "a.py"}),
        ("TodoRead", {"path": "a"}),
        ("scroll_down", {}),  # depends on what was open
        ("goto", {"line_number": 40}),
        ("open", {"line_number": 40}),
        ("ls", {}),
        ("Grep", {"description": "nothing else"}),
        ("read_files", {"files": []}),
    ],
)
def test_x3_what_may_give_something_else_each_time_is_never_superseded(name: str, input: dict[str, JSON]) -> None:
    assert reads_whole(ToolUse("t", name, input)) is None


def test_x3_several_files_at_once_are_one_read() -> None:
    files: JSON = [{"path": "a.py", "start_line": 1}]
    assert read("read_files", files=files) == read("read_files", files=files) is not None


@pytest.mark.parametrize("input", [None, "not json", ["a.py"], 7])
def test_x3_a_malformed_call_is_no_read(input: JSON) -> None:
    assert reads_whole(ToolUse("t", "Read", input)) is None


@given(st.text(), st.dictionaries(st.text(max_size=8), st.text() | st.integers() | st.none(), max_size=4))
def test_h4_any_name_and_input_is_taken(name: str, input: dict[str, JSON]) -> None:
    assert purpose_of(name) in (None, *COMPACTABLE)
    assert (reads_whole(ToolUse("t", name, input)) is None) or purpose_of(name) in COMPACTABLE


def test_a_key_has_one_size_and_takes_broken_characters() -> None:
    assert len(read("Read", file_path="a" * 400, note="\ud800" * 100_000) or "") == len(read("Read", file_path="a") or "")


def test_the_file_of_a_call_is_under_one_of_the_usual_keys() -> None:
    assert file_of(ToolUse("t", "Read", {"filePath": "a.py"})) == "a.py"
    assert file_of(ToolUse("t", "Read", {"path": "a\nb"})) is None
    assert file_of(ToolUse("t", "Read", "a.py")) is None
