"""What waits in a partition that a crawler writes in transactions: `Gaps` against a plain count."""

from __future__ import annotations

import orjson
from hypothesis import given
from hypothesis import strategies as st

from worker.shell.kafka.consumer import Gaps
from worker.shell.ports import InputMessage

TOPIC = "documents"


def statistics(high: int, stable: int) -> str:
    """The client's statistics, as far as they matter; -1 is a partition that it does not know."""
    parts = {
        "0": {"hi_offset": high, "ls_offset": stable},
        "-1": {"hi_offset": -1001, "ls_offset": -1001},
    }
    return orjson.dumps({"topics": {TOPIC: {"partitions": parts}}}).decode()


@given(
    readable=st.lists(st.booleans(), max_size=30),
    held=st.integers(0, 5),
    start=st.integers(0, 30),
    share=st.floats(0, 1),
)
def test_markers_at_the_end_do_not_wait(
    readable: list[bool], held: int, start: int, share: float
) -> None:
    """
    From the first document that is not committed to the last stable offset; nothing if there is
    none, whatever markers and aborted documents (False) follow, or an open transaction holds up.
    """
    stable = len(readable)
    start = min(start, stable)
    documents = [at for at in range(start, stable) if readable[at]]
    gaps = Gaps(TOPIC)
    gaps.go_to({0: start})
    gaps.take_statistics(statistics(stable + held, stable))
    gaps.read(InputMessage(0, at, None, b"") for at in documents)
    gaps.reach(0, stable)
    done = round(share * len(documents))
    published = documents[done - 1] + 1 if done else start
    wanted = stable - published if done < len(documents) else 0
    assert gaps.waiting(0, published, stable + held) == wanted


def test_what_is_written_behind_a_gap_waits() -> None:
    """And reading again from a commit forgets what was known of the end."""
    gaps = Gaps(TOPIC)
    gaps.go_to({0: 0})
    gaps.reach(0, 5)
    assert gaps.waiting(0, 0, 5) == 0
    assert gaps.waiting(0, 0, 8) == 3
    gaps.read([InputMessage(0, 6, None, b"")])
    assert gaps.waiting(0, 7, 8) == 1
    gaps.reach(0, 8)
    assert gaps.waiting(0, 7, 8) == 0
    gaps.go_to({0: 0})
    assert gaps.waiting(0, 0, 8) == 8
    gaps.reach(0, 8)
    gaps.forget([0])
    assert gaps.waiting(0, 0, 8) == 8


def test_a_partition_is_held_up_for_as_long_as_its_last_stable_offset_stands() -> None:
    """Not by one transaction after the other, each of which ends."""
    now_s = 100.0
    gaps = Gaps(TOPIC, clock=lambda: now_s)
    held = []
    for high, stable in ((9, 9), (12, 9), (15, 9), (20, 14), (25, 14), (25, 25), (26, 25)):
        now_s += 10
        gaps.take_statistics(statistics(high, stable))
        held.append(gaps.held_s(0))
    assert held == [0, 0, 10, 0, 10, 0, 0]
    now_s += 5
    assert (gaps.held_s(0), gaps.held_s(1)) == (5, 0)
