"""How busy the machine is: limits that are meant for a free one are stretched by that, within bounds."""

from __future__ import annotations

import os
from collections.abc import Callable

__all__ = ["EVENTUALLY_S", "TRIES", "stretched", "takes_less"]

EVENTUALLY_S = 90.0  # for what has to happen some time: a start that compiles takes 8 s on a free machine
TRIES = 3
FREE_PER_CORE = 2.0  # the tests themselves keep that many programs running on each core
STRETCH_MAX = 5.0


def stretched(limit_s: float) -> float:
    """
    Return a limit for the machine as it is: 1 to 5 times as long, by how many programs want each core.

    >>> 1.0 <= stretched(1.0) <= 5.0
    True
    """
    per_core = os.getloadavg()[0] / (os.cpu_count() or 1)
    return limit_s * min(max(per_core / FREE_PER_CORE, 1.0), STRETCH_MAX)


def takes_less(waits_s: float, work_s: float, scenario: Callable[[], float]) -> None:
    """
    Play a scenario that gives what a fault has cost until that is within the limit, `TRIES` times at most.

    A busy machine only ever adds to it. What else the scenario checks, it checks each time.

    Args:
        waits_s: the time-outs that the fault costs, on any machine.
        work_s: what is done besides, on a free one.
    """
    tried = []
    for _ in range(TRIES):
        took_s = scenario()
        limit_s = waits_s + stretched(work_s)
        if took_s < limit_s:
            return
        tried.append(f"{took_s:.1f} s of {limit_s:.1f} s")
    raise AssertionError(f"took too long each time: {', '.join(tried)}")
