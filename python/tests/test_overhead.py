"""Claims about cost are judged by what was measured, and by nothing else."""

import random

import pytest

from spanwise.profiling import ProfilerLevel
from spanwise.profiling.adaptive import overhead
from spanwise.profiling.adaptive.overhead import BROKEN, HOLDS, UNDECIDED, Claim, Interval, interval_of


@pytest.mark.parametrize("interval, at_most, expected", [
    (Interval(0.1, 0.2, 0.3), 0.3, HOLDS),
    (Interval(0.1, 0.2, 0.3), 0.2, UNDECIDED),
    (Interval(0.1, 0.2, 0.3), 0.1, UNDECIDED),
    (Interval(0.1, 0.2, 0.3), 0.05, BROKEN),
    (Interval(-2.0, 0.0, 2.0), 1.0, UNDECIDED),
])
def test_a_claim_is_broken_only_by_all_of_the_interval(interval, at_most, expected):
    assert interval.judge(at_most) == expected


def noisy(seed, true_percent, count):
    """Figures as a virtual machine gives them: some percent up and down, now and then far off."""
    chance = random.Random(seed)
    for _ in range(count):
        stolen = chance.choice([0, 0, 0, 0, 40]) * (chance.random() - 0.5)
        yield true_percent + chance.gauss(0.0, 3.0) + stolen


def test_the_interval_holds_the_truth_as_often_as_it_says():
    held = 0
    for seed in range(400):
        low, _, high = interval_of(list(noisy(seed, 0.4, 300)))
        held += low <= 0.4 <= high
    assert held >= 0.98 * 400


@pytest.mark.parametrize("true_percent, at_most, never", [
    (0.4, 1.0, BROKEN),
    (1.6, 1.0, HOLDS),
])
def test_noise_does_not_turn_a_verdict_around(true_percent, at_most, never):
    for seed in range(200):
        assert interval_of(list(noisy(seed, true_percent, 600))).judge(at_most) != never


def test_more_figures_decide():
    few, many = (interval_of(list(noisy(1, 0.4, count))).judge(1.0) for count in (10, 5000))
    assert (few, many) == (UNDECIDED, HOLDS)


def test_a_claim_that_is_false_does_not_hold(tmp_path):
    # Reading the time of the thread alone is hundreds of times what this allows.
    claim = Claim(ProfilerLevel.DETAILED, 5, 0.001)
    line, word, row = overhead.check(ProfilerLevel.DETAILED, 5, str(tmp_path), claim)
    assert row.percent.judge(claim.percent_max) == BROKEN
    # Where other programs kept taking the processor away, nothing is said.
    assert word == (UNDECIDED if row.lost > overhead.LOST_MAX else BROKEN)
    assert f"at most 0.001 %: {word}" in line


def test_self_check_ends_with_one_where_a_claim_is_false(monkeypatch, capsys):
    monkeypatch.setattr(overhead, "SPANS_US", (5,))
    monkeypatch.setattr(overhead, "CLAIMS", (Claim(ProfilerLevel.DETAILED, 5, 0.001),))
    monkeypatch.setattr(overhead, "LOST_MAX", 1.0)
    assert overhead.main(["--self-check"]) == 1
    assert overhead.main([]) == 0
    monkeypatch.setattr(overhead, "CLAIMS", (Claim(ProfilerLevel.DETAILED, 5, 1000.0),))
    assert overhead.main(["--self-check"]) == 0
    assert capsys.readouterr().out.count("DOES NOT HOLD") == 2


def pairs_of(blocks):
    """Pairs of plain and decorated blocks: seconds of the thread and of the clock, each."""
    return [((plain, plain * away), (profiled, profiled)) for plain, profiled, away in blocks]


def test_blocks_that_lost_the_processor_are_left_out():
    calm, disturbed = [(1.0, 1.01, 1.0)] * 60, [(1.0, 1.5, 1.3)] * 40
    row = overhead.summed_up(ProfilerLevel.BASIC, 5, pairs_of(calm + disturbed))
    assert row.percent.high == pytest.approx(1.0) and row.lost == pytest.approx(0.4)
    assert row.judge(Claim(ProfilerLevel.BASIC, 5, 0.5)) == BROKEN
    row = overhead.summed_up(ProfilerLevel.BASIC, 5, pairs_of(calm + 2 * disturbed))
    assert row.judge(Claim(ProfilerLevel.BASIC, 5, 0.5)) == UNDECIDED
    assert row.judge(Claim(ProfilerLevel.BASIC, 5, 1.5)) == HOLDS


def test_every_level_has_a_claim_that_is_measured():
    levels = {claim.level for claim in overhead.CLAIMS}
    assert levels == {level for level in ProfilerLevel if level is not ProfilerLevel.DISABLED}
    assert {claim.span_us for claim in overhead.CLAIMS} <= set(overhead.SPANS_US)
