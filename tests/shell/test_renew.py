"""
Renewing a log, as far as it shows without a cluster: what is told, and what an old log is known by.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.log.test_replica import DEFINITION
from worker.errors import DefinitionError, StopError
from worker.log.record import FORMAT_VERSION, Rows, Section, Source, encode
from worker.log.replica import Replica
from worker.log.snapshot import LogIdentity
from worker.settings import Settings
from worker.shell.admin import renew, verify
from worker.shell.admin.renew import _tell_fewer_replicas, base_made_of, former_stops, lineage
from worker.shell.checkpoint import Checkpoint, first_replica, newest
from worker.shell.kafka.admin import Topic
from worker.shell.kafka.reader import TopicMessage
from worker.shell.ports import LogEntry

LOGS = 4


@pytest.mark.parametrize(
    ("old", "named", "is_told"),
    [
        (3, {"replication_factor": 1}, True),
        (3, {"replication_factor": 3}, False),
        (1, {"replication_factor": 3}, False),
        (3, {}, False),
    ],
)
def test_fewer_replicas_of_the_new_log_are_told(
    old: int, named: dict[str, Any], is_told: bool
) -> None:
    """With both numbers. Nothing is refused: it may be what the user wants."""
    with capture_logs() as said:
        _tell_fewer_replicas(Settings(**named), Topic("old", b"", 1, old, {}))
    texts = [
        "the new log gets replication_factor=1, and old has 3 replicas" in line["event"]
        for line in said
    ]
    assert texts == [True] * is_told


def bases(folder: Path) -> list[Path]:
    """Return the bases of logs that were renewed one after the other, the last one first."""
    found: list[Path] = []
    replica = Replica(DEFINITION)
    for number in range(LOGS):
        log = LogIdentity("c", bytes([number]) * 16)
        kept = folder / f"fingerprints-{number}"
        assert Checkpoint(kept, replica.definition, log, "one", 300).save(replica)
        base = newest(kept)
        assert base is not None
        found.insert(0, base)
        replica = first_replica(DEFINITION, base)
    return found


def test_a_base_leads_to_those_of_all_logs_before(tmp_path: Path) -> None:
    """From whichever one begins; others in the folder, and later ones, are none of them."""
    made = bases(tmp_path)
    Checkpoint(tmp_path / "x-1", DEFINITION, LogIdentity("x", bytes(16)), "x", 300).save(
        Replica(DEFINITION)
    )
    for number, base in enumerate(made):
        assert lineage(base) == (made[number:], [])


def test_where_a_former_source_topic_ended_is_known_to_the_new_log() -> None:
    """By its coverage in the old one; what is covered of the present topic is said by the group."""
    replica = Replica(DEFINITION)
    sources = {Source(b"1" * 16, 0): 7, Source(b"1" * 16, 3): 9, Source(b"2" * 16, 0): 5}
    sections = [Section(source, 0, stop, stop, Rows.of([])) for source, stop in sources.items()]
    replica.read(DEFINITION.declaration("w", FORMAT_VERSION), 0, 1)
    [record] = encode(DEFINITION.author("w"), sections, 10_000)
    replica.read(record, 1, 1)
    assert former_stops(replica, b"2" * 16) == {Source(b"1" * 16, 0): 7, Source(b"1" * 16, 3): 9}


@pytest.mark.parametrize(
    "foreign",
    [b"a console's line", b'{"neardup":"definition"}', b'{"neardup":"definition", cut'],
    ids=["a text", "fields missing", "no JSON"],
)
def test_a_foreign_record_before_the_definition_is_passed_over(
    foreign: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As replicas do; where the definition is another one or missing, nothing is deleted."""
    settings = Settings()

    def check(*records: bytes, first: int = 0) -> None:
        entries = [LogEntry(offset, 0, value) for offset, value in enumerate(records)]
        ends = {(settings.topic_fingerprints, 0): (first, len(records))}
        admin: Any = SimpleNamespace(ends=lambda _: ends)
        monkeypatch.setattr(verify, "read_log", lambda *_: (entry for entry in entries))
        renew._refuse_without_base(settings, admin)

    check(foreign, settings.rules.declaration("w", FORMAT_VERSION))
    with pytest.raises(DefinitionError, match="the log"):
        check(foreign, DEFINITION.declaration("w", FORMAT_VERSION))
    with pytest.raises(StopError, match="is empty, or its beginning was deleted"):
        check(foreign)
    with pytest.raises(StopError, match="is empty, or its beginning was deleted"):
        check(foreign, settings.rules.declaration("w", FORMAT_VERSION), first=1)


class SilentReader:
    """A reader of a topic of which nothing arrives."""

    def __init__(self, *_: object, **__: object) -> None: ...

    def at_end(self) -> bool:
        return False

    def read(self, _timeout_s: float) -> list[TopicMessage]:
        return []

    def awaited(self) -> list[tuple[str, int]]:
        return [("fingerprints", 0)]

    def close(self) -> None: ...


def test_a_log_that_does_not_answer_is_not_taken_for_one_without_a_definition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A broker that is away would else let a log be rebuilt that has the definition already."""
    settings = Settings()
    admin: Any = SimpleNamespace(ends=lambda _: {(settings.topic_fingerprints, 0): (0, 5)})
    monkeypatch.setattr(verify, "TopicReader", SilentReader)
    monkeypatch.setattr(verify, "STALL_S", 0.0)
    with pytest.raises(StopError, match=r"nothing arrived from fingerprints\[0\] .* safe to run"):
        verify.is_declared(settings, admin, settings.rules)


def _damage(base: Path, damage: str) -> None:
    """Take a base away, or leave something else in its place."""
    if damage == "gone":
        base.unlink()
    elif damage == "no snapshot":
        base.write_bytes(b"damaged")
    else:
        base.write_bytes(base.read_bytes().replace(b'"cluster_id"', b'"cluster-id"'))


@pytest.mark.parametrize("missing", range(1, LOGS))
@pytest.mark.parametrize("damage", ["gone", "no snapshot", "no header"])
def test_the_bases_end_where_one_is_missing(missing: int, damage: str, tmp_path: Path) -> None:
    """
    What lies behind it is not known any more to belong to the present log. A file that cannot be
    read is named, since it may be the one.
    """
    made = bases(tmp_path)
    _damage(made[missing], damage)
    found, unreadable = lineage(made[0])
    assert found == made[:missing]
    assert len(unreadable) == (damage != "gone")
    assert all(text.startswith(f"{made[missing]}: ") for text in unreadable)


@pytest.mark.parametrize("folder", ["bases/fingerprints-3", "bases", ".", "elsewhere"])
@pytest.mark.parametrize("is_folder", [False, True])
def test_the_bases_are_found_however_the_last_one_is_written(
    folder: str, is_folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Relative to the folder in which the command runs; the folder of a snapshot stands for it."""
    made = bases(tmp_path / "bases")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / folder)
    base = Path(os.path.relpath(made[0].parent if is_folder else made[0]))
    for number, expected in enumerate(reversed(made)):
        assert base_made_of(LogIdentity("c", bytes([number]) * 16), base) == expected


@pytest.mark.parametrize("damage", ["no snapshot", "no header"])
def test_a_base_that_cannot_be_read_is_named(damage: str, tmp_path: Path) -> None:
    """Without it nothing shows that an old log can go."""
    made = bases(tmp_path)
    _damage(made[2], damage)
    with pytest.raises(StopError, match=f"a whole copy in the place of each .{made[2]}: "):
        base_made_of(LogIdentity("c", bytes(16)), made[0])
    _damage(made[0], damage)
    with pytest.raises(StopError, match=f"^{made[0]}: "):
        base_made_of(LogIdentity("c", bytes(16)), made[0])
