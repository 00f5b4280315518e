from __future__ import annotations

import io
import time

import pytest

from selfsort.overall import LINE_EVERY, Overall, PlainLines, Ticker, in_words


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class TestTimeLeft:
    def test_a_loop_tells_how_long_the_rest_of_it_takes(self, clock: Clock) -> None:
        overall = Overall(clock=clock)
        overall.stage("reading the images", 0, 0)
        task = overall.start("decoding pictures", 400)
        clock.now += 1
        overall.advance(task, 10)
        assert overall.left() is None, "a second is no measurement"
        clock.now += 9
        overall.advance(task, 90)
        left = overall.left()
        assert left is not None
        assert left.seconds == pytest.approx(30)
        assert left.scope == "loop"
        assert overall.line() == "reading the images, decoding pictures (100 of 400), about 30 seconds left for that"
        assert overall.share() == 0.25

    def test_steps_that_are_done_tell_how_long_the_others_take(self, clock: Clock) -> None:
        overall = Overall(clock=clock)
        overall.stage("sorting with jule", 0, 0)
        clock.now += 30
        overall.stage("sorting with jule", 1, 11)
        clock.now += 10
        left = overall.left()
        assert left is not None
        assert (left.seconds, left.scope, left.measured) == (290, "stage", "1 of 11 steps")
        assert overall.line() == "sorting with jule, step 2 of 11, about 5 minutes left"

    def test_what_only_the_first_step_takes_is_left_out(self, clock: Clock) -> None:
        overall = Overall(clock=clock)
        overall.stage("sorting with jule", 0, 0)
        clock.now += 10
        overall.stage("sorting with jule", 1, 11)
        assert overall.left() is None, "it may have compiled something"
        clock.now += 2
        overall.stage("sorting with jule", 2, 11)
        left = overall.left()
        assert left is not None
        assert left.seconds == 18

    def test_steps_of_an_earlier_session_took_no_time_of_this_one(self, clock: Clock) -> None:
        overall = Overall(clock=clock)
        overall.stage("sorting with jule", 8, 0)
        clock.now += 30
        overall.stage("sorting with jule", 9, 11)
        left = overall.left()
        assert left is not None
        assert left.seconds == 60

    def test_before_the_first_step_has_ended_only_its_loop_is_known(self, clock: Clock) -> None:
        overall = Overall(clock=clock)
        overall.stage("sorting with gatcluster", 0, 0)
        task = overall.start("training", 1000)
        clock.now += 10
        overall.advance(task, 25)
        left = overall.left()
        assert left is not None
        assert (left.seconds, left.scope) == (390, "loop")
        assert overall.line().endswith("about 6 minutes left for that")

    def test_nothing_is_said_of_nothing(self, clock: Clock) -> None:
        overall = Overall(clock=clock)
        assert (overall.line(), overall.left(), overall.share(), overall.news()) == ("", None, None, None)


class TestEstimates:
    def slow_steps(self, clock: Clock, max_seconds: float | None) -> Overall:
        overall = Overall(max_seconds, clock)
        overall.stage("sorting with jule", 0, 0)
        clock.now += 60
        overall.stage("sorting with jule", 1, 10)
        return overall

    def test_are_told_once_a_stage(self, clock: Clock) -> None:
        overall = self.slow_steps(clock, None)
        said = overall.news()
        assert said is not None
        assert said.startswith("Estimate: sorting with jule takes about 10 minutes, until ")
        assert said.endswith("(measured on 1 of 10 steps).")
        assert overall.news() is None

    def test_say_when_the_time_is_not_enough(self, clock: Clock) -> None:
        said = self.slow_steps(clock, 300).news()
        assert said is not None
        assert "more than the 5 minutes of --max-minutes: it will stop in time" in said
        assert "more than" not in str(self.slow_steps(clock, 700).news())

    def test_a_loop_speaks_for_itself_alone(self, clock: Clock) -> None:
        overall = Overall(clock=clock)
        overall.stage("reading the images", 0, 0)
        task = overall.start("decoding pictures", 100)
        clock.now += 10
        overall.advance(task, 10)
        said = str(overall.news())
        assert said.startswith("Estimate: decoding pictures takes about 2 minutes, until ")
        assert said.endswith("(measured on the first 10 of 100).")

    def test_are_not_worth_it_for_a_few_seconds(self, clock: Clock) -> None:
        overall = Overall(clock=clock)
        overall.stage("reading the images", 0, 0)
        task = overall.start("decoding pictures", 100)
        clock.now += 3
        overall.advance(task, 50)
        assert overall.news() is None


class TestPlainLines:
    def test_at_least_every_thirty_seconds(self, clock: Clock) -> None:
        overall, stream = Overall(clock=clock), io.StringIO()
        lines = PlainLines(overall, stream, clock)
        overall.stage("sorting with kmeans", 0, 0)
        silent_since, longest = clock.now, 0.0
        for _ in range(400):
            clock.now += 0.5
            before = stream.tell()
            lines.tick()
            if stream.tell() > before:
                longest, silent_since = max(longest, clock.now - silent_since), clock.now
        assert 20 < longest <= LINE_EVERY
        assert set(stream.getvalue().splitlines()) == {"sorting with kmeans"}

    def test_a_reader_that_has_gone_is_no_error(self, clock: Clock) -> None:
        overall, stream = Overall(clock=clock), io.StringIO()
        overall.stage("sorting", 0, 0)
        lines = PlainLines(overall, stream, clock)
        stream.close()
        clock.now += 60
        lines.tick()


def test_a_ticker_ends_with_its_block() -> None:
    ticks: list[int] = []
    with Ticker(lambda: ticks.append(1), every=0.01):
        deadline = time.monotonic() + 10
        while not ticks and time.monotonic() < deadline:
            time.sleep(0.01)
    n_ticks = len(ticks)
    assert n_ticks
    time.sleep(0.05)
    assert len(ticks) == n_ticks


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0, "a few seconds"), (20, "about 20 seconds"), (61, "about 1 minute"), (3600, "about 60 minutes")],
)
def test_times_in_words(seconds: float, said: str) -> None:
    assert in_words(seconds) == said
