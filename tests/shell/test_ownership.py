"""Claims: what was read under an ownership that has ended is not published."""

from __future__ import annotations

import threading
import time

from worker.shell.pipeline.ownership import Ownership


def owned(partition: int = 0) -> Ownership:
    """One partition, committed up to 5."""
    ownership = Ownership()
    ownership.assign({partition: 5})
    return ownership


def test_a_claim_holds_while_the_partition_is_ours() -> None:
    """And not for partitions that never were."""
    ownership = owned()
    claim = ownership.claim(0, ownership.rewinds)
    assert claim is not None
    assert ownership.holds(claim)
    assert ownership.claim(1, ownership.rewinds) is None


def test_a_partition_that_went_and_came_back_has_another_claim() -> None:
    """Somebody else may have published in between."""
    ownership = owned()
    claim = ownership.claim(0, 0)
    ownership.drop([0])
    ownership.assign({0: 9})
    assert claim is not None
    assert not ownership.holds(claim)
    assert ownership.holds(ownership.claim(0, 0))  # type: ignore[arg-type]


def test_a_rewind_voids_what_was_read_before_it() -> None:
    """Also what the intake was reading while the rewind was asked for: it claims with the count from before."""
    ownership = owned()
    before = ownership.rewinds
    claim = ownership.claim(0, before)
    ownership.rewind()
    assert claim is not None
    assert not ownership.holds(claim)
    late = ownership.claim(0, before)
    assert late is not None
    assert not ownership.holds(late)


def test_giving_up_waits_for_the_transaction_that_runs() -> None:
    """When it returns, nothing of these partitions is on its way; a transaction that never ends is not waited for."""
    ownership = owned()
    inside, leave = threading.Event(), threading.Event()

    def publish() -> None:
        with ownership.publishing():
            inside.set()
            leave.wait(60)

    thread = threading.Thread(target=publish)
    thread.start()
    inside.wait(60)
    assert not ownership.give_up([0], wait_s=0.05)
    started = time.monotonic()
    threading.Timer(0.1, leave.set).start()
    assert ownership.give_up([0], wait_s=60)
    assert time.monotonic() - started < 30
    thread.join()
    assert ownership.partitions() == []


def test_commits_of_partitions_that_are_gone_are_not_remembered() -> None:
    """The next record would claim an offset for a partition that another worker commits now."""
    ownership = owned()
    ownership.mark_committed({0: 7, 3: 8})
    assert ownership.committed == {0: 7}
