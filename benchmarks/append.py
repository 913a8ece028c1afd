"""What one more entry costs as a session grows (T4): log, view, ledger and session file.

    python benchmarks/append.py [--sizes 100 1000 10000 100000]

Prints, for each size, microseconds per entry (the median over blocks of 100 entries that end there) and the ratio to the
first size; ``mean``: over all entries since the size before, pauses of the garbage collector included. The goal is at most
1.5 at 100,000 entries, for both.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from fivefold.core.entries import Entry, Head
from fivefold.core.estimate import measure_entry
from fivefold.core.log import Log
from fivefold.core.messages import Text, ToolResult, ToolUse
from fivefold.core.tokens import Ledger
from fivefold.core.view import View, view_of
from fivefold.store.session import Session

BLOCK = 100
BLOCKS_A_SIZE = 20
OUTPUT = "src/module.py:12: a line of output, as a tool gives it\n" * 20
GOAL = 1.5


def entry(number: int) -> Entry:
    """Calls and results in turn, about 1 KB each second one."""
    if number % 2:
        return Entry(id=f"e{number}", kind="user", blocks=(ToolResult(f"t{number - 1}", OUTPUT),), time=float(number))
    blocks = (Text("Let me look."), ToolUse(f"t{number}", "Bash", {"command": f"sed -n {number}p src/module.py"}))
    return Entry(id=f"e{number}", kind="assistant", blocks=blocks, api_id=f"r{number}", time=float(number))


class Parts:
    """The parts of a conversation, each grown on its own, so that each is timed on its own."""

    def __init__(self, folder: Path) -> None:
        self.log = Log(Head(id="benchmark"))
        self.viewed: View = view_of(self.log)
        self.counted = Ledger(self.viewed, measure_entry)
        self.session = Session.create(folder / "s.jsonl", Head(id="benchmark"), fsync="never")

    def append(self, entry: Entry) -> None:
        self.log = self.log.append(entry)

    def view(self, _: Entry) -> None:
        self.viewed = self.viewed.advance(self.log)

    def ledger(self, _: Entry) -> None:
        self.counted = self.counted.advance(self.viewed, measure_entry)

    def file(self, entry: Entry) -> None:
        self.session.append(entry)


def steps(parts: Parts) -> dict[str, Callable[[Entry], None]]:
    """The parts by the name that is printed."""
    return {"log": parts.append, "view": parts.view, "ledger": parts.ledger, "session": parts.file}


def measure(sizes: list[int]) -> dict[int, dict[str, float]]:
    """Microseconds per entry for each size and part; ``all`` is their sum, ``mean`` the mean of it."""
    found: dict[int, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        parts = Parts(Path(folder))
        recent: list[dict[str, float]] = []
        total, since = 0.0, 0
        for block in range(max(sizes) // BLOCK):
            entries = [entry(number) for number in range(block * BLOCK, (block + 1) * BLOCK)]
            spent = dict.fromkeys(steps(parts), 0.0)
            for one in entries:
                for name, step in steps(parts).items():
                    start = perf_counter()
                    step(one)
                    spent[name] += perf_counter() - start
            recent = [*recent[-BLOCKS_A_SIZE + 1 :], {name: seconds / BLOCK * 1e6 for name, seconds in spent.items()}]
            size = (block + 1) * BLOCK
            total += sum(spent.values())
            if size in sizes:
                found[size] = {name: statistics.median(sample[name] for sample in recent) for name in spent}
                found[size]["all"] = statistics.median(sum(sample.values()) for sample in recent)
                found[size]["mean"] = total / (size - since) * 1e6
                total, since = 0.0, size
        if parts.session.problems:
            raise SystemExit(f"not measured: {parts.session.problems[0]}")
        parts.session.close()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[100, 1_000, 10_000, 100_000])
    sizes = sorted(parser.parse_args().sizes)
    for _ in range(5):  # the first runs warm up the interpreter and the allocator
        measure(sizes[:1])
    small = [measure(sizes[:1])[sizes[0]] for _ in range(BLOCKS_A_SIZE)]
    found = measure(sizes)
    found[sizes[0]] = {name: statistics.median(sample[name] for sample in small) for name in small[0]}
    first = found[sizes[0]]
    print(f"{'entries':>9}" + "".join(f"{name + ' µs':>13}{'ratio':>7}" for name in first))
    for size, figures in found.items():
        print(f"{size:>9,}" + "".join(f"{value:>13.2f}{value / first[name]:>7.2f}" for name, value in figures.items()))
    ratio = max(found[sizes[-1]][name] / first[name] for name in ("all", "mean"))
    collections = [generation["collections"] for generation in gc.get_stats()]
    print(
        f"\n{ratio:.2f} times the cost at {sizes[0]:,}, at {sizes[-1]:,} entries (goal: at most {GOAL}); garbage collections: {collections}"
    )
    raise SystemExit(0 if ratio <= GOAL else 1)


if __name__ == "__main__":
    main()
