"""
The state machine of partitions beside its table. What is published under its claims `simulation.py`
holds.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from worker.shell.kafka.consumer import GroupConsumer
from worker.shell.pipeline import service
from worker.shell.pipeline.partitions import Claim, Partitions
from worker.shell.runtime.metrics import Lag


def published(mine: Partitions) -> dict[int, int]:
    """The committed offsets as far as they are known."""
    return {partition: known.published for partition, known in mine.known().items()}


def owned(start: int = 5) -> tuple[Partitions, Claim]:
    """Partition 0, committed up to 5."""
    mine = Partitions(transaction_wait_s=0.0)
    mine.assign({0: start})
    return mine, mine.claims()[0]


def test_a_range_begins_at_the_position() -> None:
    """Offsets without a message are covered."""
    mine, claim = owned(5)
    assert mine.read(claim, 8) == 5 and mine.known()[0].position == 8


def test_what_waits_is_known_by_its_time_until_it_is_published() -> None:
    """
    The first that was read since nothing was in flight; behind a commit what came no earlier than
    its last.
    """
    mine, claim = owned()
    mine.read(claim, 8, 1_000)
    mine.read(claim, 9, 3_000)
    assert mine.known()[0].waits_since_ms == 1_000
    mine.publish({claim: 8}, {claim: 2_500})
    assert mine.known()[0].waits_since_ms == 2_500
    mine.rewind()
    assert mine.known()[0].waits_since_ms == 2_500
    mine.restart(dict.fromkeys(mine.rewinding(), 8))
    assert mine.known()[0].waits_since_ms == 0
    mine.read(claim := mine.claims()[0], 9, 3_000)
    mine.publish({claim: 9}, {claim: 3_000})
    assert mine.known()[0].waits_since_ms == 0


def test_a_document_without_a_time_stamp_has_waited_no_time() -> None:
    """Its -1 is no time in 1969."""
    mine, claim = owned()
    mine.read(claim, 8, -1)
    source = SimpleNamespace(waiting=lambda _published: {0: 3}, held_s=lambda _number: 0.0)
    assert service._lags(mine, cast(GroupConsumer, source)) == {0: Lag(3, 0.0, 0.0)}


@pytest.mark.parametrize(
    "happens", [Partitions.rewind, lambda mine: mine.assign({0: 5}), lambda mine: mine.lose([0])]
)
def test_under_a_void_claim_nothing_moves(happens: Callable[[Partitions], None]) -> None:
    """
    Nothing is read, published or restarted: who reads next, perhaps this worker, begins at the
    committed offset.
    """
    mine, void = owned()
    assert mine.read(void, 9) == 5
    happens(mine)
    before = mine.known()
    assert not mine.holds(void) and mine.read(void, 12) is None
    mine.publish({void: 9})
    mine.restart({void: 9})
    assert mine.known() == before


def test_a_transaction_that_never_ends_is_not_waited_for() -> None:
    """
    A revocation waits for the end of one, at most `transaction_wait_s`; `test_publishing` has one
    that ends.
    """
    mine, claim = owned()
    with mine.transaction:
        mine.revoke([0])
    assert not mine.holds(claim)
