"""What loading a Claude Code file costs, its first view included, as a ratio to decoding its lines as plain JSON (orjson, line by line).

    python benchmarks/load.py FOLDER [RUNS]

Both sides read the file from disk, in the same process, in turn; the smallest processor time of RUNS (default 7) for each.
Prints a line a file, then the median and the largest ratio.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import orjson

from fivefold.core.view import view_of
from fivefold.formats import claude_code
from fivefold.formats.source import READ_AHEAD, Source


def plain(path: Path) -> int:
    """Decode every line as plain JSON and keep the values, as a reader must."""
    values = []
    with path.open("rb", buffering=READ_AHEAD) as file:
        for line in file:
            try:
                values.append(orjson.loads(line))
            except orjson.JSONDecodeError:
                continue
    return len(values)


def load(path: Path) -> int:
    """Read the file as a transcript, and take the view of its conversation."""
    return len(view_of(claude_code.read(Source(path)).main.log))


def seconds(work: Callable[[Path], int], path: Path) -> float:
    """Processor time of one run."""
    gc.collect()
    start = time.process_time()
    work(path)
    return time.process_time() - start


def main(folder: Path, runs: int) -> None:
    """Print the ratios of all files of a folder."""
    ratios: list[float] = []
    for path in sorted(folder.glob("*.jsonl")):
        pairs = [(seconds(plain, path), seconds(load, path)) for _ in range(runs)]
        decoded, loaded = min(pair[0] for pair in pairs), min(pair[1] for pair in pairs)
        ratios.append(loaded / decoded)
        size = path.stat().st_size / 1e6
        print(f"{path.name:45} {size:6.2f} MB  json {decoded * 1e3:6.1f} ms  read {loaded * 1e3:6.1f} ms  ratio {ratios[-1]:.2f}")
    print(f"median {statistics.median(ratios):.2f}  largest {max(ratios):.2f}  files {len(ratios)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 7)
