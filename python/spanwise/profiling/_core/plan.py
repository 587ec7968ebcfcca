"""Which call sites are to be recorded more cheaply, or in full again: plain arithmetic.

A site that costs much goes down steps: no probes, no rows but sums, the time of one call in 8
and in 64, nothing. What each step costs a call is known, and how often each site was called;
so the most expensive ones go down first, one step per window each, until the rest fits the
budget.
"""

from __future__ import annotations

from typing import NamedTuple

# As the native half numbers them.
FULL, ROWS, SUMS, SAMPLED, OFF = range(5)

CALM_WINDOWS = 3
# A site that is off is tried again after this many windows: 5 seconds.
OFF_WINDOWS = 25


class Step(NamedTuple):
    """A way to record a site."""

    mode: int
    shift: int
    words: str


STEPS = (
    Step(FULL, 0, "in full"),
    Step(ROWS, 0, "times only"),
    Step(SUMS, 0, "sums only"),
    Step(SAMPLED, 3, "one call in 8"),
    Step(SAMPLED, 6, "one call in 64"),
    Step(OFF, 0, "not recorded"),
)
LAST = len(STEPS) - 1
# Operations that the program begins and ends itself, and parts of tasks, keep their rows.
LAST_WITH_ROWS = 1


class Costs(NamedTuple):
    """Seconds for one call."""

    # Two times and what goes with them.
    time: float
    # The way into the wrapper and out of it, where nothing is recorded.
    through: float
    # What the thread that writes takes for a row.
    row: float
    # What the level measures beside the time.
    probes: float
    # A call of a site that is off.
    off: float
    # Beginning and ending an operation by hand.
    by_hand: float

    def of(self, step: int, is_by_hand: bool) -> float:
        """What a call costs at a step."""
        mode, shift, _ = STEPS[step]
        timed = self.by_hand if is_by_hand else self.through + self.time
        if mode == FULL:
            return timed + self.row + self.probes
        if mode == ROWS:
            return timed + self.row
        if mode == SUMS:
            return timed
        if mode == SAMPLED:
            return self.through + self.time / 2**shift
        return self.off


class Load(NamedTuple):
    """What was seen of a site in a window."""

    site: int
    step: int
    calls: float
    is_by_hand: bool = False
    # For how many windows it has been off.
    off_windows: int = 0

    @property
    def last_step(self) -> int:
        return LAST_WITH_ROWS if self.is_by_hand else LAST


class Move(NamedTuple):
    """A site that is to be recorded in another way."""

    site: int
    before: int
    after: int
    # What it would cost as before, of the processor time of the process, in percent.
    percent: float


def percent_of(loads: list, costs: Costs, busy_s: float) -> float:
    """What all sites cost, of the processor time."""
    seconds = sum(load.calls * costs.of(load.step, load.is_by_hand) for load in loads)
    return 100.0 * seconds / busy_s


def down(loads: list, costs: Costs, busy_s: float, budget: float) -> list:
    """Moves that save what is over the budget, most expensive sites first; one step each."""
    over_s = (percent_of(loads, costs, busy_s) - budget) / 100.0 * busy_s
    moves: list = []

    def seconds(load: Load, step: int) -> float:
        return load.calls * costs.of(step, load.is_by_hand)

    for load in sorted(loads, key=lambda load: (-seconds(load, load.step), load.site)):
        if over_s <= 0:
            break
        before, after = seconds(load, load.step), _cheaper(load, costs)
        if after is not None and before > 0:
            moves.append(Move(load.site, load.step, after, 100.0 * before / busy_s))
            over_s -= before - seconds(load, after)
    return moves


def _cheaper(load: Load, costs: Costs) -> int | None:
    """The next step that costs less; without probes, "times only" does not."""
    now = costs.of(load.step, load.is_by_hand)
    for step in range(load.step + 1, load.last_step + 1):
        if costs.of(step, load.is_by_hand) < now:
            return step
    return None


def up(loads: list, costs: Costs, busy_s: float, budget: float) -> Move | None:
    """The move to more that costs least and keeps all within half of the budget."""
    spare_s = (budget / 2 - percent_of(loads, costs, busy_s)) / 100.0 * busy_s
    found = None
    for load in sorted(loads, key=lambda load: load.site):
        if load.step == 0 or STEPS[load.step].mode == OFF:
            continue
        more = costs.of(load.step - 1, load.is_by_hand) - costs.of(load.step, load.is_by_hand)
        more_s = load.calls * more
        if more_s < spare_s and (found is None or more_s < found[0]):
            percent = 100.0 * load.calls * costs.of(load.step - 1, load.is_by_hand) / busy_s
            found = (more_s, Move(load.site, load.step, load.step - 1, percent))
    return None if found is None else found[1]


def try_again(loads: list) -> list:
    """Sites that have been off for long: the time of some calls shows whether they still cost."""
    return [
        Move(load.site, load.step, load.step - 1, 0.0)
        for load in loads
        if STEPS[load.step].mode == OFF and load.off_windows >= OFF_WINDOWS
    ]
