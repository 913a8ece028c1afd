"""An agent that goes on and on against the strict simulator, with faults: what the user saw, what it cost, what was lost.

    python benchmarks/soak.py [--rounds 2000] [--windows 200000,32000,8000] [--faults 0.01] [--seed 1]

Each round a person asks, the model calls a tool or two, gets results and answers; the official Anthropic SDK talks to the simulator
over HTTP. Faults of every kind in turn hit requests by chance. The simulator's journal is the oracle: a request that it refused for its
structure, an error that reached the user, an entry that is not in the log as it was said, each would be counted here.

With ``--compare`` the same conversation is run without fivefold until the window is full, too, and the money of both is printed.
"""

from __future__ import annotations

import argparse
import random
import statistics
import time
from collections import Counter
from typing import Any, NamedTuple, get_args

import anthropic

from fivefold.agent import Agent
from fivefold.calling import Tool
from fivefold.core.messages import Object, Text, ToolResult, ToolUse
from fivefold.core.policy import Policy
from fivefold.drive import Driver
from fivefold.loop_events import CacheBroken, Compaction, Ended, Folded, LoopEvent, Requested, Retry
from fivefold.providers.anthropic import AnthropicModel
from fivefold.setup import make_setup
from fivefold.simulator import faults, script
from fivefold.simulator.serve import Simulator

MODEL = "claude-haiku-4-5"
WORDS = ["parser", "token", "window", "cache", "ledger", "boundary", "marker", "retry", "stream", "budget"]
RETRIED = frozenset({"rate_limit", "overloaded", "server_error", "slow", "reset", "broken_stream", "error_event", "prompt_too_long"})
"""Kinds of faults that a retry or a smaller request passes."""


class Soak(NamedTuple):
    """What came of one run."""

    window: int
    counts: Counter[str]
    delays: list[float]
    usd: float
    read_share: float
    lost: int
    seconds: float


def speak(request: script.Request) -> script.Reply:
    """A model that calls a tool at the first step of each round, two at every seventh, and answers at the second."""
    last = request.messages[-1]
    answered = any(part.get("type") == "tool_result" for part in last["content"]) if isinstance(last["content"], list) else False
    if answered:
        return script.Reply(text=f"Done; {WORDS[request.number % len(WORDS)]}_{request.number} is what mattered.")
    calls = [script.Call("read_file", {"path": f"src/part_{request.number}_{n}.py"}) for n in range(2 if request.number % 7 == 0 else 1)]
    return script.Reply(text=f"I look into part {request.number}.", calls=tuple(calls))


def result(given: Object) -> str:
    """A file's text, the same for the same path: a few hundred tokens, now and then some thousands."""
    dice = random.Random(str(given))
    lines = dice.choice((8, 12, 20, 20, 30, 60, 200))
    return "\n".join(
        f"{dice.choice(WORDS)}_{dice.randrange(1000)} = load({dice.choice(WORDS)!r}, {dice.randrange(10**6)})" for _ in range(lines)
    )


def soak(window: int, rounds: int, rate: float, seed: int, *, off: bool = False) -> Soak:
    """Run it. ``off``: nothing is done until the provider refuses."""
    kinds = [kind for kind in get_args(faults.Kind) if kind in RETRIED]
    plan = faults.Faults(
        [
            faults.Fault(kind=kind, rate=rate / len(kinds), retry_after=0.0, seconds=0.0, tokens=window + 500, limit=window)
            for kind in kinds
        ],
        seed=seed,
    )
    now = [1_000_000.0]
    counts: Counter[str] = Counter()
    delays: list[float] = []
    began = time.perf_counter()
    with Simulator(speak, windows={MODEL: window}, faults=plan, clock=lambda: now[0]) as simulator:
        client = anthropic.Anthropic(base_url=simulator.url, api_key="key")
        policy = Policy.of({"auto": {"enabled": not off}})
        agent = Agent(
            Driver(setup=make_setup(MODEL, window=window, policy=policy), clock=lambda: now[0]),
            model=AnthropicModel(client),
            name=MODEL,
            tools=[Tool(name="read_file", run=result)],
            sleep=lambda seconds: None,
            max_tokens=1_024,
        )
        said: list[str] = []
        for number in range(rounds):
            said.append(f"Please look into point {number} of {WORDS[number % len(WORDS)]}, as said before.")
            now[0] += 30 if number % 50 else 4_000
            ended = take(agent.run(said[-1]), counts, delays)
            counts[f"ended {ended.reason}"] += 1
            if ended.reason != "completed" and off:
                break
        client.close()
        journal = simulator.journal
        counts["refused"] = len(journal.refused)
        for record in journal.refused:
            if record.fault is None:
                counts[f"refused: {record.error or record.status}"[:90]] += 1
        inputs = sum(record.input for record in journal.answered)
        read = sum(record.read for record in journal.answered)
        lost = missing(agent, said, counts["ToolEnded"])
        usd = journal.usd
    return Soak(window, counts, delays, usd, read / max(1, inputs), lost, time.perf_counter() - began)


def take(events: Any, counts: Counter[str], delays: list[float]) -> Ended:
    """Count what happens; how long a request waited for what was due before it."""
    ended: Ended | None = None
    waiting = time.perf_counter()
    event: LoopEvent
    for event in events:
        counts[type(event).__name__] += 1
        match event:
            case Requested():
                delays.append(time.perf_counter() - waiting)
            case Compaction(stage=stage, fields=fields):
                counts[f"compaction {stage}"] += 1
                calls = fields.get("llm_calls")
                counts["llm calls"] += calls if isinstance(calls, int) and stage == "finished" else 0
            case Folded(level=level, path=path):
                counts[f"folded {level}/{path}"] += 1
            case Retry(transition=transition):
                counts[f"retry {transition}"] += 1
            case CacheBroken(cause=cause):
                counts[f"cache broken: {cause}"] += 1
            case Ended():
                ended = event
        waiting = time.perf_counter()
    assert ended is not None
    return ended


def missing(agent: Agent, said: list[str], results: int) -> int:
    """Messages and results that the log does not hold as they were."""
    texts = Counter(block.text for entry in agent.driver.log.entries() for block in entry.blocks if isinstance(block, Text))
    calls = {block.id: block.input for entry in agent.driver.log.entries() for block in entry.blocks if isinstance(block, ToolUse)}
    answers = [block for entry in agent.driver.log.entries() for block in entry.blocks if isinstance(block, ToolResult)]
    wrong = sum(not isinstance(given := calls.get(block.tool_use_id), dict) or block.content != result(given) for block in answers)
    return sum(not texts[text] for text in said) + wrong + abs(results - len(answers))


def main() -> None:
    """Run each window and print a table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--rounds", type=int, default=2_000)
    arguments.add_argument("--windows", default="200000,32000,8000")
    arguments.add_argument("--faults", type=float, default=0.01)
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("--compare", action="store_true", help="also what it costs up to the first refusal, with nothing done")
    given = arguments.parse_args()
    for window in map(int, given.windows.split(",")):
        found = soak(window, given.rounds, given.faults, given.seed)
        delays = sorted(found.delays)
        print(
            f"window {window:,}: {given.rounds:,} rounds in {found.seconds:.0f} s, ${found.usd:.2f}, read from cache {found.read_share:.0%}"
        )
        print(f"  delay before a request: p50 {statistics.median(delays) * 1e3:.1f} ms, p99 {delays[int(len(delays) * 0.99)] * 1e3:.1f} ms")
        print(f"  lost: {found.lost}")
        print("  " + ", ".join(f"{name} {count:,}" for name, count in sorted(found.counts.items())))
        if given.compare:
            other = soak(window, given.rounds, 0.0, given.seed, off=True)
            print(f"  without: {other.counts['ended completed']:,} rounds until it ended, ${other.usd:.2f}")


if __name__ == "__main__":
    main()
