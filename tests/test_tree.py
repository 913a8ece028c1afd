"""The tree as a whole: what no file may hold, the error tree, the pins, the wheel, and documents that name what exists."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import grimp
import pytest

import fivefold
from fivefold import errors

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fivefold"
RECORDED = ("tests/data", "examples")
"""Sessions recorded elsewhere: the paths in them are of those machines."""

MADE = {"build", "dist", "__pycache__", "node_modules"}
"""Directories that tools make; so is each one whose name starts with a dot, except .ci."""

# Spelled so that no pattern matches its own text.
NOWHERE = {
    "a package registry": (
        r"p[y]pi\.org|python[h]osted\.org|n[p]mjs\.(?:org|com)|yarn[p]kg\.com|deb(?:ian)?\.d[e]bian\.org|crates\.[i]o|repo1?\.m[a]ven"
    ),
    "a registry option": r"--(?:extra-)?index[-]url|--trusted[-]host|\bPIP_INDEX[_]URL",
    "a private key or token": r"-----BEGIN [A-Z ]*PRIVATE [K]EY|\bsk-ant-(?:api|admin)\d\d-[\w-]{20}|\bghp_[A-Za-z0-9]{36}",
}
NOT_WRITTEN_BY_US = {
    "a path of one machine": r"/(?:work|root|Users)/[\w.]|/home/(?!user\b|me\b|you\b|dev\b|alice\b|bob\b)\w|/tmp[/]v\b",
    "a merge mark": r"(?m)^(?:<{7}|>{7}) ",
    "unfinished work": r"\b(?:TO[D]O|FIX[M]E|X[X]X)\b|raise Not[I]mplementedError|pytest\.(?:mark\.)?ski[p]",
}


def files() -> Iterator[Path]:
    """The files of the tree that are, or would be, committed."""
    for directory, subdirectories, names in os.walk(ROOT):
        subdirectories[:] = [
            d for d in subdirectories if d not in MADE and (not d.startswith(".") or d == ".ci") and not d.endswith(".egg-info")
        ]
        yield from (Path(directory, name) for name in names)


def is_recorded(path: Path) -> bool:
    return path.relative_to(ROOT).as_posix().startswith(RECORDED)


def found_in(path: Path, patterns: dict[str, str]) -> list[str]:
    """Where a file holds what it may not. Bytes that are no UTF-8 are passed over."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return [
        f"{path.relative_to(ROOT)}:{text.count(chr(10), 0, match.start()) + 1}: {what}: {match[0]}"
        for what, pattern in patterns.items()
        for match in re.finditer(pattern, text)
    ]


def documents() -> list[Path]:
    """The pages for users."""
    return [ROOT / "README.md", ROOT / "README.zh-CN.md", *sorted((ROOT / "docs").rglob("*.md"))]


def fenced(text: str) -> str:
    """What stands in fenced blocks and in code spans of a page."""
    return "\n".join(re.findall(r"(?ms)^```\w*\n(.*?)^```", text) + re.findall(r"`([^`\n]+)`", text))


def commands(group: click.Group, *, above: str = "") -> dict[str, click.Command]:
    """Each command by what is typed for it, without the program's name; groups are walked, not listed."""
    found: dict[str, click.Command] = {}
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            found |= commands(command, above=f"{above}{name} ")
        elif not command.hidden:
            found[above + name] = command
    return found


@pytest.fixture(scope="module")
def app() -> click.Group:
    """The command line."""
    from fivefold.cli import app

    return app


# --- what no file holds


def test_no_file_names_a_registry_or_a_key() -> None:
    found = [fault for path in files() for fault in found_in(path, NOWHERE)]
    assert found == []


def test_no_file_of_ours_names_a_machine_or_leaves_work_undone() -> None:
    checked = [path for path in files() if not is_recorded(path)]
    assert Path(__file__) in checked
    assert [fault for path in checked for fault in found_in(path, NOT_WRITTEN_BY_US)] == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("see https://pypi" + ".org/simple", "a package registry"),
        ("pip install --index-" + "url x", "a registry option"),
        ("cd /ro" + "ot/x", "a path of one machine"),
        ("cd /wo" + "rk/main", "a path of one machine"),
        ("# TO" + "DO: later", "unfinished work"),
        ("@pytest.mark.sk" + "ip", "unfinished work"),
    ],
)
def test_the_patterns_find_what_they_are_for(text: str, what: str) -> None:
    assert re.search((NOWHERE | NOT_WRITTEN_BY_US)[what], text)


# --- the error tree


def tree_of_docstring(text: str) -> dict[str, str | None]:
    """Class → parent, as drawn: each level is indented by four columns more."""
    parents: dict[str, str | None] = {}
    above: list[str] = []
    for line in inspect.cleandoc(text).splitlines():
        if match := re.match(r"([ │├└─]*)([A-Z]\w+Error)\b", line):
            depth = len(match[1]) // 4
            above[depth:] = [match[2]]
            parents[match[2]] = above[depth - 1] if depth else None
    return parents


def test_the_docstring_of_errors_draws_the_tree_as_it_is() -> None:
    classes = [c for _, c in inspect.getmembers(errors, inspect.isclass) if c.__module__ == errors.__name__]
    true = {c.__name__: None if c is errors.FivefoldError else c.__bases__[0].__name__ for c in classes}
    assert tree_of_docstring(errors.__doc__ or "") == true
    assert all(issubclass(c, errors.FivefoldError) and c.__doc__ for c in classes)


# --- packaging


def project() -> dict[str, list[str]]:
    """The direct dependencies by extra; those of the base install under an empty name."""
    with (ROOT / "pyproject.toml").open("rb") as file:
        table = tomllib.load(file)["project"]
    return {"": table["dependencies"], **table["optional-dependencies"]}


def pins(name: str) -> dict[str, str]:
    """Package → version of a constraints file. Any line that is no ``name==version`` fails."""
    lines = (ROOT / "constraints" / f"{name}.txt").read_text(encoding="utf-8").splitlines()
    matches = [re.fullmatch(r"([A-Za-z0-9._-]+)==([A-Za-z0-9.!+_-]+)", line) for line in lines]
    assert all(matches), lines
    return {normal(match[1]): match[2] for match in matches if match}


def normal(requirement: str) -> str:
    """The normalised name of a package or of a requirement."""
    return re.sub(r"[-_.]+", "-", re.split(r"[\s<>=!~;\[]", requirement)[0]).lower()


def test_each_dependency_is_pinned() -> None:
    base, dev = pins("base"), pins("dev")
    assert {normal(r) for r in project()[""]} <= base.keys()
    assert {normal(r) for extra in project().values() for r in extra} - {"fivefold"} <= dev.keys()
    assert base.items() <= dev.items()


def test_each_dependency_of_the_base_install_is_used() -> None:
    graph = grimp.build_graph("fivefold", include_external_packages=True, cache_dir=None)
    assert [r for r in project()[""] if normal(r) not in graph.modules] == []


def test_the_installed_package_holds_each_file_of_the_source() -> None:
    installed = Path(fivefold.__file__).parent
    missing = [
        path.relative_to(SOURCE).as_posix()
        for path in SOURCE.rglob("*")
        if path.is_file() and not any(part.startswith(".") or part == "__pycache__" for part in path.relative_to(SOURCE).parts)
        if not (installed / path.relative_to(SOURCE)).is_file()
    ]
    assert missing == []
    assert (installed / "py.typed").is_file()


def test_the_version_installed_is_the_one_of_the_tree() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        assert importlib.metadata.version("fivefold") == tomllib.load(file)["project"]["version"]


# --- documents


def test_each_fragment_of_the_changelog_has_a_type_and_says_something() -> None:
    fragments = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    wrong = [
        path.name
        for path in fragments
        if not re.fullmatch(r"\+?[\w-]+\.(added|changed|fixed|removed)\.md", path.name) or not path.read_text().strip()
    ]
    assert wrong == []


def test_z1_the_documents_name_each_command(app: click.Group) -> None:
    text = "\n".join(path.read_text(encoding="utf-8") for path in documents())
    assert commands(app)
    assert [name for name in commands(app) if f"fivefold {name}" not in text] == []


def test_z1_the_documents_name_only_commands_that_exist(app: click.Group) -> None:
    known = set(app.commands)
    named = {
        match
        for path in documents()
        for match in re.findall(r"(?m)(?:^|[\s$|])(?<!from )fivefold ([a-z][a-z-]+)", fenced(path.read_text(encoding="utf-8")))
    }
    assert named - known == set()


@pytest.mark.parametrize(
    "path", [*documents(), *(ROOT / name for name in ("ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"))], ids=lambda p: p.name
)
def test_links_to_files_of_the_tree_lead_somewhere(path: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#|mailto:)([^)#\s]+)", path.read_text(encoding="utf-8"))
    assert [link for link in links if not (path.parent / link).exists()] == []


def test_paths_that_architecture_and_contributing_name_exist() -> None:
    text = "\n".join((ROOT / name).read_text(encoding="utf-8") for name in ("ARCHITECTURE.md", "CONTRIBUTING.md"))
    paths = re.findall(r"`((?:src|tests|constraints|changelog\.d|docs|examples|\.ci)/[\w./-]*)`", text)
    named = {path for path in paths if not re.search(r"\b[A-Z]{4}", path)}  # NAME and SLUG stand for what you choose
    assert named
    assert [path for path in sorted(named) if not (ROOT / path).exists()] == []
