"""The whole way: a long conversation, its memory kept in the background, and a compaction made of it without a model (S1–S10)."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from fivefold import read_transcript
from fivefold.core.entries import SHOWN_AS, Entry
from fivefold.core.estimate import estimate_text
from fivefold.core.log import Log
from fivefold.core.restore import material
from fivefold.core.state import Tracking
from fivefold.memory.background import SessionMemory
from fivefold.memory.extractor import extract
from fivefold.memory.template import DEFAULT
from fivefold.perform import Ports
from fivefold.summarize.references import Extractor as References
from tests.build import DATA, assistant, call, refused, result, user
from tests.rules.talk import Talk, Writer, said, shown, summaries, talk, words, written

EXAMPLES = Path(__file__).parents[2] / "examples"


def work(count: int) -> list[list[Entry]]:
    """So many turns of a person, each with a decision in words, an edit, a failing and a passing run, and much that nobody needs."""
    turns = []
    for n in range(count):
        turns.append(
            [
                user(f"u{n}", f"Take care of module{n}; its limit must stay at {7_000 + n}."),
                assistant(f"a{n}", call(f"s{n}", "Read", file_path=f"/src/module{n}.py"), api_id=f"a{n}"),
                user(f"r{n}", result(f"s{n}", words(2_500, f"line of module{n}"))),
                assistant(f"b{n}", call(f"e{n}", "Edit", file_path=f"/src/module{n}.py", old_string="a", new_string="b"), api_id=f"b{n}"),
                user(f"q{n}", result(f"e{n}", "edited")),
                assistant(f"c{n}", call(f"c{n}", "Bash", command=f"pytest tests/test_module{n}.py"), api_id=f"c{n}"),
                user(f"p{n}", result(f"c{n}", f"E   ValueError: bad_key_{n}\nexit code: 1" if n % 3 == 0 else "ok\nexit code: 0")),
                assistant(f"d{n}", f"Module{n} caches by digest, because its keys are too long for table{n}.", api_id=f"d{n}"),
            ]
        )
    return turns


def lived(turns: list[list[Entry]], ports: Ports, window: int = 100_000) -> Talk:
    """The conversation turn by turn, what is due in the background run behind each request."""
    found = talk((), window=window, ports=ports)
    for entries in turns:
        for entry in entries:
            if entry.kind == "assistant":
                found.driver.before_request()
                found.driver.run_background()
                found.driver.replied(entry)
            else:
                found.driver.say(entry)
    return found


def test_s5_s9_a_long_conversation_is_compacted_with_its_memory_and_keeps_what_matters(tmp_path: Path) -> None:
    writer = Writer([written()])
    memory = SessionMemory.of(tmp_path, "a")
    found = lived(work(24), Ports(memory=memory, extract=memory, ask=writer))
    folds = [placed.fold for placed in found.driver.log.folds if placed.fold.extra.get("method")]
    assert folds and {fold.extra["method"] for fold in folds} == {"memory"} and writer.asked == []
    assert found.named("extraction_failed") == [] and found.named("compaction_failed") == []
    assert found.driver.tokens < found.driver.state.setup.window.auto
    text = said(found.driver.state)
    early = 1
    assert f"its limit must stay at {7_000 + early}" in text, "what people said"
    assert f"/src/module{early}.py: edited" in text, "what was done to which file"
    assert "Module1 caches by digest" in text, "what was found out"
    assert "bad_key_0" in text, "what failed"
    assert "pytest tests/test_module" in text, "what was run"
    assert refused(found.driver.outgoing().messages) == [] and len(summaries(found.driver.state)) == 1
    assert f"{memory.path}" in text or "more lines" not in text


def test_s3_the_covered_id_of_file_and_log_is_the_same_and_what_is_not_covered_stays_verbatim(tmp_path: Path) -> None:
    memory = SessionMemory.of(tmp_path, "a")
    turns = work(12)
    found = lived(turns, Ports(memory=memory, extract=memory))
    covered = memory.covered
    assert covered == found.driver.state.tracking.covered
    order = [entry.id for entries in turns for entry in entries]
    found.driver.compact(level="memory")
    left = shown(found.driver.state)
    assert set(order[order.index(covered or "") + 1 :]) <= set(left) and order[0] not in left


def test_s8_a_session_that_goes_on_elsewhere_takes_up_its_memory(tmp_path: Path) -> None:
    memory = SessionMemory.of(tmp_path, "a")
    entries = [entry for turn in work(12) for entry in turn]
    lived(work(12), Ports(memory=memory, extract=memory))
    memory.close()
    again = SessionMemory.of(tmp_path, "a")
    found = talk(entries, window=60_000, ports=Ports(memory=again), tracking=Tracking(covered=again.covered))
    found.driver.compact(level="memory")
    assert found.named("memory_resumed") == [] and again.covered not in shown(found.driver.state)[-1:]
    bare = talk(entries, window=60_000, ports=Ports(memory=again))
    bare.driver.compact(level="memory")
    assert len(bare.named("memory_resumed")) == 1 and "Module1 caches" in said(bare.driver.state)


def test_s3_what_a_person_wrote_into_the_file_is_in_the_compaction(tmp_path: Path) -> None:
    memory = SessionMemory.of(tmp_path, "a")
    turns = work(16)
    found = lived(turns[:8], Ports(memory=memory, extract=memory))
    memory.path.write_text(memory.path.read_text().replace("# Task\n", "# Task\nThe release is on the 4th; ask before you push.\n"))
    for entries in turns[8:]:
        for entry in entries:
            found.driver.say(entry)
    found.driver.before_request()
    found.driver.run_background()
    found.driver.replied(assistant("z", "Done.", api_id="z"))
    found.driver.compact(level="memory")
    assert "The release is on the 4th; ask before you push." in said(found.driver.state)
    assert memory.covered == "d15"


@pytest.mark.parametrize(
    "path", [EXAMPLES / "session.jsonl", DATA / "claude_code" / "preserved.jsonl", DATA / "codex" / "compaction.jsonl"]
)
def test_s5_recorded_sessions_are_compacted_with_their_memories(path: Path, tmp_path: Path) -> None:
    log = read_transcript(path).conversations[0].log
    entries = [entry for entry in material(log) if entry.kind in SHOWN_AS]
    memory = SessionMemory.of(tmp_path, "a")
    found = talk((), log=Log(log.head, entries), window=16_000, ports=Ports(memory=memory, extract=memory), overhead=0)
    covered = memory(entries)
    assert covered == entries[-1].id and memory.covered == covered
    found.driver.state = found.driver.state._replace(tracking=Tracking(covered=covered))
    before = found.driver.tokens
    plan = found.driver.compact(level="memory") if before > 3_000 else None
    assert plan is None or (found.driver.tokens < before and plan.llm_calls == 0)


def test_s2_an_extraction_costs_less_than_a_structural_compaction_of_the_same_session() -> None:
    """Both with the session known from before, as where a conversation goes on: each pays for choosing alone."""
    log = read_transcript(EXAMPLES / "session.jsonl").conversations[0].log
    entries = material(log)
    known, limits = References(), {section.kind: float(section.tokens) for section in DEFAULT.sections}
    known.learn(entries)
    found = talk((), log=log, window=60_000, ports=Ports(known=References()), overhead=0)
    found.driver.ports.known.learn(list(log.entries()))

    def best(run: object) -> float:
        times = []
        for _ in range(3):
            began = time.perf_counter()
            run()  # type: ignore[operator]
            times.append(time.perf_counter() - began)
        return min(times)

    one = best(lambda: extract(entries, limits=limits, estimate=estimate_text, known=known))
    all_of_it = best(lambda: found.driver.preview())
    assert one < all_of_it, f"{one * 1000:.0f} ms and {all_of_it * 1000:.0f} ms"
