"""The store behind "running low" warnings (W8, A9)."""

from __future__ import annotations

import itertools
import subprocess
import sys
import threading

import pytest

from fivefold.core.window import WindowState, state_of, window_of
from fivefold.warn import Warned, WarningStore

WINDOW = window_of(200_000, 64_000)
OK, LOW, AUTO = (state_of(used, WINDOW) for used in (10_000, 150_300, 170_000))


def low(used: int = 150_300) -> WindowState:
    return state_of(used, WINDOW)


def test_w8_nothing_is_shown_before_anything_is_known() -> None:
    store = WarningStore()
    assert (store.visible, store.state, store.suppressed, store.shown) == ("ok", None, False, Warned())
    store.compaction_succeeded()
    store.usage_arrived()
    assert store.visible == "ok"


def test_w8_a_success_hides_the_warning_until_real_usage_arrives() -> None:
    store = WarningStore()
    store.update(LOW, suppressed=False)
    assert (store.visible, store.shown.percent_left) == ("error", 10)
    store.compaction_succeeded()
    assert (store.visible, store.suppressed, store.state) == ("ok", True, LOW)
    store.update(AUTO, suppressed=True)
    assert store.visible == "ok"
    store.usage_arrived()
    assert store.visible == "auto"


def test_w8_a_new_attempt_shows_it_again() -> None:
    store = WarningStore()
    store.update(LOW, suppressed=True)
    assert store.visible == "ok"
    store.attempt_started()
    assert store.visible == "error"


def test_w8_subscribers_hear_changes_of_what_is_shown_and_nothing_else() -> None:
    store = WarningStore()
    heard: list[Warned] = []
    store.subscribe(heard.append)
    store.update(OK, suppressed=False)
    store.update(low(20_000), suppressed=False)
    store.usage_arrived()
    assert heard == []
    store.update(LOW, suppressed=False)
    store.update(low(150_400), suppressed=False)
    assert heard == [Warned("error", 10)], "the same whole percent is no change"
    store.update(low(152_000), suppressed=False)
    store.compaction_succeeded()
    store.compaction_succeeded()
    store.update(AUTO, suppressed=True)
    store.attempt_started()
    assert heard == [Warned("error", 10), Warned("error", 9), Warned(), Warned("auto", 0)]


def test_w8_who_unsubscribed_hears_no_more_and_doing_it_twice_is_nothing() -> None:
    store = WarningStore()
    heard: list[str] = []
    first = store.subscribe(lambda shown: heard.append("first"))
    second = store.subscribe(lambda shown: heard.append("second"))
    store.update(LOW, suppressed=False)
    first()
    first()
    store.compaction_succeeded()
    second()
    store.usage_arrived()
    assert heard == ["first", "second", "second"]


def test_w8_one_callback_subscribed_twice_is_two() -> None:
    store = WarningStore()
    heard: list[Warned] = []
    once, _ = store.subscribe(heard.append), store.subscribe(heard.append)
    once()
    store.update(LOW, suppressed=False)
    assert len(heard) == 1


def test_w8_a_callback_that_raises_is_logged_and_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    store = WarningStore()
    heard: list[Warned] = []
    store.subscribe(lambda shown: 1 / 0)
    store.subscribe(heard.append)
    store.update(LOW, suppressed=False)
    store.compaction_succeeded()
    assert heard == [Warned("error", 10), Warned()]
    assert len(caplog.records) == 2 and caplog.records[0].exc_info is not None


def test_w8_an_interrupt_in_a_callback_is_let_through_and_the_store_goes_on() -> None:
    store = WarningStore()
    heard: list[Warned] = []

    def interrupted(shown: Warned) -> None:
        raise KeyboardInterrupt

    stop = store.subscribe(interrupted)
    with pytest.raises(KeyboardInterrupt):
        store.update(LOW, suppressed=False)
    stop()
    store.subscribe(heard.append)
    store.compaction_succeeded()
    assert heard == [Warned()]


def test_w8_a_callback_may_change_the_store_and_all_hear_it_in_order() -> None:
    store = WarningStore()
    heard: list[tuple[str, str]] = []

    def reacts(shown: Warned) -> None:
        heard.append(("reacts", shown.level))
        if shown.level == "error":
            store.compaction_succeeded()

    store.subscribe(reacts)
    store.subscribe(lambda shown: heard.append(("listens", shown.level)))
    store.update(LOW, suppressed=False)
    assert heard == [("reacts", "error"), ("listens", "error"), ("reacts", "ok"), ("listens", "ok")]


def test_w8_a_callback_may_unsubscribe_itself_and_another() -> None:
    store = WarningStore()
    heard: list[str] = []
    stops = [
        store.subscribe(lambda shown: (heard.append("first"), [stop() for stop in stops])),
        store.subscribe(lambda shown: heard.append("second")),
    ]
    store.update(LOW, suppressed=False)
    store.compaction_succeeded()
    assert heard == ["first"]


def test_w8_from_many_threads_every_subscriber_ends_with_what_is_shown() -> None:
    """Told out of order, a meter would stay at a warning that is long gone."""
    store = WarningStore()
    heard: list[Warned] = []
    at_once: list[int] = []
    inside = threading.Semaphore(1)

    def callback(shown: Warned) -> None:
        at_once.append(0 if inside.acquire(blocking=False) else 1)
        heard.append(shown)
        inside.release()

    store.subscribe(callback)
    states = [low(147_000 + 1_700 * i) for i in range(8)]
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        for i in range(300):
            store.update(states[(i * (number + 1)) % 8], suppressed=i % 5 == 0)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert heard[-1] == store.shown and sum(at_once) == 0
    assert all(one != other for one, other in itertools.pairwise(heard)), "each change once"


def test_w8_the_store_loads_nothing_that_draws() -> None:
    code = """
import sys, fivefold.warn
print(sorted({"click", "jinja2", "rich", "tkinter", "curses"} & {name.partition(".")[0] for name in sys.modules}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    assert done.stdout.strip() == "[]"
