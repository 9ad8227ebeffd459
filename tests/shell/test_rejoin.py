"""
When a worker leaves its group and joins it again: the rule, look by look, and a group of workers
that go by it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter

from worker.errors import RetryError
from worker.settings import Settings
from worker.shell.kafka.admin import Admin, Member, Topic
from worker.shell.kafka.consumer import GroupConsumer
from worker.shell.pipeline.intake import REJOIN_S
from worker.shell.pipeline.membership import Membership
from worker.shell.pipeline.rejoin import DOUBLINGS_MAX, LOOK_S, LookEvent, RejoinRule, Shares
from worker.shell.runtime import metrics

PATIENCE_S = 70.0
MOVES, WHOLE, CHANGED, LASTS, DUE = LookEvent


def shares(generation: str, turn: int | None = 0, without: Sequence[int] = (0, 1)) -> Shares:
    """A group in which the same members have the same shares as long as `generation` is the same."""
    return Shares(((generation, (2, 3)),), tuple(without), turn)


Looks = list[tuple[Shares | None, LookEvent]]


def until_due(seen: Shares, looks: int) -> Looks:
    """Looks at a group that has changed, stays as it is for so many looks more, and is due then."""
    return [(seen, CHANGED), *[(seen, LASTS)] * looks, (seen, DUE)]


# Looks, LOOK_S apart, and what each of them means.
CASES: dict[str, Looks] = {
    "nobody acts before both times have passed": until_due(shares("a"), 2),
    "an attempt without success doubles the wait": [
        *until_due(shares("a"), 2),
        *until_due(shares("b"), 4),
        (None, MOVES),
        *until_due(shares("c"), 9),
    ],
    "an attempt that the group has not noticed comes again after the same wait": [
        *until_due(shares("a"), 2),
        *until_due(shares("a"), 2)[1:] * 10,
        *until_due(shares("b"), 4),
    ],
    "another's attempt without success does, too": [
        *until_due(shares("a", 1), 3)[:-1],
        *until_due(shares("b"), 4),
    ],
    "the second one waits twice as long": until_due(shares("a", 1), 4),
    "success makes the next wait short again": [
        *until_due(shares("a"), 2),
        (shares("b", without=()), WHOLE),
        *until_due(shares("a"), 2),
    ],
    "a rebalance begins the wait anew": [
        *until_due(shares("a"), 2)[:-1],
        (None, MOVES),
        (shares("a"), CHANGED),
        (shares("a"), LASTS),
    ],
    "a group whose members come one after the other is left alone": [
        (shares(str(generation)), CHANGED) for generation in range(50)
    ],
    "a group that goes on rebalancing is left alone": [(None, MOVES)] * 50,
    "a worker that is no member has no turn": until_due(shares("a", None), 50)[:-1],
}


@pytest.mark.parametrize("looks", CASES.values(), ids=CASES)
def test_what_a_look_at_the_group_means(looks: Looks) -> None:
    """Only a group that is stable and unchanged over the whole wait is due."""
    now_s = 0.0
    rule = RejoinRule(PATIENCE_S, lambda: now_s)
    events = []
    for seen, _ in looks:
        now_s += LOOK_S
        events.append(rule.take(seen))
    assert events == [event for _, event in looks]


def test_a_process_that_stood_still_needs_one_more_look() -> None:
    """A day passed between two looks that say the same; a third one has to confirm it."""
    now_s = 0.0
    rule = RejoinRule(PATIENCE_S, lambda: now_s)
    rule.take(shares("a"))
    now_s += 86_400
    assert rule.take(shares("a")) is LASTS
    now_s += LOOK_S
    assert rule.take(shares("a")) is DUE


@pytest.mark.parametrize("changes", range(3))
@pytest.mark.parametrize("turn", range(3))
def test_the_wait_told_at_an_attempt_is_that_before_the_next(turn: int, changes: int) -> None:
    """If nothing changes. Each earlier attempt after which the group changed has doubled it."""
    now_s = 0.0
    rule = RejoinRule(PATIENCE_S, lambda: now_s)

    def attempted_s(names: str) -> float:
        """Look until an attempt is due. Return when that was."""
        nonlocal now_s
        while True:
            now_s += LOOK_S
            if rule.take(shares(names, turn=turn)) is DUE:
                return now_s

    for change in range(changes):
        attempted_s("ab"[change % 2])
    begun_s = attempted_s("c")
    told_s = rule.wait_s(turn)
    assert told_s == PATIENCE_S * (turn + 1) * 2**changes
    assert 0 <= attempted_s("c") - begun_s - told_s < LOOK_S


def test_a_partition_of_a_member_that_is_no_worker_has_an_owner() -> None:
    """Whoever has it, leaving the group would not help; a member without partitions goes first."""
    workers = [Member("m1", "one", "a", (2,)), Member("m2", "two", "b", ())]
    foreign = Member("m3", "a-thief", "c", (0, 1), is_static=False)
    group = [*workers, foreign]
    assert Shares.of(group, workers, "one", 3).without_owner == ()
    assert [Shares.of(group, workers, name, 4)[1:] for name in ("one", "two", "three")] == [
        ((3,), 1),
        ((3,), 0),
        ((3,), None),
    ]


@dataclass
class Group:
    """
    A group whose leader shares partitions out at each rebalance, but leaves one without an owner the
    first `failures` times.
    """

    workers: list[str]
    failures: int
    generation: int = 0
    joined: dict[str, int] = field(default_factory=dict)  # worker -> generation of its joining

    def members(self) -> list[Member]:
        missing = self.generation < self.failures
        count = len(self.workers)
        return [
            Member(
                f"{name}-{self.joined.get(name, 0)}",
                name,
                "host",
                tuple(range(number, 2 * count - missing, count)),
            )
            for number, name in enumerate(self.workers)
        ]

    def rejoin(self, name: str) -> None:
        self.generation += 1
        self.joined[name] = self.generation


@given(
    st.integers(1, 6).flatmap(
        lambda count: st.tuples(
            st.lists(st.floats(0, LOOK_S, exclude_max=True), min_size=count, max_size=count),
            st.sets(st.integers(0, count - 1), max_size=count - 1),
        )
    ),
    st.integers(1, 6),
)
def test_a_group_gets_whole_by_one_worker_after_the_other(
    workers: tuple[list[float], set[int]], failures: int
) -> None:
    """
    However the looks of the workers lie, whichever of them hang, and however often the leader fails:
    the group becomes whole; nobody acts before the patience has passed since the last rebalance, and
    there are as many attempts as the leader needs.
    """
    phases, hanging = workers
    group = Group([f"w{number}" for number in range(len(phases))], failures)
    now_s = 0.0
    rules = {name: RejoinRule(PATIENCE_S, lambda: now_s) for name in group.workers}
    rebalanced_s = 0.0
    # Each attempt may take the longest wait of the last worker, and some looks.
    looks_max = failures * (len(phases) * 2**DOUBLINGS_MAX * 3 + 10)
    for look in range(looks_max):
        for phase, number in sorted((phase, number) for number, phase in enumerate(phases)):
            now_s = look * LOOK_S + phase
            name = group.workers[number]
            members = group.members()
            seen = Shares.of(members, members, name, 2 * len(phases))
            if rules[name].take(seen) is DUE and number not in hanging:
                assert seen.without_owner and now_s - rebalanced_s >= PATIENCE_S
                group.rejoin(name)
                rebalanced_s = now_s
        if group.generation >= failures:
            break
    assert group.generation == failures
    settled = [rules[name] for name in group.workers]
    for rule, name in zip(settled, group.workers, strict=True):
        members = group.members()
        assert rule.take(Shares.of(members, members, name, 2 * len(phases))) is WHOLE
        assert rule.attempts == 0


class StableAdmin(Admin):
    """
    Sees one group for ever, in which nobody owns the first of two partitions. It does not answer
    these looks, and never how much waits.
    """

    def __init__(self, silent: Collection[int] = (), *, how: str = "silent") -> None:
        """
        Connect to nothing. Without an answer, the coordinator is "silent", "loading", or "late" with
        the answer of some seconds ago.
        """
        self._silent = silent
        self._how = how
        self.asked: list[str] = []
        self.now_s = 0.0

    def members(self, group: str) -> tuple[str, list[Member]]:
        looks = self.asked.count("members")
        self.asked.append("members")
        answer = "stable", [Member("m1", "one", "a", (1,)), Member("m2", "two", "b", ())]
        if looks not in self._silent:
            return answer
        match self._how:
            case "loading":
                return "", []
            case "late":
                self.now_s += REJOIN_S + 0.1
                return answer
        raise RetryError("no answer")

    def existing(self, names: Sequence[str]) -> dict[str, Topic]:
        self.asked.append("existing")
        if self._how == "late topics":
            self.now_s += REJOIN_S + 0.1
        return {name: Topic(name, b"", 2, 1, {}) for name in names}

    def ends(
        self, topics: Mapping[str, int], *, stable: bool = False
    ) -> dict[tuple[str, int], tuple[int, int]]:
        self.asked.append("ends")
        raise RetryError("no answer")


def leaves_at(admin: StableAdmin, worker_id: str = "two", protocol: str = "classic") -> list[int]:
    """Return at which of ten looks a worker leaves the group."""
    left: list[int] = []

    def leave() -> None:
        left.append(look)
        admin.asked.append("leaves")

    settings = Settings(
        worker_id=worker_id, call_timeout_s=30.0, kafka={"group.protocol": protocol}
    )
    membership = Membership(settings, admin, leave, lambda: admin.now_s)
    for look in range(10):
        admin.now_s = look * LOOK_S
        with suppress(RetryError):
            membership.look()
    return left


def test_the_worker_with_the_fewest_partitions_leaves_after_a_session_and_the_longest_poll() -> (
    None
):
    """10 s and four times 30 s, by looks every 30 s."""
    assert leaves_at(StableAdmin()) == [5]


def test_no_worker_leaves_where_the_coordinator_shares_out() -> None:
    """That is KIP-848."""
    assert leaves_at(StableAdmin(), protocol="consumer") == []


def test_a_worker_decides_before_it_counts_what_waits() -> None:
    """
    Counting takes requests, after which the look would be an old one, and they may have no answer.
    """
    admin = StableAdmin()
    assert leaves_at(admin, "one") == [9]  # the second to go; it counts what waits
    assert admin.asked == [
        *["existing", "members", "ends"] * 9,
        "existing",
        "members",
        "leaves",
        "ends",
    ]


@pytest.mark.parametrize("how", ["silent", "loading", "late"])
@pytest.mark.parametrize("silent", range(6))
def test_a_look_without_an_answer_is_none(silent: int, how: str) -> None:
    """The next one is compared with the last that had an answer; only the first one begins a wait."""
    assert leaves_at(StableAdmin({silent}, how=how)) == [5 if 0 < silent < 5 else 6]


def test_only_the_answer_about_the_group_may_be_late() -> None:
    """Time spent on asking for the topics does not make the answer about the group old."""
    assert leaves_at(StableAdmin(how="late topics")) == [5]


def test_a_rejoin_is_counted_when_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """The order alone is none: a worker that cannot leave its group stays in it."""
    counted = Counter("rejoins", "", registry=CollectorRegistry())
    monkeypatch.setattr(metrics, "REJOINS", counted)

    def count() -> float:
        return next(iter(counted.collect())).samples[0].value

    consumer = GroupConsumer(
        Settings(bootstrap="127.0.0.1:1"),
        lambda commits, _first: commits,
        lambda _starts: None,
        lambda _numbers: None,
        lambda _numbers: None,
    )
    try:
        consumer.rejoin()
        assert count() == 0
        consumer.poll(1, 0.0)
        assert count() == 1
        consumer.poll(1, 0.0)
        assert count() == 1
    finally:
        consumer.close()
