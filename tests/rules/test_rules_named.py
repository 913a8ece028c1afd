"""Each rule of sections 1 to 11 and 14 is held by a test that names it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SECTIONS = {"T": 8, "W": 10, "A": 12, "M": 10, "E": 7, "R": 10, "S": 10, "L": 14, "C": 6, "X": 9, "I": 10, "P": 6}
"""Sections by their letter, with the number of their last rule."""
RULES = [f"{letter}{number}" for letter, last in SECTIONS.items() for number in range(1, last + 1)]


def named_in(path: Path) -> Iterator[str]:
    """What the names of a module's tests and their docstrings say, in capitals."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"), str(path))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield from re.findall(r"(?<=_)[a-z]\d{1,2}(?=_|$)", node.name)
            yield from re.findall(r"\b[A-Z]\d{1,2}\b", ast.get_docstring(node) or "")


@pytest.fixture(scope="module")
def named() -> frozenset[str]:
    return frozenset(name.upper() for path in sorted(TESTS.rglob("test_*.py")) if path != Path(__file__) for name in named_in(path))


@pytest.mark.parametrize("rule", RULES)
def test_a_rule_is_named_by_a_test(rule: str, named: frozenset[str]) -> None:
    assert rule in named


def test_a_name_or_a_docstring_names_a_rule_and_part_of_a_word_does_not(tmp_path: Path) -> None:
    path = tmp_path / "test_x.py"
    path.write_text('def test_a6_i10_x():\n    """(W4) And W44x."""\ndef test_about_a7b():\n    pass\ndef helper_a8():\n    pass\n')
    assert sorted(named_in(path)) == ["W4", "a6", "i10"]
