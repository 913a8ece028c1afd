"""What each level costs beside released packages that do the same, as ratios from one run.

    python benchmarks/levels.py [--python PYTHON3.12] [--env DIR] [--only-ours]

Made conversations of 1,000, 10,000 and 100,000 messages: rounds of ``examples/session.jsonl``, repeated with changed names, about
1.5 MB for each thousand; for the check at 10,000 and more messages results are cut to 200 characters. All sides read the same
file of OpenAI messages and are timed by ``peer_run.py``: smallest processor time of up to 15 runs of the call itself, conversion
not counted. The models that summarise are fakes that answer at once, so what is timed is the package's own work.

The peers (``peers.txt``, ``peer_*.py``) get an environment of their own under build/; openhands-sdk needs Python 3.12.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from fivefold.core.messages import JSON, Text, ToolResult, ToolUse, result_text
from fivefold.core.pairing import is_speech, pair
from fivefold.formats.registry import read_transcript

HERE = Path(__file__).parent
SIZES = (1_000, 10_000, 100_000)
PEERS = {"peer_langchain": 100_000, "peer_pydantic_ai": 100_000, "peer_openhands": 10_000, "peer_cliff": 1_000}
"""Module of each peer, and the most messages for which its check is timed."""
OURS = "peer_fivefold"
SHORT = 200
ROUNDS_A_REQUEST = 40
NAME = re.compile(r"\b(?:[A-Za-z]\w*_\w+|[a-z]+[A-Z]\w*|[\w-]+(?=\.(?:go|md|json|sh|py)\b))")


class Round(NamedTuple):
    """One call of the recorded session, with what was said before it, and its result."""

    text: str
    tool: str
    input: JSON
    result: str


class Timed(NamedTuple):
    """One case of one package."""

    package: str
    case: str
    ms: float
    left: int | None


# --- the conversation


def recorded() -> tuple[list[Round], list[str]]:
    """The calls of the example session with their results, and what its people said."""
    entries = list(read_transcript(HERE.parent / "examples" / "session.jsonl").main.log.entries())
    found = []
    for call, result, _ in pair(entries).pairs:
        use, answer = entries[call.entry].blocks[call.block], entries[result.entry].blocks[result.block]
        if isinstance(use, ToolUse) and isinstance(answer, ToolResult):
            said = [block.text for block in entries[max(0, call.entry - 1)].blocks if isinstance(block, Text)]
            text = "\n".join(said) if entries[call.entry - 1].kind == "assistant" else ""
            found.append(Round(text, use.name, use.input, result_text(answer)))
    people = [block.text for entry in entries if is_speech(entry) for block in entry.blocks if isinstance(block, Text)]
    return found, people


def renamed(value: JSON, cycle: int) -> JSON:
    """The same about other things: each name in its strings with a prefix, by the number of the repetition."""
    match value:
        case str() if cycle:
            return NAME.sub(lambda name: f"v{cycle}_{name[0]}", value)
        case list():
            return [renamed(item, cycle) for item in value]
        case dict():
            return {key: renamed(item, cycle) for key, item in value.items()}
        case _:
            return value


def made(size: int, *, short: bool) -> Iterator[dict[str, Any]]:
    """So many OpenAI messages: a request every ``ROUNDS_A_REQUEST`` rounds; each time round the session, names get a new prefix."""
    rounds, people = recorded()
    written = 0
    for number in count():
        cycle, at = divmod(number, len(rounds))
        text, tool, input, result = rounds[at]
        if number % ROUNDS_A_REQUEST == 0:
            yield {"role": "user", "content": people[number // ROUNDS_A_REQUEST % len(people)]}
            written += 1
        if written + 2 > size:
            return
        function = {"name": tool, "arguments": json.dumps(renamed(input, cycle))}
        call = {"id": f"c{number}", "type": "function", "function": function}
        yield {"role": "assistant", "content": renamed(text, cycle), "tool_calls": [call]}
        yield {"role": "tool", "tool_call_id": call["id"], "content": renamed(result[: SHORT if short else None], cycle)}
        written += 2


# --- running the packages


def environment(folder: Path, python: str | None) -> Path:
    """The peers' own interpreter, made where it is not there or ``peers.txt`` has changed."""
    wanted = (HERE / "peers.txt").read_text(encoding="utf-8")
    stamp, interpreter = folder / "peers.txt", folder / "bin" / "python"
    if not (stamp.exists() and stamp.read_text(encoding="utf-8") == wanted and interpreter.exists()):
        print(f"installing the peers into {folder.name} …", file=sys.stderr)
        subprocess.run([new_enough(python), "-m", "venv", "--clear", folder], check=True)
        subprocess.run([interpreter, "-m", "pip", "install", "--quiet", "-r", HERE / "peers.txt"], check=True)
        stamp.write_text(wanted, encoding="utf-8")
    return interpreter


def new_enough(python: str | None) -> str:
    """A Python of at least 3.12."""
    for one in [python] if python else [sys.executable, "python3.14", "python3.13", "python3.12"]:
        try:
            run = subprocess.run([one, "-c", "import sys; sys.exit(sys.version_info < (3, 12))"], capture_output=True)
        except OSError:
            continue
        if run.returncode == 0:
            return one
    raise SystemExit("the peers need Python 3.12 or newer: --python PATH names one; --only-ours leaves them out")


def run(interpreter: Path, module: str, messages: Path, only: str) -> list[Timed]:
    """All cases of one package on one file."""
    quiet = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENHANDS_SUPPRESS_BANNER": "1"}  # no look at the network
    command = [str(interpreter), str(HERE / "peer_run.py"), module, str(messages), "--only", only]
    done = subprocess.run(command, env={**os.environ, **quiet}, stdout=subprocess.PIPE, check=True, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    return [Timed(found["package"], case, figures["ms"], figures["left"]) for case, figures in found["cases"].items()]


# --- what is printed


def checks(runs: dict[int, list[Timed]]) -> Iterator[str]:
    """The check where nothing is due: a row a case, a column a size, and the ratio to ours in each."""
    yield "| per-turn check, nothing due | " + " | ".join(f"{size:,}: ms | × ours" for size in runs) + " | growth |"
    yield "| --- |" + " ---: | ---: |" * len(runs) + " ---: |"
    cases = [(timed.package, timed.case) for timed in runs[SIZES[0]] if timed.case.startswith("check")]
    for package, case in cases:
        row = {size: {(one.package, one.case): one.ms for one in found} for size, found in runs.items()}
        base = {size: next(one.ms for one in found if one.package.startswith("fivefold")) for size, found in runs.items()}
        times = [row[size].get((package, case)) for size in runs]
        cells = [f"{ms:.3f} | {ms / base[size]:,.1f}" if ms is not None else "– | –" for size, ms in zip(runs, times, strict=True)]
        growth = f"× {times[-1] / times[0]:,.1f}" if times[-1] is not None and times[0] is not None else "–"
        yield f"| {package}: {case.removeprefix('check: ')} | " + " | ".join(cells) + f" | {growth} |"


def work(kind: str, title: str, found: list[Timed]) -> Iterator[str]:
    """The work of one kind on the smallest conversation: a row a case, the ratio to the first of ours."""
    rows = [one for one in found if one.case.startswith(kind)]
    yield f"| {title} | ms | × ours | left |"
    yield "| --- | ---: | ---: | ---: |"
    for one in rows:
        yield f"| {one.package}: {one.case.removeprefix(kind + ': ')} | {one.ms:.2f} | {one.ms / rows[0].ms:.3f} | {one.left} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--python", help="Python of at least 3.12 for the peers")
    parser.add_argument("--env", type=Path, default=HERE.parent / "build" / "venv-peers")
    parser.add_argument("--only-ours", action="store_true")
    given = parser.parse_args()
    peers = {} if given.only_ours else PEERS
    theirs = environment(given.env, given.python) if peers else None
    runs: dict[int, list[Timed]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for size in SIZES:
            path = Path(folder) / f"{size}.json"
            messages = list(made(size, short=size > SIZES[0]))
            path.write_text(json.dumps(messages), encoding="utf-8")
            print(f"{len(messages):,} messages, {path.stat().st_size / 1e6:.1f} MB", file=sys.stderr)
            only = "" if size == SIZES[0] else "check"
            runs[size] = run(Path(sys.executable), OURS, path, only)
            for module, most in peers.items():
                if theirs is not None and size <= most:
                    runs[size] += run(theirs, module, path, only)
    first = runs[SIZES[0]]
    print("\n".join(checks(runs)))
    for kind, title in (("clear", "old results cleared"), ("memory", "session memory"), ("full", "full compaction")):
        print("", *work(kind, title, first), sep="\n")


if __name__ == "__main__":
    main()
