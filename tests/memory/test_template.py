"""The sections of a session memory, and templates and prompts of a user's own (S4)."""

from __future__ import annotations

from pathlib import Path

import pytest

from fivefold.errors import InputError
from fivefold.memory.template import DEFAULT, PROMPT, checked_prompt, filled, template_of, text_of


def test_s4_the_sections_are_fixed_and_each_has_a_limit() -> None:
    assert [section.name for section in DEFAULT.sections] == [
        "title",
        "current state",
        "task",
        "files",
        "commands",
        "errors and corrections",
        "decisions and learnings",
        "open items",
        "log",
    ]
    assert all(0 < section.tokens <= 2_000 and section.kind != "own" for section in DEFAULT.sections)


def test_s4_a_template_of_a_users_own_names_kind_limit_and_what_belongs_into_a_section() -> None:
    made = template_of(
        "## Stand der Dinge <!-- state, 1,200 tokens -->\n\nWas gerade läuft.\nUnd was folgt.\n## Preise <!-- 300 tokens -->\n## Log\n"
    )
    assert [tuple(section) for section in made.sections] == [
        ("## Stand der Dinge", "state", 1_200, "Was gerade läuft. Und was folgt."),
        ("## Preise", "own", 300, ""),
        ("## Log", "log", 1_000, ""),
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "my.md: the template has no heading"),
        (" \n", "my.md: the template has no heading"),
        ("Notes:\n# Task", "my.md:1: the template begins with text"),
        ("# Task\n# Log\n#  task", "my.md:3: the heading 'task' stands in line 1 already"),
        ("# A <!-- task -->\n# B <!-- task -->", "my.md:2: the kind 'task' stands in line 1 already"),
        ("# Task <!-- 800 token, bigg -->", "my.md:1: 'bigg' is neither a limit"),
        ("# Task <!-- 0 tokens -->", "my.md:1: the limit has to be at least 1 token"),
        ("# **", "my.md:1: the heading has no name"),
        ("x" * 100_001, "my.md: the template has 100,001 characters"),
        ("\n".join(f"# {n}" for n in range(41)), "my.md: the template has 41 sections"),
    ],
)
def test_s4_a_template_that_cannot_be_used_is_refused_by_its_place(text: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        template_of(text, "my.md")
    assert str(error.value).startswith(said)


@pytest.mark.parametrize(
    ("prompt", "said"),
    [
        ("Write $file", "p.txt: the prompt lacks $sections"),
        ("$sections", "p.txt: the prompt lacks $file"),
        ("$file $sections $model", "p.txt: the prompt names $model"),
        ("$file $sections for 5$", "p.txt: the prompt has a `$`"),
    ],
)
def test_s4_a_prompt_that_cannot_be_filled_in_is_refused(prompt: str, said: str) -> None:
    with pytest.raises(InputError) as error:
        checked_prompt(prompt, "p.txt")
    assert str(error.value).startswith(said)


def test_s4_what_the_file_holds_is_put_into_the_prompt_as_it_is() -> None:
    template = template_of("# Task <!-- 100 tokens -->\nWhat was asked.")
    said = filled("<$file> $sections costs $$5", template, "pays $5 for $sections", {"# Task": 60})
    assert said == "<pays $5 for $sections> # Task\nWhat was asked. (at most 60 words) costs $5"
    assert checked_prompt(PROMPT) == PROMPT


def test_h4_a_template_is_read_from_a_file_with_a_bound_and_a_missing_one_is_named(tmp_path: Path) -> None:
    path = tmp_path / "template.md"
    path.write_bytes("\ufeff# Task\r\n".encode())
    assert template_of(*text_of(path)).sections[0].heading == "# Task"
    path.write_bytes(b"#" * 500_000)
    with pytest.raises(InputError, match=r"template\.md: has over 400,000 bytes"):
        text_of(path)
    with pytest.raises(InputError, match=r"gone\.md: cannot be read"):
        text_of(tmp_path / "gone.md")
