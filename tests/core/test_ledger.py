"""The size of the view: T2, T3, T4, T7, T8."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from fivefold.core.entries import Entry, Fold, HideSpan, Iteration, ReplaceBlocks, Target, Unfold, Usage
from fivefold.core.estimate import Measure
from fivefold.core.log import Log
from fivefold.core.messages import Text
from fivefold.core.tokens import Ledger
from fivefold.core.view import View, view_of
from tests.build import assistant, call, entry, result, user


class Counter:
    """A measurer that says one token a character, and remembers whom it measured."""

    def __init__(self) -> None:
        self.measured: list[str] = []

    def __call__(self, entry: Entry) -> Measure:
        self.measured.append(entry.id)
        size = sum(len(getattr(b, "text", "") or str(getattr(b, "content", "") or "")) for b in entry.blocks)
        return Measure(size, size + 10, False)


def ledger_of(log: Log, count: Counter | None = None) -> Ledger:
    return Ledger(view_of(log), count or Counter())


def x(n: int) -> str:
    return "x" * n


def test_t2_usage_of_the_last_response_and_an_estimate_of_what_came_after() -> None:
    log = Log(
        None,
        [
            user("u1", x(100)),
            assistant("a1", x(50), api_id="m1", usage=Usage(input=5, cache_write=10, cache_read=1_000, output=40)),
            user("u2", x(300)),
        ],
    )
    size = ledger_of(log).size()
    assert (size.used, size.source) == (1_055 + 400, "usage+estimate")
    assert size.estimate == 600  # (100 + 50 + 300) times 4/3


def test_t2_parallel_calls_count_one_usage_once_the_last() -> None:
    log = Log(
        None,
        [
            user("u1", x(10)),
            assistant("a1", x(5), api_id="m1", usage=Usage(input=1_000, output=1)),
            assistant("a2", call("t1"), api_id="m1", usage=Usage(input=1_000, output=30)),
            user("u2", result("t1", x(30))),
            assistant("a3", call("t2"), api_id="m1", usage=Usage(input=1_000, output=60)),
            user("u3", result("t2", x(60))),
        ],
    )
    assert ledger_of(log).size().used == 1_060 + 120


def test_t2_usage_of_forks_and_sub_agents_never_counts() -> None:
    log = Log(None, [user("u1", x(30)), assistant("a1", x(30), source="agent:explore", usage=Usage(input=90_000))])
    assert ledger_of(log).size().used == 80


def test_t2_usage_from_before_the_last_boundary_never_counts() -> None:
    log = Log(None, [user("u1", x(600)), assistant("a1", x(60), api_id="m1", usage=Usage(input=100_000, output=60))])
    log = log.append(Fold(id="f", level="auto", changes=(HideSpan("u1", stand_ins=(entry("s", "user", x(30), summary=True),)),)))
    size = ledger_of(log).size()
    assert (size.used, size.source) == (120, "estimate")


def test_t8_size_is_the_last_message_iteration() -> None:
    usage = Usage(input=200, output=20, iterations=(Iteration("compaction", 180_000, 0, 0, 3_000), Iteration("message", 200, 0, 0, 20)))
    assert ledger_of(Log(None, [user("u", "x"), assistant("a", "y", usage=usage)])).size().used == 220


def grown(ledger: Ledger, log: Log, *records: object, count: Counter) -> tuple[Ledger, Log]:
    for record in records:
        log = log.append(record)  # type: ignore[arg-type]
        ledger = ledger.advance(ledger.view.advance(log), count)
    return ledger, log


def test_t3_after_a_fold_the_calibration_says_the_size_at_once() -> None:
    count = Counter()
    log = Log(None)
    ledger, log = grown(
        Ledger(View(log, []), count),
        log,
        user("u1", x(1_000)),
        assistant("a1", x(100), api_id="m1", usage=Usage(input=6_500, output=100)),
        user("u2", x(2_000)),
        assistant("a2", x(100), api_id="m2", usage=Usage(input=9_650, output=100)),
        count=count,
    )
    assert ledger.calibration.ratio == 1.5 and ledger.calibration.overhead == 5_000
    ledger, log = grown(
        ledger, log, Fold(id="f", level="auto", changes=(HideSpan("u2", stand_ins=(entry("s", "user", x(200)),)),)), count=count
    )
    size = ledger.size()
    assert (size.used, size.source) == (5_000 + 450, "calibrated")


def test_t3_calibration_never_goes_below_the_unpadded_estimate() -> None:
    count = Counter()
    log = Log(None)
    ledger, log = grown(
        Ledger(View(log, []), count),
        log,
        user("u1", x(1_000)),
        assistant("a1", "ok", api_id="m1", usage=Usage(input=500, output=1)),
        user("u2", x(5_000)),
        assistant("a2", "ok", api_id="m2", usage=Usage(input=4_000, output=1)),
        user("u3", x(100)),
        count=count,
    )
    assert ledger.calibration.ratio == 1.0
    assert ledger.size().used == 4_001 + 100


def test_t4_each_entry_is_measured_once() -> None:
    count = Counter()
    log = Log(None)
    ledger = Ledger(View(log, []), count)
    for i in range(200):
        ledger, log = grown(
            ledger, log, user(f"u{i}", result(f"t{i}", x(50))), assistant(f"a{i}", "ok", usage=Usage(input=100 + i)), count=count
        )
    ledger, log = grown(
        ledger, log, Fold(id="f1", level="micro", changes=(ReplaceBlocks((Target("u3", 0), Target("u4", 0))),)), count=count
    )
    ledger, log = grown(
        ledger, log, Fold(id="f2", level="auto", changes=(HideSpan("a100", stand_ins=(entry("s", "user", "sum"),)),)), count=count
    )
    once = [f"{k}{i}" for i in range(200) for k in "ua"]
    assert count.measured == [*once, "u3", "u4", "s"]


def test_t7_bytes_are_counted_beside_tokens() -> None:
    assert ledger_of(Log(None, [user("u", x(100)), assistant("a", x(50))])).size().bytes == 170


STEP = st.one_of(
    st.tuples(st.just("say"), st.integers(0, 400), st.booleans()),
    st.tuples(st.just("answer"), st.integers(0, 400), st.integers(0, 3_000)),
    st.tuples(st.just("fold"), st.integers(0, 30), st.just(0)),
    st.tuples(st.just("undo"), st.just(0), st.just(0)),
)


@given(st.lists(STEP, max_size=25))
def test_t4_carried_on_is_from_nothing(steps: list[tuple[str, int, int]]) -> None:
    """The sums of a ledger that was carried on are those of one made from the view; never negative, never below the estimate's part."""
    count, log = Counter(), Log(None)
    ledger = Ledger(View(log, []), count)
    for i, (what, n, m) in enumerate(steps):
        said = [e.id for e in log.entries()]
        record: object = None
        match what:
            case "say":
                record = user(f"e{i}", Text(x(n)))
            case "answer":
                record = assistant(f"e{i}", Text(x(n)), api_id=f"m{i // 3}", usage=Usage(input=m, output=n))
            case "fold" if said:
                record = Fold(id=f"f{i}", level="auto", changes=(HideSpan(said[n % len(said)], stand_ins=(user(f"s{i}", "sum"),)),))
            case "undo" if log.folds:
                record = Unfold(fold=log.folds[0].fold.id)
        if record is not None:
            ledger, log = grown(ledger, log, record, count=count)
    fresh = ledger_of(log)
    assert (ledger.estimated, ledger.bytes, ledger.measures) == (fresh.estimated, fresh.bytes, fresh.measures)
    size, again = ledger.size(), fresh.size()
    assert (size.source.startswith("usage"), size.bytes) == (again.source.startswith("usage"), again.bytes)
    if size.source == "usage":
        assert size.used == again.used
    assert size.used >= 0


def test_t2_a_response_that_began_before_the_fold_does_not_tell_the_size() -> None:
    """Its second part comes after the fold, its usage is of the request before it."""
    count, log = Counter(), Log(None)
    ledger, log = grown(
        Ledger(View(log, []), count),
        log,
        user("u", x(100_000)),
        assistant("a1", x(100), api_id="m1", usage=Usage(input=100_100, output=20)),
        Fold(id="f", level="auto", changes=(HideSpan("u", stand_ins=(user("s", x(30)),)),)),
        assistant("a2", x(70), api_id="m1", usage=Usage(input=100_100, output=40)),
        count=count,
    )
    assert ledger.size().source != "usage" and ledger.size().used < 1_000
    assert ledger.calibration.overhead is not None and ledger.calibration.overhead < 1_000


def test_t2_an_api_id_used_again_after_a_persons_words_is_another_response() -> None:
    log = Log(
        None,
        [
            user("u1", x(10)),
            assistant("a1", x(10), api_id="m1", usage=Usage(input=1_000)),
            user("u2", x(6_000)),
            assistant("a2", x(10), api_id="m1", usage=Usage(input=7_000)),
        ],
    )
    assert ledger_of(log).size().used == 7_000


def test_t3_one_absurd_count_is_not_learned_from_and_the_size_is_marked() -> None:
    log = Log(None, [user("u", x(1_000)), assistant("a", "ok", usage=Usage(input=900_000))])
    size = ledger_of(log).size()
    assert (size.source, size.uncertain) == ("estimate", True)
    tiny = ledger_of(Log(None, [user("u", x(150_000)), assistant("a", "ok", usage=Usage(input=3, output=5))])).size()
    assert (tiny.used, tiny.source, tiny.uncertain) == (200_003, "estimate", True)


def test_t3_a_step_that_no_text_explains_begins_the_samples_anew() -> None:
    count, log = Counter(), Log(None)
    ledger, log = grown(
        Ledger(View(log, []), count),
        log,
        user("u1", x(1_000)),
        assistant("a1", "ok", api_id="m1", usage=Usage(input=2_000)),
        user("u2", x(2_000)),
        assistant("a2", "ok", api_id="m2", usage=Usage(input=40_000)),  # tools were added
        user("u3", x(2_000)),
        assistant("a3", "ok", api_id="m3", usage=Usage(input=42_402)),
        count=count,
    )
    assert ledger.calibration.ratio is not None and 1.19 < ledger.calibration.ratio < 1.21
    assert ledger.calibration.overhead is not None and 36_000 < ledger.calibration.overhead < 37_500


def test_t2_a_second_part_without_usage_is_the_responses_own() -> None:
    log = Log(
        None,
        [user("u", x(10)), assistant("a1", x(10), api_id="m", usage=Usage(input=1_000, output=9)), assistant("a2", x(400), api_id="m")],
    )
    assert ledger_of(log).size().used == 1_009
