"""
Renewing a log, as far as it shows without a cluster: the new topic, and what an old log is known by.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.log.test_replica import DEFINITION
from worker.log.replica import Replica
from worker.log.snapshot import LogIdentity
from worker.settings import Settings
from worker.shell.admin.renew import _create_log, lineage
from worker.shell.checkpoint import Checkpoint, first_replica, newest
from worker.shell.kafka.admin import Admin, Topic

LOGS = 4


class CreatedTopics(Admin):
    """Creates each topic that it is asked for, of as many replicas."""

    def __init__(self) -> None:
        """Connect to nothing."""
        self.topics: dict[str, Topic] = {}

    def create(self, name: str, partitions: int, replicas: int, config: Mapping[str, str]) -> bool:
        self.topics[name] = Topic(name, b"", partitions, replicas, dict(config))
        return True

    def describe(self, names: Sequence[str]) -> dict[str, Topic]:
        return {name: self.topics[name] for name in names}


@pytest.mark.parametrize(("replicas", "in_sync"), [(1, None), (2, None), (3, "2"), (5, "2")])
@pytest.mark.parametrize("replication_factor", [1, 3])
def test_the_new_log_has_as_many_replicas_as_the_old_one(
    replicas: int, in_sync: str | None, replication_factor: int
) -> None:
    """Workers do not need `replication_factor`, so what their settings say of it is nothing."""
    admin = CreatedTopics()
    settings = Settings(topic_fingerprints="new", replication_factor=replication_factor)
    _create_log(admin, settings, Topic("old", b"", 1, replicas, {}))
    new = admin.topics["new"]
    assert (new.partitions, new.replicas) == (1, replicas)
    assert new.config.get("min.insync.replicas") == in_sync


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
        assert list(lineage(base)) == made[number:]


@pytest.mark.parametrize("missing", range(1, LOGS))
@pytest.mark.parametrize("is_damaged", [False, True])
def test_the_bases_end_where_one_is_missing(missing: int, is_damaged: bool, tmp_path: Path) -> None:
    """What lies behind it is not known any more to belong to the present log."""
    made = bases(tmp_path)
    if is_damaged:
        made[missing].write_bytes(b"damaged")
    else:
        made[missing].unlink()
    assert list(lineage(made[0])) == made[:missing]
