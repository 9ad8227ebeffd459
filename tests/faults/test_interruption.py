"""A worker leaves or dies: how long its partitions are silent, and that the others hardly notice."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pytest

from tests.busy import TRIES
from tests.faults.conftest import Deploy
from tests.faults.harness import SESSION_TIMEOUT_MS
from tests.faults.interruption import BATCH_DOCUMENTS_MAX, PARTITIONS, Gaps, interruption

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OTHERS_S_MAX = 1.0
SESSION_S = SESSION_TIMEOUT_MS / 1_000


def within(deploy: Deploy, bounds: Callable[[Mapping[str, Gaps]], bool], *, static: bool, kill: bool) -> None:
    """Measure until the bounds are kept, `TRIES` times at most: a busy machine only ever adds to a gap."""
    tried = []
    for _ in range(TRIES):
        deployment = deploy(partitions=PARTITIONS, static_membership=static, batch_documents_max=BATCH_DOCUMENTS_MAX)
        gaps = interruption(deployment, kill=kill)
        deployment.finish()
        if bounds(gaps):
            return
        deployment.end()
        tried.append({name: str(each) for name, each in gaps.items()})
    raise AssertionError(tried)


@pytest.mark.parametrize("static", [True, False])
def test_a_worker_that_leaves(deploy: Deploy, static: bool) -> None:
    """Others are silent for less than a second; its partitions until they move: at once, or after the session."""

    def bounds(gaps: Mapping[str, Gaps]) -> bool:
        seen = gaps["committed"]
        own_s_max = (SESSION_S + 2 if static else 2) + seen.before_s
        return seen.others_s < OTHERS_S_MAX + seen.before_s and seen.own_s < own_s_max

    within(deploy, bounds, static=static, kill=False)


def test_a_worker_that_is_killed(deploy: Deploy) -> None:
    """
    Others publish on within a second; its partitions move when the session ends.

    Who reads committed verdicts alone may wait longer for the others' verdicts, too: those behind a dead worker's open
    transaction, until the cluster ends that.
    """

    def bounds(gaps: Mapping[str, Gaps]) -> bool:
        others, own = gaps["uncommitted"], gaps["committed"]
        return others.others_s < OTHERS_S_MAX + others.before_s and own.own_s < SESSION_S + 2 + own.before_s

    within(deploy, bounds, static=True, kill=True)
