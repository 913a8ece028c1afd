"""The Python examples of the documents are tests: each fenced ``python`` block of README and docs/ is run, in order."""

from pathlib import Path

from sybil import Document, Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser

import fivefold


class InOrder:
    """Runs a block behind all that stand before it in its document, whichever worker it falls to: they build on each other."""

    def __init__(self) -> None:
        self.python = PythonEvaluator()
        self.done: dict[Document, int] = {}

    def __call__(self, example: Example) -> None:
        for earlier in example.document.examples():
            if self.done.get(example.document, -1) < earlier.start <= example.start:
                self.python(earlier)
                self.done[example.document] = earlier.start


pytest_collect_file = Sybil(parsers=[CodeBlockParser("python", InOrder())], patterns=["README.md", "README.zh-CN.md", "docs/*.md"]).pytest()


def pytest_report_header() -> str:
    """Which fivefold is tested: the installed wheel, or the source where PYTHONPATH names it."""
    return f"fivefold: {Path(fivefold.__file__).parent}"
