"""Do the tests fail when the code is wrong? Mutants of core and summarize, generated and hand-picked, each run against the tests.

    python scripts/mutate.py [--generated 60] [--seed 1] [--jobs 2] [--only TEXT] [--list]

A mutant is one small change in a copy of the source: a comparison turned, a condition negated, a number moved by one, an operator
swapped, a returned value dropped. Which places are taken is drawn by the seed, the same for the same source. The hand-picked ones
(``scripts/mutants.toml``) each switch one rule off. A mutant that no test notices has survived: it is listed with its place, and is
to be explained in ``benchmarks/mutants.md`` or caught by a better test. Exit code 1 where a hand-picked one survives.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
PARTS = ("fivefold/core", "fivefold/summarize")
TESTS = ("tests/core", "tests/rules", "tests/summarize", "tests/cases", "tests/machines")
SECONDS = 600
"""A mutant that takes longer hangs, which the tests would notice."""
MACHINE_STEPS = "3000"


class Mutant(NamedTuple):
    """One change: a file under src, the offset and the text there, and what stands there instead."""

    name: str
    path: str
    start: int
    old: str
    new: str


class Outcome(NamedTuple):
    """What the tests said. ``by``: the first test that failed; empty where none did."""

    mutant: Mutant
    killed: bool
    by: str


SWAPS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: (" is ", " is not "),
    ast.IsNot: (" is not ", " is "),
    ast.In: (" in ", " not in "),
    ast.NotIn: (" not in ", " in "),
    ast.And: (" and ", " or "),
    ast.Or: (" or ", " and "),
    ast.Add: (" + ", " - "),
    ast.Sub: (" - ", " + "),
}


def generated(count: int, seed: int) -> list[Mutant]:
    """So many mutants, spread over the files by their size."""
    found = [mutant for path in _files() for mutant in _of_file(path)]
    random.Random(seed).shuffle(found)
    return sorted(found[:count])


def _files() -> list[Path]:
    return sorted(path for part in PARTS for path in (SOURCE / part).rglob("*.py") if path.name not in ("__init__.py", "presets.py"))


def _of_file(path: Path) -> Iterator[Mutant]:
    text = path.read_text(encoding="utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line.encode()))
    data = text.encode()

    def at(line: int, column: int) -> int:
        return len(data[: starts[line - 1] + column].decode())

    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            for start, old, new in _changes(node, text, at):
                name = path.relative_to(SOURCE).as_posix()
                yield Mutant(f"{name}:{node.lineno} {old.strip()} -> {new.strip()}", name, start, old, new)  # type: ignore[attr-defined]


def _changes(node: ast.AST, text: str, at: object) -> Iterator[tuple[int, str, str]]:
    assert callable(at)
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield from _between(
            text,
            at(node.left.end_lineno, node.left.end_col_offset),
            at(node.comparators[0].lineno, node.comparators[0].col_offset),
            SWAPS.get(type(node.ops[0])),
        )
    elif isinstance(node, ast.BoolOp):
        first, second = node.values[0], node.values[1]
        yield from _between(
            text, at(first.end_lineno, first.end_col_offset), at(second.lineno, second.col_offset), SWAPS.get(type(node.op))
        )
    elif isinstance(node, ast.BinOp):
        yield from _between(
            text, at(node.left.end_lineno, node.left.end_col_offset), at(node.right.lineno, node.right.col_offset), SWAPS.get(type(node.op))
        )
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        start, stop = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
        yield start, text[start:stop], str(node.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        start, stop = at(node.lineno, node.col_offset), at(node.end_lineno, node.end_col_offset)
        yield start, text[start:stop], str(not node.value)
    elif isinstance(node, ast.If | ast.While | ast.IfExp):
        start, stop = at(node.test.lineno, node.test.col_offset), at(node.test.end_lineno, node.test.end_col_offset)
        yield start, text[start:stop], f"not ({text[start:stop]})"


def _between(text: str, start: int, stop: int, swap: tuple[str, str] | None) -> Iterator[tuple[int, str, str]]:
    """The operator between two operands, where it stands there as it is usually written."""
    if swap is None:
        return
    place = text.find(swap[0], start, stop)
    if place >= 0:
        yield place, swap[0], swap[1]


def picked() -> list[Mutant]:
    """The hand-picked ones. Raises ValueError for one whose place is gone or is not the only one."""
    mutants = []
    for row in tomllib.loads((ROOT / "scripts" / "mutants.toml").read_text(encoding="utf-8"))["mutant"]:
        text = (SOURCE / row["file"]).read_text(encoding="utf-8")
        if text.count(row["old"]) != 1:
            raise ValueError(f"{row['rule']}: {row['old']!r} stands {text.count(row['old'])} times in {row['file']}")
        mutants.append(Mutant(f"{row['rule']}: {row['what']}", row["file"], text.index(row["old"]), row["old"], row["new"]))
    return mutants


def run(mutant: Mutant) -> Outcome:
    """The tests against one mutant, up to the first that fails."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "src"
        shutil.copytree(SOURCE, copy, ignore=shutil.ignore_patterns("__pycache__"))
        path = copy / mutant.path
        text = path.read_text(encoding="utf-8")
        assert text[mutant.start : mutant.start + len(mutant.old)] == mutant.old
        path.write_text(text[: mutant.start] + mutant.new + text[mutant.start + len(mutant.old) :], encoding="utf-8")
        environment = dict(os.environ)
        environment |= {"PYTHONPATH": f"{copy}{os.pathsep}{ROOT}", "FIVEFOLD_MACHINE_STEPS": MACHINE_STEPS, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--no-header", "-rf", *_tests_for(mutant)]
        try:
            done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False)
        except subprocess.TimeoutExpired:
            return Outcome(mutant, True, "it hangs")
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if done.returncode and not failed:  # no test has failed: the tests could not be run, which says nothing about the mutant
        raise RuntimeError(f"{mutant.name}: pytest ended with {done.returncode}: {(done.stdout + done.stderr)[-500:]}")
    return Outcome(mutant, bool(failed), failed[0].split(" - ")[0] if failed else "")


def _tests_for(mutant: Mutant) -> list[str]:
    """The tests, those of the mutant's own module first."""
    stem = Path(mutant.path).stem
    own = sorted(str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob(f"test_{stem}.py"))
    return [*own, *(test for test in TESTS if (ROOT / test).exists())]


def main() -> int:
    """Run them and list what survived."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--generated", type=int, default=60)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    arguments.add_argument("--only", default="", help="only mutants whose name holds this")
    arguments.add_argument("--list", action="store_true", help="name them and do nothing")
    given = arguments.parse_args()
    chosen = picked()
    mutants = [mutant for mutant in chosen + generated(given.generated, given.seed) if given.only in mutant.name]
    if given.list:
        print("\n".join(mutant.name for mutant in mutants))
        return 0
    with ThreadPoolExecutor(given.jobs) as pool:
        outcomes = []
        for outcome in pool.map(run, mutants):
            print("killed  " if outcome.killed else "SURVIVED", outcome.mutant.name, "|", outcome.by, flush=True)
            outcomes.append(outcome)
    survived = [outcome.mutant for outcome in outcomes if not outcome.killed]
    print(f"\n{len(outcomes) - len(survived)} of {len(outcomes)} killed")
    return 1 if any(mutant in chosen for mutant in survived) else 0


if __name__ == "__main__":
    sys.exit(main())
