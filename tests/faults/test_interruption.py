"""A worker leaves or dies: how long its partitions are silent, and that the others hardly notice."""

from __future__ import annotations

import pytest

from tests.faults.conftest import Deploy
from tests.faults.harness import SESSION_TIMEOUT_MS
from tests.faults.interruption import PARTITIONS, interruption

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

OTHERS_S_MAX = 1.0
SESSION_S = SESSION_TIMEOUT_MS / 1_000


@pytest.mark.parametrize("static", [True, False])
def test_a_worker_that_leaves(deploy: Deploy, static: bool) -> None:
    """Others are silent for less than a second; its partitions until they move: at once, or after the session."""
    gaps = interruption(deploy(partitions=PARTITIONS, static_membership=static), kill=False)
    print({name: str(each) for name, each in gaps.items()})
    assert gaps["committed"].others_s < OTHERS_S_MAX + gaps["committed"].before_s
    assert gaps["committed"].own_s < (SESSION_S + 2 if static else 2)


def test_a_worker_that_is_killed(deploy: Deploy) -> None:
    """
    Others publish on within a second; its partitions move when the session ends.

    Who reads committed verdicts alone may wait longer for the others' verdicts, too: those behind a dead worker's open
    transaction, until the cluster ends that.
    """
    gaps = interruption(deploy(partitions=PARTITIONS), kill=True)
    print({name: str(each) for name, each in gaps.items()})
    assert gaps["uncommitted"].others_s < OTHERS_S_MAX + gaps["uncommitted"].before_s
    assert gaps["committed"].own_s < SESSION_S + 2
