"""The state machine of partitions: what its head draws, what may be published, and what a revocation waits for."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.shell.pipeline import partitions
from worker.shell.pipeline.partitions import TRANSITIONS, Claim, Event, Partitions, State


def test_the_table_at_the_files_head_is_the_one_that_rules() -> None:
    """Each cell of the drawing, and no transition beside it."""
    head, *rows = [line.split() for line in (partitions.__doc__ or "").splitlines() if line.startswith("    ")]
    drawn = {
        State(state): {Event(event): State(to) for event, to in zip(head[1:], cells, strict=True) if to != "-"}
        for state, *cells in rows
    }
    assert drawn == TRANSITIONS
    assert {Event(event) for event in head[1:]} == set(Event)


def state(mine: Partitions, partition: int) -> State:
    """The state of a partition, ours or not."""
    known = mine.known().get(partition)
    return State.AWAY if known is None else known.state


def published(mine: Partitions) -> dict[int, int]:
    """The committed offsets as far as they are known."""
    return {partition: known.published for partition, known in mine.known().items()}


def owned(start: int | None = 5) -> tuple[Partitions, Claim]:
    """Partition 0, committed up to 5."""
    mine = Partitions(transaction_wait_s=0.0)
    mine.assign({0: start})
    return mine, mine.claims()[0]


def test_a_range_begins_at_the_position() -> None:
    """Offsets without a message are covered; without a committed offset the first message is the beginning."""
    mine, claim = owned()
    assert mine.read(claim, 7, 8) == 5 and mine.known()[0].position == 8
    mine, claim = owned(None)
    assert mine.read(claim, 7, 8) == 7 and mine.known()[0].position == 8


def test_what_waits_is_known_by_its_time_until_it_is_published() -> None:
    """The first that was read since nothing was in flight; behind a commit what came no earlier than its last."""
    mine, claim = owned()
    mine.read(claim, 5, 8, 1_000)
    mine.read(claim, 8, 9, 3_000)
    assert mine.known()[0].waits_since_ms == 1_000
    mine.publish({claim: 8}, {claim: 2_500})
    assert mine.known()[0].waits_since_ms == 2_500
    mine.rewind()
    assert mine.known()[0].waits_since_ms == 2_500
    mine.restart(dict.fromkeys(mine.rewinding(), 8))
    assert mine.known()[0].waits_since_ms == 0
    mine.read(claim := mine.claims()[0], 8, 9, 3_000)
    mine.publish({claim: 9}, {claim: 3_000})
    assert mine.known()[0].waits_since_ms == 0


def test_a_revocation_waits_for_the_transaction_that_runs() -> None:
    """When it returns, nothing of these partitions is on its way; a transaction that never ends is not waited for."""
    mine, _ = owned()
    with mine.transaction():
        mine.revoke([0])  # at most transaction_wait_s
    mine = Partitions(transaction_wait_s=60)
    mine.assign({0: 5})
    inside, leave, gone = threading.Event(), threading.Event(), threading.Event()

    def publish() -> None:
        with mine.transaction():
            inside.set()
            leave.wait(60)
            assert not gone.is_set()

    def revoke() -> None:
        mine.revoke([0])
        gone.set()

    threads = [threading.Thread(target=publish), threading.Thread(target=revoke)]
    threads[0].start()
    assert inside.wait(60)
    threads[1].start()
    while state(mine, 0) is not State.AWAY:  # given up at once, whatever it waits for
        pass
    leave.set()
    assert gone.wait(60)
    for thread in threads:
        thread.join()


_STEPS = st.lists(st.tuples(st.sampled_from(list(Event)), st.integers(0, 2), st.integers(0, 3)), max_size=60)


def _act(mine: Partitions, event: Event, part: int, committed: dict[int, int]) -> None:
    """What the group and a doubtful transaction do."""
    if event is Event.ASSIGN:
        mine.assign({part: committed[part]})
    elif event is Event.LEAVE:
        mine.lose([part])
    elif event is Event.REWIND:
        mine.rewind()
    elif event is Event.RESTART:
        mine.restart({claim: committed[claim.partition] for claim in mine.rewinding()})


@given(_STEPS)
def test_what_is_published_was_read_once_under_a_claim_that_holds(steps: list[tuple[Event, int, int]]) -> None:
    """Whatever happens in whatever order: ranges of one claim follow each other, and only a holder moves anything."""
    mine = Partitions()
    read: dict[Claim, list[int]] = {}  # the stops of each claim's ranges
    committed = {0: 0, 1: 0, 2: 0}
    for event, part, size in steps:
        _act(mine, event, part, committed)
        claim = mine.claims().get(part)
        if event is Event.READ and claim is not None:
            position = mine.known()[part].position
            assert position == (read.get(claim) or [committed[part]])[-1]
            assert mine.read(claim, 99, position + size + 1) == position
            read.setdefault(claim, []).append(position + size + 1)
        elif event in (Event.PUBLISH, Event.FINISH) and claim in read:
            stop = read[claim][-1 if event is Event.FINISH else 0]
            if stop > committed[part]:
                mine.publish({claim: stop})
                committed[part] = stop
            assert (state(mine, part) is State.READY) == (committed[part] == read[claim][-1])
        for one in read:
            assert mine.holds(one) == (mine.claims().get(one.partition) == one)
            assert mine.holds(one) or mine.read(one, 0, 99) is None
        assert mine.are_in_flight() == any(state(mine, number) is State.IN_FLIGHT for number in range(3))
    assert all(published(mine)[number] == committed[number] for number in mine.claims())


@pytest.mark.parametrize("state", list(State))
def test_every_state_can_be_left_and_come_back_to(state: State) -> None:
    """No partition is stuck: from each state a partition can become ready."""
    reached, todo = {state}, [state]
    while todo:
        for following in TRANSITIONS[todo.pop()].values():
            if following not in reached:
                reached.add(following)
                todo.append(following)
    assert State.READY in reached and state in {to for cells in TRANSITIONS.values() for to in cells.values()}
