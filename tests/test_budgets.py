"""The size and shape of the source: short modules, short functions, no import cycle, a strict core.

Read with ``ast`` from the source tree, and with grimp from the installed package.
"""

from __future__ import annotations

import ast
import graphlib
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple, TypeAlias

import grimp
import pytest

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "fivefold"
MODULES = sorted(SOURCE.rglob("*.py"))
CORE = [path for path in MODULES if path.is_relative_to(SOURCE / "core")]

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_P90_FUNCTION_LINES = 30

MAY_IMPORT_LATE = ("cli", "integrations", "providers")
"""Where an import inside a function is right: a command's own dependencies, and packages that may not be installed."""

ANY_ALLOWED = {"core/messages.py"}
"""msgspec builds its codecs from annotations and knows no recursive alias, so JSON is an alias of Any at run time there, in
the branch that type checkers do not read. That one import and that branch are the only place."""

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef


class Function(NamedTuple):
    """A function of the source. ``lines`` counts from its ``def`` to its end, without the docstring."""

    place: str
    lines: int


def name(path: Path) -> str:
    """How a module is called in a message."""
    return path.relative_to(SOURCE).as_posix()


def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def function_nodes(tree: ast.AST) -> Iterator[FunctionNode]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def length(node: FunctionNode) -> int:
    """Lines of a function, its decorators and its docstring left out."""
    lines = (node.end_lineno or node.lineno) - node.lineno + 1
    match node.body[0]:
        case ast.Expr(value=ast.Constant(value=str())) as docstring:
            return lines - ((docstring.end_lineno or docstring.lineno) - docstring.lineno + 1)
    return lines


def functions() -> list[Function]:
    return [Function(f"{name(path)}:{node.lineno} {node.name}", length(node)) for path in MODULES for node in function_nodes(parse(path))]


def strict_core_faults(tree: ast.Module, *, alias_of_any: bool = False) -> list[str]:
    """Uses of Any, ``cast`` and ``getattr`` in a module. ``alias_of_any``: the exception stated at ANY_ALLOWED holds."""
    forgiven: set[ast.AST] = set()
    if alias_of_any:
        for node in ast.walk(tree):
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                forgiven.update(inner for statement in node.orelse for inner in ast.walk(statement))
    faults = []
    for node in ast.walk(tree):
        match node:
            case ast.Name(id="Any" | "cast" | "getattr" as found) | ast.Attribute(attr="Any" | "cast" as found) if node not in forgiven:
                faults.append(f"line {node.lineno}: {found}")
            case ast.ImportFrom(module="typing" | "typing_extensions", names=names):
                faults += [
                    f"line {node.lineno}: import of {a.name}" for a in names if a.name == "cast" or (a.name == "Any" and not alias_of_any)
                ]
            case ast.Constant(value=str(text)) if text.startswith("Any") and text.isidentifier():
                faults.append(f"line {node.lineno}: {text!r} as an annotation")
    return faults


def late_imports(tree: ast.Module) -> list[int]:
    """Lines of imports that stand inside a function."""
    return sorted({n.lineno for f in function_nodes(tree) for n in ast.walk(f) if isinstance(n, ast.Import | ast.ImportFrom)})


def import_cycle(graph: grimp.ImportGraph) -> list[str]:
    """The modules of one import cycle, in order; empty where there is none."""
    edges = {module: graph.find_modules_directly_imported_by(module) for module in graph.modules}
    try:
        graphlib.TopologicalSorter(edges).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


def test_no_module_is_longer_than_the_budget() -> None:
    assert MODULES
    long = {name(path): lines for path in MODULES if (lines := len(path.read_text(encoding="utf-8").splitlines())) > MAX_MODULE_LINES}
    assert not long, f"over {MAX_MODULE_LINES} lines: {long}"


def test_no_function_is_longer_than_the_budget() -> None:
    long = [function for function in functions() if function.lines > MAX_FUNCTION_LINES]
    assert not long, f"over {MAX_FUNCTION_LINES} lines: {long}"


def test_nine_of_ten_functions_are_short() -> None:
    found = functions()
    p90 = statistics.quantiles([function.lines for function in found], n=10)[-1]
    longest = sorted(found, key=lambda function: -function.lines)[: len(found) // 10]
    assert p90 <= MAX_P90_FUNCTION_LINES, f"p90 is {p90} lines; the longest tenth: {longest}"


def test_no_import_cycle() -> None:
    graph = grimp.build_graph("fivefold", exclude_type_checking_imports=True, cache_dir=None)
    assert import_cycle(graph) == []


def test_no_module_imports_the_package_root() -> None:
    graph = grimp.build_graph("fivefold", cache_dir=None)
    assert graph.find_modules_that_directly_import("fivefold") == set(), "import the sibling module, not the package root"


@pytest.mark.parametrize("path", MODULES, ids=name)
def test_imports_stand_at_the_top(path: Path) -> None:
    if path.relative_to(SOURCE).parts[0] not in MAY_IMPORT_LATE:
        assert late_imports(parse(path)) == []


@pytest.mark.parametrize("path", CORE, ids=name)
def test_core_is_typed_without_any_cast_or_getattr(path: Path) -> None:
    assert strict_core_faults(parse(path), alias_of_any=name(path) in ANY_ALLOWED) == []


# --- the measures themselves: each finds what it is for


def test_a_function_is_measured_without_its_docstring_and_decorators() -> None:
    tree = ast.parse('@cache\ndef f():\n    """One.\n\n    Two.\n    """\n    a = 1\n    return a\n')
    assert [length(node) for node in function_nodes(tree)] == [3]


def test_any_cast_and_getattr_are_found_wherever_they_stand() -> None:
    source = "from typing import Any, cast\nimport typing as t\nx: Any = cast(int, 1)\ny: t.Any\nz = getattr(x, 'a')\nw: 'Any'\n"
    found = strict_core_faults(ast.parse(source))
    assert [fault.split(":")[0] for fault in found] == ["line 1", "line 1", "line 3", "line 4", "line 6", "line 3", "line 5"]


def test_the_alias_of_any_is_forgiven_only_in_the_branch_that_checkers_do_not_read() -> None:
    source = "from typing import TYPE_CHECKING, Any\nif TYPE_CHECKING:\n    JSON = int\nelse:\n    JSON = Any\n"
    assert strict_core_faults(ast.parse(source), alias_of_any=True) == []
    assert strict_core_faults(ast.parse(source + "x: Any = 1\n"), alias_of_any=True) == ["line 6: Any"]


def test_a_late_import_is_found_in_a_method_too() -> None:
    assert late_imports(ast.parse("import a\nclass C:\n    def f(self):\n        from b import c\n")) == [4]


def test_an_import_cycle_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "ringed"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "one.py").write_text("from . import two\n")
    (package / "two.py").write_text("from .one import x\n")
    monkeypatch.syspath_prepend(tmp_path)
    graph = grimp.build_graph("ringed", cache_dir=None)
    assert set(import_cycle(graph)) == {"ringed.one", "ringed.two"}
