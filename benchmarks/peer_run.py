"""Run inside an environment: what one library's compaction costs on a file of messages.

    python benchmarks/peer_run.py MODULE MESSAGES.json [--seconds 4] [--only check]

MODULE is one of the ``peer_*.py`` beside this file. Each has ``cases(messages)``: by name, a function that makes fresh input
and gives the call to be timed; that call gives how many messages are left, or None where nothing was due. Prints one JSON
object: for each case the smallest processor time in milliseconds of as many runs as fit, how many, and what was left. ``--only``
takes the cases whose names begin so.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import importlib.metadata
import json
import time
import warnings
from collections.abc import Callable
from typing import TypeAlias

Call: TypeAlias = Callable[[], int | None]
MOST_RUNS = 15
SHORT, MANY_RUNS = 0.002, 300
"""A call of fewer seconds is made so often, without a collection of garbage between, which would leave it cold caches to run on."""


def measure(prepare: Callable[[], Call], seconds: float) -> tuple[float, int, int | None]:
    """Smallest time in ms, runs, and what the call gave. At least one run; preparing is not timed."""
    best, runs, left = float("inf"), 0, None
    until = time.monotonic() + seconds
    while runs < (MANY_RUNS if best < SHORT else MOST_RUNS) and (runs == 0 or time.monotonic() < until):
        call = prepare()
        if best > SHORT:
            gc.collect()
        start = time.process_time()
        left = call()
        best = min(best, time.process_time() - start)
        runs += 1
    return 1000 * best, runs, left


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("module")
    parser.add_argument("messages")
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--only", default="")
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # deprecations of the peers are theirs
    peer = importlib.import_module(given.module)
    with open(given.messages, encoding="utf-8") as file:
        messages = json.load(file)
    found = {}
    for name, prepare in peer.cases(messages).items():
        if name.startswith(given.only):
            ms, runs, left = measure(prepare, given.seconds)
            found[name] = {"ms": ms, "runs": runs, "left": left}
    print(json.dumps({"package": f"{peer.PACKAGE} {importlib.metadata.version(peer.PACKAGE)}", "cases": found}))


if __name__ == "__main__":
    main()
