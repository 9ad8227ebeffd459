"""
Which records of a log count: the first definition rules, and all replicas ignore the same (fault
row 24).
"""

from __future__ import annotations

import random
import struct
from dataclasses import replace
from itertools import combinations
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.log.test_replica import TOPIC, Step, record, rows, steps, told
from tests.log.test_snapshot import LOG, to_bytes
from tests.oracle import Said
from tests.shell.memory_log import MemoryLog, MemoryReader
from worker.core.search import SearchRules
from worker.errors import DefinitionError, StopError
from worker.log import record as log_record
from worker.log import rules
from worker.log.record import FORMAT_VERSION, Row, RowKind, Rows, Section, Source, encode
from worker.log.replica import Replica
from worker.log.rules import Definition, Ignored, Retention
from worker.log.snapshot import restore
from worker.settings import Settings
from worker.shell.pipeline.replicated_log import ReplicatedLog

DEFINITION = Definition("nd1", "0" * 16, SearchRules("exact", 3))
OTHER = Definition("nd1", "0" * 16, SearchRules("exact", 6))
DECLARED = DEFINITION.declaration("w1", FORMAT_VERSION)
ROW = Row(0, RowKind.FULL, "d", "https://example.org/", 5, 7, 7, 9)


def of(definition: Definition, record_format: int = FORMAT_VERSION, **fields: object) -> bytes:
    """A record with one row."""
    row = ROW._replace(**fields)  # type: ignore[arg-type]
    section = Section(Source(TOPIC, 0), row.offset, row.offset + 1, -1, Rows.of([row]))
    return next(encode(definition.author("w"), [section], 10_000, record_format))


def with_format(data: bytes, number: int) -> bytes:
    """A record that says that it has another format."""
    return data[:4] + struct.pack("<H", number) + data[6:]


def raising(definition: Definition, author: str, number: int) -> bytes:
    """A declaration that raises the log's format, as a version with a newer one will write it."""
    fields = orjson.loads(definition.declaration(author, number))
    return orjson.dumps({**fields, "raises": True})


def later_declaration(definition: Definition, number: int) -> bytes:
    """
    A declaration as a later version writes it: other fields beside those that all versions know.
    """
    fields = orjson.loads(definition.declaration("w9", number))
    return orjson.dumps({**fields, "new": [1], "rules": {**fields["rules"], "new_rule": 1}})


STRAY = {
    "null": (b"", Ignored.FOREIGN),
    "text": (b'{"url": "https://example.org/", "text": "from a console producer"}', Ignored.FOREIGN),
    "cut": (of(DEFINITION)[:-1], Ignored.FOREIGN),
    "other rows": (of(OTHER), Ignored.DEFINITION),
    "other definition": (OTHER.declaration("w2", FORMAT_VERSION), Ignored.DEFINITION),
    "later definition": (later_declaration(OTHER, FORMAT_VERSION + 1), Ignored.DEFINITION),
    "later rows": (with_format(of(DEFINITION), FORMAT_VERSION + 1), Ignored.FORMAT),
    "declaration without rules": (
        b'{"neardup":"definition","format":2,"raises":true,"hash":"","scheme":"","author":""}',
        Ignored.FOREIGN,
    ),
    "declaration cut": (DECLARED[:-1], Ignored.FOREIGN),
    "a kind that is none": (of(DEFINITION, kind=7), Ignored.FOREIGN),
    "a time that is none": (of(DEFINITION, fetched_at_ms=2**62), Ignored.FOREIGN),
}  # fmt: skip


@given(rows(), rows(), steps, st.randoms(use_true_random=False))
def test_stray_records_anywhere_change_nothing(
    one: list[Row], two: list[Row], taken: list[Step], dice: random.Random
) -> None:
    """
    Before the definition, behind it, between any two records, with a restart among them: the offset
    alone moves on.

    Neither coverage nor originals nor answers nor the log's clock nor its format is another one.
    """
    of = replace(DEFINITION, retention=Retention(1_000))
    replica, plain = Replica(of), Replica(of)
    records = (record({0: one, 1: two}, step, of) for step in taken)
    for number, data in enumerate([of.declaration("w1", FORMAT_VERSION), *records]):
        names = sorted(name for name in STRAY if number or "definition" not in name)
        for name in dice.sample(names, dice.randint(0, 2)):
            stray, reason = STRAY[name]
            judged, repeated, ignored = replica.read(stray, replica.next_offset, 9_999_999)
            assert (judged, repeated) == (0, 0) and (ignored is reason or (ignored and not number))
        for each in (plain, replica):
            each.read(data, replica.next_offset, 7)
        if dice.random() < 0.1:
            replica = restore(to_bytes(replica), of, LOG)
    assert to_bytes(replica) == to_bytes(plain)


def answers(replica: Replica) -> dict[int, list[Said]]:
    """What a replica says of each document that its log has."""
    known = {
        partition: [
            at for at in range(40) if not replica.missing(Source(TOPIC, partition), at, at + 1)
        ]
        for partition in (0, 1)
    }
    return {
        partition: told(replica, offsets, Source(TOPIC, partition))
        for partition, offsets in known.items()
    }


@pytest.mark.parametrize("old", [with_format(of(DEFINITION), 1), DEFINITION.declaration("w1", 2)])
def test_a_log_of_a_format_that_is_read_no_more_is_refused(old: bytes) -> None:
    """
    Both formats are named, and nothing of it is taken; in a log of today such records change
    nothing.
    """
    replica = Replica(DEFINITION)
    with pytest.raises(DefinitionError, match=r"record 4.*: record_format is [12] there, 4 here$"):
        replica.read(old, 4, 0)
    replica.read(DECLARED, 5, 0)
    replica.read(old, 6, 0)
    assert (replica.next_offset, replica.documents, replica.acceptance.record_format) == (
        7,
        0,
        FORMAT_VERSION,
    )


NEXT = FORMAT_VERSION + 1


@pytest.fixture
def next_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """A version that reads and writes one more format, of the same columns."""
    monkeypatch.setattr(log_record, "FORMAT_VERSION", NEXT)
    monkeypatch.setattr(rules, "FORMAT_VERSION", NEXT)


@pytest.mark.usefixtures("next_version")
def test_a_rolling_upgrade() -> None:
    """
    New versions read old records and write them until a declaration allows their own; then the old
    ones end.
    """
    replica, new = Replica(DEFINITION), of(DEFINITION, NEXT, offset=1)
    for offset, data in enumerate([DECLARED, of(DEFINITION)]):
        replica.read(data, offset, 0)
    # Although this version could read it: others could not.
    assert replica.read(new, 2, 0).ignored is Ignored.FORMAT
    assert restore(to_bytes(replica), DEFINITION, LOG).acceptance.record_format == FORMAT_VERSION
    # It had not read the log.
    assert replica.read(DEFINITION.declaration("late", NEXT), 3, 0).ignored is None
    assert replica.acceptance.record_format == FORMAT_VERSION
    assert replica.read(raising(DEFINITION, "new", NEXT), 4, 0).ignored is None
    assert replica.read(new, 5, 0).judged == 1
    # Of a worker that had not read so far.
    assert replica.read(of(DEFINITION, offset=2), 6, 0).judged == 1
    assert replica.read(raising(DEFINITION, "old", FORMAT_VERSION), 7, 0).ignored is None
    assert replica.acceptance.record_format == NEXT


def test_an_older_version_ignores_what_newer_ones_ignore_and_ends_where_they_go_on() -> None:
    """The same log under this version: the same decisions up to the declaration, then the end."""
    replica = Replica(DEFINITION)
    for offset, data in enumerate([DECLARED, of(DEFINITION), of(DEFINITION, NEXT, offset=1)]):
        replica.read(data, offset, 0)
    assert not replica.missing(Source(TOPIC, 0), 0, 1) and replica.missing(Source(TOPIC, 0), 1, 2)
    with pytest.raises(
        StopError,
        match="continues in records of format 5, but this version reads formats up to 4: start the newer",
    ):
        replica.read(raising(DEFINITION, "new", NEXT), 3, 0)


def worker(
    log: MemoryLog,
    definition: Definition,
    name: str,
    writes: Definition | None = None,
) -> ReplicatedLog:
    """
    A worker's way to the log. `writes` is the definition that its records have, if it is not its
    own.
    """
    author = (writes or definition).author(name)
    return ReplicatedLog(Replica(definition), MemoryReader(log), log, author)


def part(offset: int) -> Section:
    row = ROW._replace(offset=offset, doc_id=f"d{offset}")
    return Section(Source(TOPIC, 0), offset, offset + 1, -1, Rows.of([row]))


def append(one: ReplicatedLog, offset: int) -> None:
    one.append(one.missing(part(offset)))


def test_of_two_workers_on_an_empty_log_the_first_rules_and_the_other_stops() -> None:
    """Neither has read the other's record when it appends; nothing of the second one counts."""
    log = MemoryLog(lambda: 0)
    first, second = worker(log, DEFINITION, "w1"), worker(log, OTHER, "w2")
    append(first, 0)
    with pytest.raises(
        DefinitionError, match=r"record 0, written by 'w1'.*: max_distance is 3 there, 6 here"
    ):
        append(second, 1)
    append(first, 2)
    third = worker(log, DEFINITION, "w3")
    third.restore()
    assert [len(third.missing(part(offset))) for offset in range(3)] == [0, 1, 0]


def test_an_author_whose_records_are_ignored_stops() -> None:
    """A record that no replica takes is fatal to the one who wrote it, and to nobody else."""
    log = MemoryLog(lambda: 0)
    good, bad = worker(log, DEFINITION, "w1"), worker(log, DEFINITION, "w2", writes=OTHER)
    append(good, 0)
    bad.restore()
    with pytest.raises(
        StopError, match=r"does not accept this worker's records: those of offsets \[1, 2\)"
    ):
        append(bad, 1)
    append(good, 2)
    assert good.replica.next_offset == 4


@pytest.mark.usefixtures("next_version")
def test_workers_write_the_format_that_the_log_has() -> None:
    """A version with a newer format writes the old one until a declaration raises it."""
    log = MemoryLog(lambda: 0)
    log.append([DECLARED])
    new = worker(log, DEFINITION, "new")
    new.restore()
    append(new, 0)
    log.append([raising(DEFINITION, "newest", NEXT)])
    new.follow(0)
    append(new, 1)
    formats = [
        struct.unpack_from("<H", entry.value, 4)[0]
        for entry in log.entries
        if entry.value[:4] == b"NDLG"
    ]
    assert formats == [FORMAT_VERSION, NEXT]


def test_all_that_decides_a_verdict_is_in_the_hash() -> None:
    """Each part of a definition alone makes another one."""
    base = Definition("nd1", "0" * 16)
    others = [
        replace(base, scheme="nd2"), replace(base, parameters="1" * 16),
        replace(base, pages="pages-2"), replace(base, search=SearchRules("exact", 12)),
        replace(base, search=SearchRules(look_min=801)),
        replace(base, search=SearchRules(patterns=17)), replace(base, retention=Retention(1_000)),
        replace(base, retention=Retention(1_000, "last")),
    ]  # fmt: skip
    assert len({each.hash for each in [base, *others]}) == len(others) + 1
    for other in others:
        with pytest.raises(DefinitionError):
            Replica(base).read(other.declaration("w", FORMAT_VERSION), 0, 0)
    for same in (
        replace(base, settings={"token_unit": "word"}),
        replace(base, retention=Retention(0, "last")),
    ):
        assert same.hash == base.hash  # where nothing ever leaves, `expire_from` means nothing


def test_only_what_differs_is_named() -> None:
    """
    Values come back from JSON as they went in, lists for tuples; without readable rules the hashes
    are named. What follows from another setting is not named: a hash of parameters, the search
    rules of a mode.
    """
    one, two = (
        Definition("nd1", digit * 16, settings={"widths": (2, 3), "weight": int(digit)})
        for digit in "12"
    )
    with pytest.raises(DefinitionError) as refusal:
        Replica(one).read(two.declaration("w", FORMAT_VERSION), 0, 0)
    assert refusal.value.differences == {"parameters": ("2" * 16, "1" * 16), "weight": (2, 1)}
    chosen: dict[str, tuple[Any, Any]] = {
        "search_mode": ("exact", "directed"), "max_distance": (3, 15),
        "shingle_widths": ((3,), (2,)), "text_characters_max": (5_000, 1_048_576),
        "search_size": ("large", "small"), "expire_after_s": (9, 0), "documents_max": (9, 0),
    }  # fmt: skip
    for names in (
        *combinations(chosen, 1),
        ("search_mode", "max_distance"),
        ("shingle_widths", "text_characters_max"),
    ):
        other = Settings(**{name: chosen[name][0] for name in names}).rules
        with pytest.raises(DefinitionError) as refusal:
            Replica(Settings().rules).read(other.declaration("w", FORMAT_VERSION), 0, 0)
        assert set(refusal.value.differences) == set(names)
    kept = Settings(expire_after_s=60, expire_from="last").rules.retention
    assert kept == Retention(60_000, "last", 0)
