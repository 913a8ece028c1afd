"""The base install stays small: at most 15 MB, compiled files included, with all that it brings."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any


def test_base_install_is_at_most_15_mb(root: Path) -> None:
    spec = importlib.util.spec_from_file_location("footprint", root / "benchmarks" / "footprint.py")
    assert spec is not None and spec.loader is not None
    footprint: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(footprint)
    names = footprint.needed("fivefold", set())
    assert {"fivefold", "msgspec", "click"} <= names
    assert sum(map(footprint.megabytes, names)) <= footprint.GOAL_INSTALL_MB
