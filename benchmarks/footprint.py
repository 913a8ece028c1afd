"""What fivefold costs before it does anything: processor time of the import, and the size of the base install.

    python benchmarks/footprint.py [RUNS]

The import runs in fresh interpreters, in turn with an empty one; the smallest of RUNS (default 15) each, and their difference. The
size is that of all files of the packages that fivefold needs, compiled ones included, as installed in this environment.
"""

from __future__ import annotations

import importlib.metadata
import re
import resource
import subprocess
import sys
from pathlib import Path

GOAL_IMPORT_MS = 80
GOAL_INSTALL_MB = 15


def cpu_ms(code: str) -> float:
    """Processor time of one fresh interpreter running ``code``."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def needed(name: str, seen: set[str]) -> set[str]:
    """A package and all that its base install brings."""
    key = re.sub(r"[-_.]+", "-", name).lower()
    if key not in seen:
        seen.add(key)
        for requirement in importlib.metadata.requires(name) or []:
            if ";" not in requirement:
                match = re.match(r"[\w.-]+", requirement)
                if match:
                    needed(match[0], seen)
    return seen


def megabytes(name: str) -> float:
    """Size of a package's files."""
    files = importlib.metadata.files(name) or []
    return sum(path.stat().st_size for path in {Path(str(file.locate())) for file in files} if path.is_file()) / 1e6


def main(runs: int) -> None:
    """Print both figures beside their goals."""
    pairs = [
        (cpu_ms("pass"), cpu_ms("import fivefold"), cpu_ms("import fivefold; fivefold.view_of; fivefold.read_transcript"))
        for _ in range(runs)
    ]
    empty, package, reading = (min(pair[i] for pair in pairs) for i in range(3))
    print(f"import fivefold: {package - empty:.1f} ms over an empty interpreter's {empty:.1f} (goal: at most {GOAL_IMPORT_MS} in all)")
    print(f"with the core and all readers loaded: {reading - empty:.1f} ms more")
    sizes = {name: megabytes(name) for name in needed("fivefold", set())}
    for name, size in sorted(sizes.items(), key=lambda item: -item[1]):
        print(f"  {name:15} {size:5.2f} MB")
    print(f"base install: {sum(sizes.values()):.1f} MB (goal: at most {GOAL_INSTALL_MB})")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
