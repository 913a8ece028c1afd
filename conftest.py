"""The Python examples of the documents are tests: each fenced ``python`` block of README and docs/ is run, in order."""

from pathlib import Path

from sybil import Sybil
from sybil.parsers.markdown import PythonCodeBlockParser

import fivefold

pytest_collect_file = Sybil(parsers=[PythonCodeBlockParser()], patterns=["README.md", "README.zh-CN.md", "docs/*.md"]).pytest()


def pytest_report_header() -> str:
    """Which fivefold is tested: the installed wheel, or the source where PYTHONPATH names it."""
    return f"fivefold: {Path(fivefold.__file__).parent}"
