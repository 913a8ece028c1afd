"""The public API is pinned: names, signatures, fields. A change of tests/data/api.txt is a change for users."""

from __future__ import annotations

import inspect
import os
from pathlib import Path

import msgspec

import fivefold

PINNED = Path(__file__).parent / "data" / "api.txt"


def plain(signature: inspect.Signature) -> str:
    """A signature by names and kinds; whether a parameter has a default, not which (it may be an object)."""
    bare = [p.replace(annotation=p.empty, default="…" if p.default is not p.empty else p.empty) for p in signature.parameters.values()]
    return str(inspect.Signature(bare)).replace("'…'", "…")


def shape(name: str) -> list[str]:
    """A public name as lines: a function's signature, a class's public fields and methods."""
    value = getattr(fivefold, name)
    if not inspect.isclass(value):
        return [f"{name}{plain(inspect.signature(value))}"]
    if issubclass(value, BaseException):
        return [f"class {name}({', '.join(base.__name__ for base in value.__bases__)})"]
    lines = [f"class {name}{plain(inspect.signature(value))}"]
    for member in sorted(vars(value)):
        thing = inspect.getattr_static(value, member)
        if not member.startswith("_") and isinstance(thing, staticmethod | classmethod | property) | inspect.isfunction(thing):
            lines.append(f"    {member}" + (plain(inspect.signature(getattr(value, member))) if not isinstance(thing, property) else ""))
    return lines


def test_public_api_is_as_pinned() -> None:
    lines = [line for name in fivefold.__all__ for line in shape(name)]
    now = "\n".join(lines) + "\n"
    if os.environ.get("FIVEFOLD_PIN"):
        PINNED.write_text(now, encoding="utf-8")
    assert now == PINNED.read_text(encoding="utf-8"), "run with FIVEFOLD_PIN=1 if the change is meant, and say so in the changelog"


def test_every_public_name_has_a_home_and_a_docstring() -> None:
    assert sorted(fivefold._HOME_OF) == fivefold.__all__
    for name in fivefold.__all__:
        assert (inspect.getdoc(getattr(fivefold, name)) or "").strip(), name
    assert set(fivefold.__all__) <= set(dir(fivefold))


def test_an_unknown_name_is_an_attribute_error() -> None:
    try:
        fivefold.no_such_name  # noqa: B018
    except AttributeError as error:
        assert "no_such_name" in str(error)
    else:
        raise AssertionError("no error")


def test_schemas_are_as_documented(root: Path) -> None:
    """Z2: the JSON schemas in docs/schema are those of the code."""
    from fivefold.report.model import Report

    documented = root / "docs" / "schema" / "inspect-1.json"
    now = msgspec.json.format(msgspec.json.encode(msgspec.json.schema(Report)), indent=2).decode() + "\n"
    if os.environ.get("FIVEFOLD_PIN"):
        documented.parent.mkdir(parents=True, exist_ok=True)
        documented.write_text(now, encoding="utf-8")
    assert now == documented.read_text(encoding="utf-8")
