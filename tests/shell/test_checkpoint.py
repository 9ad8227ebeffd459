"""
The folder of snapshots: two are kept, damage falls back, a full disk costs nothing but the new one.
"""

from __future__ import annotations

import errno
import os
import shutil
import struct
import threading
import time
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import xxhash
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from tests.log.test_replica import DEFINITION, TOPIC, one_row
from tests.oracle import read_answer
from tests.shell.memory_log import MemoryLog, MemoryReader
from worker.core.search import SearchRules
from worker.errors import StopError
from worker.log.record import FORMAT_VERSION, Source, record_digest
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.log.snapshot import LogIdentity, capture
from worker.shell import checkpoint as checkpoint_module
from worker.shell.checkpoint import (
    INTERVALS_MAX,
    KEPT,
    Checkpoint,
    first_replica,
    locked,
    snapshots,
)
from worker.shell.files import state as state_module
from worker.shell.files.digests import FileDigest
from worker.shell.files.outputs import written
from worker.shell.pipeline.replicated_log import ReplicatedLog
from worker.shell.runtime import metrics
from worker.shell.runtime.fault_hooks import Point

LOG = LogIdentity("cluster", b"l" * 16)


def checkpoint(
    folder: Path, definition: Definition = DEFINITION, log: LogIdentity = LOG
) -> Checkpoint:
    """A checkpoint as the next start of a worker would make it."""
    return Checkpoint(folder, definition, log, "one", 60)


def applied(replica: Replica, count: int) -> Replica:
    """Apply so many records more: the log's definition, then documents unlike each other."""
    for offset in range(replica.next_offset, replica.next_offset + count):
        replica.read(
            entry(offset, fingerprint=offset * 0x9E37_79B9_7F4A_7C15 % 2**64), offset, offset
        )
    return replica


def entry(offset: int, **fields: object) -> bytes:
    return one_row(offset, **fields) if offset else DEFINITION.declaration("w", FORMAT_VERSION)


def names(folder: Path) -> list[int]:
    """The offsets of the snapshots in a folder, and nothing else is there."""
    files = sorted(path.name for path in folder.iterdir())
    assert all(name.startswith("snapshot-") for name in files), files
    return [int(name.removeprefix("snapshot-").removesuffix(".ndsnap")) for name in files]


def counted(name: str) -> float:
    return REGISTRY.get_sample_value(name) or 0.0


def test_a_metric_counts_what_snapshots_take_on_the_disk(tmp_path: Path) -> None:
    """All that were written, also those that newer ones have replaced; and nothing of a restored one."""
    replica = Replica(DEFINITION)
    sizes = 0
    before = counted("neardup_snapshot_written_bytes_total")
    for _ in range(3):
        assert checkpoint(tmp_path).save(applied(replica, 3))
        sizes += max(tmp_path.iterdir()).stat().st_size
    checkpoint(tmp_path).restore()
    assert counted("neardup_snapshot_written_bytes_total") - before == sizes


def test_metrics_say_of_when_and_where_the_last_snapshot_is(tmp_path: Path) -> None:
    """
    Of one that was restored, too: an old one of a log that stands still is as good as a new one.
    """
    replica = applied(Replica(DEFINITION), 3)
    assert checkpoint(tmp_path).save(replica)
    [path] = tmp_path.iterdir()
    os.utime(path, (5_000, 5_000))
    assert checkpoint(tmp_path).restore().next_offset == 3
    assert (counted("neardup_snapshot_timestamp_seconds"), counted("neardup_snapshot_offset")) == (
        5_000,
        3,
    )
    assert checkpoint(tmp_path).save(applied(replica, 2))
    assert time.time() - counted("neardup_snapshot_timestamp_seconds") < 600
    assert counted("neardup_snapshot_offset") == 5


def test_the_newest_comes_back_and_two_are_kept(tmp_path: Path) -> None:
    """After five saves there are the last two, and a new start stands where the last one stood."""
    replica, saving = Replica(DEFINITION), checkpoint(tmp_path)
    for _ in range(5):
        assert saving.save(applied(replica, 3))
    assert names(tmp_path) == [12, 15] and KEPT == 2
    restored = checkpoint(tmp_path).restore()
    assert (restored.next_offset, restored.documents) == (15, replica.documents)
    assert read_answer(restored, Source(TOPIC, 0), 7) == read_answer(replica, Source(TOPIC, 0), 7)
    restored.check()


def test_a_snapshot_is_written_when_it_is_due_and_something_has_changed(tmp_path: Path) -> None:
    """Not before the interval is over, not twice for the same offset."""
    times_s = [0.0]
    ticking = Checkpoint(tmp_path, DEFINITION, LOG, "one", 60, lambda: times_s[-1])
    replica = applied(Replica(DEFINITION), 4)
    for now_s, expected in ((59.0, []), (61.0, [4]), (130.0, [4])):
        times_s.append(now_s)
        ticking.tick(replica)
        assert ticking.join()
        assert names(tmp_path) == expected
    times_s.append(200.0)
    ticking.tick(applied(replica, 2))
    applied(replica, 3)  # goes on while the thread writes
    assert ticking.save(replica)
    assert names(tmp_path) == [6, 9]


def test_the_free_space_is_told_from_the_start(tmp_path: Path) -> None:
    """Until the first snapshot is due, 0 would raise the alarm of a full disk."""
    metrics.STATE_FREE_BYTES.set(0)
    checkpoint(tmp_path)
    assert counted("neardup_state_free_bytes") > 0


def test_a_large_snapshot_waits_until_it_saves_a_start_enough(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    For so many rows, or so many intervals; one that the disk did not take is tried at the next one.
    """
    monkeypatch.setattr("worker.shell.checkpoint.SMALL_BYTES", 100)
    monkeypatch.setattr("worker.shell.checkpoint.ROWS_MIN", 5)
    now_s, is_full = 0.0, False

    def write(point: Point) -> None:
        if is_full:
            raise OSError(errno.ENOSPC, f"no space left at {point}")

    ticking = Checkpoint(tmp_path, DEFINITION, LOG, "one", 60, lambda: now_s, write)
    replica = applied(Replica(DEFINITION), 4)

    def after(seconds: float, count: int) -> list[int]:
        nonlocal now_s
        now_s += seconds
        ticking.tick(applied(replica, count))
        assert ticking.join()
        return names(tmp_path)

    assert after(61, 0) == [4]  # nothing is known of its size
    assert after(61, 4) == [4]
    assert counted("neardup_state_free_bytes") > 0
    assert after(61, 1) == [4, 9]
    assert after(61, 1) == [4, 9]
    assert after(INTERVALS_MAX * 60, 0) == [9, 10]
    is_full = True
    assert after(61, 6) == [9, 10]
    is_full = False
    assert after(61, 0) == [10, 16]


@pytest.mark.parametrize(
    "error", [OSError(errno.EIO, "a broken disk"), MemoryError(), ValueError("a defect of ours")]
)
def test_a_snapshot_that_cannot_be_written_costs_itself_only(
    error: Exception, tmp_path: Path
) -> None:
    """Whatever the error: it is told and counted, and leaves no file behind."""

    def fail(point: Point) -> None:
        if replica.next_offset > 3:
            raise error

    now_s = 0.0
    ticking = Checkpoint(tmp_path, DEFINITION, LOG, "one", 60, lambda: now_s, fail)
    replica = applied(Replica(DEFINITION), 3)
    assert ticking.save(replica)
    failures = counted("neardup_snapshot_failures_total")
    now_s = 61.0
    with capture_logs() as said:
        ticking.tick(applied(replica, 2))
        assert ticking.join()
    assert [path.name for path in tmp_path.iterdir()] == [f"snapshot-{3:020}.ndsnap"]
    assert counted("neardup_snapshot_failures_total") == failures + 1
    assert [line["event"] for line in said] == ["snapshot not written, the ones before it stay"]
    assert (str(error) or "MemoryError()") in said[0]["cause"]
    assert not ticking.save(replica)


def test_a_folder_that_is_gone_costs_the_snapshot_only(tmp_path: Path) -> None:
    """As when a volume is unmounted under a running worker: the log has everything."""
    now_s = 0.0
    folder = tmp_path / "state"
    ticking = Checkpoint(folder, DEFINITION, LOG, "one", 60, lambda: now_s)
    replica = applied(Replica(DEFINITION), 3)
    folder.rmdir()
    failures = counted("neardup_snapshot_failures_total")
    now_s = 61.0
    ticking.tick(replica)
    assert ticking.join()
    assert counted("neardup_snapshot_failures_total") == failures + 1


def test_of_two_with_one_name_none_puts_the_others_file_in_place(tmp_path: Path) -> None:
    """
    A successor begins while its predecessor still writes. Under the predecessor's offset there would
    be what the successor had written by then.
    """
    begun, goes_on = threading.Event(), threading.Event()

    def wait(_: Point) -> None:
        begun.set()
        assert goes_on.wait(60)

    replica = applied(Replica(DEFINITION), 3)
    older = capture(replica, LOG)
    newer = capture(applied(replica, 2), LOG)
    successor = Checkpoint(tmp_path, DEFINITION, LOG, "one", 60, reach=wait)
    writer = threading.Thread(target=successor.write, args=(newer,))

    def begin(_: Point) -> None:
        if not writer.ident:
            writer.start()
            assert begun.wait(60)

    predecessor = Checkpoint(tmp_path, DEFINITION, LOG, "one", 60, reach=begin)
    assert not predecessor.write(older)
    goes_on.set()
    writer.join()
    assert names(tmp_path) == [5]
    [path] = snapshots(tmp_path)
    assert path.read_bytes() == b"".join(newer.parts())
    # Of a process that was killed, of one of an earlier release, and another worker's.
    for left in (f"one.{'0' * 16}", "one", f"one.more.{'0' * 16}"):
        (tmp_path / f".{left}.tmp").write_bytes(b"half")
    assert checkpoint(tmp_path).save(applied(replica, 1))
    assert [path.name for path in tmp_path.glob(".*")] == [f".one.more.{'0' * 16}.tmp"]


def test_a_slow_disk_holds_the_snapshot_and_nothing_else(tmp_path: Path) -> None:
    """
    Each part of it waits for the disk; meanwhile records are applied, no second one is begun, the
    old ones stay.
    """
    parts: list[Point] = []
    disk = threading.Event()

    def wait(point: Point) -> None:
        parts.append(point)
        assert disk.wait(60)

    replica, times_s = applied(Replica(DEFINITION), 3), [0.0]
    assert checkpoint(tmp_path).save(replica)
    ticking, taken = (
        Checkpoint(tmp_path, DEFINITION, LOG, "one", 60, lambda: times_s[-1], reach=wait),
        list[bytes](),
    )
    for now_s in (61.0, 130.0, 200.0):
        times_s.append(now_s)
        taken = [*taken, b"".join(capture(applied(replica, 2), LOG).parts())]
        ticking.tick(replica)
        assert [path.name for path in tmp_path.glob("snapshot-*")] == [f"snapshot-{3:020}.ndsnap"]
    disk.set()
    assert ticking.save(replica)
    assert names(tmp_path) == [5, 9]
    # As it was when it was begun.
    assert (tmp_path / f"snapshot-{5:020}.ndsnap").read_bytes() == taken[0]
    assert set(parts) == {Point.SNAPSHOT} and len(parts) > 40
    checkpoint(tmp_path).restore().check()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError(errno.ENOSPC, "No space left"), "No space left: free some space and run this"),
        (OSError(errno.EIO, "a broken disk"), "a broken disk: mend what it names, and run this"),
        (
            ValueError("a defect of ours"),
            r"ValueError\('a defect of ours'\): mend what it names, and run this",
        ),
    ],
)
def test_a_command_without_its_snapshot_ends_with_the_cause_and_its_remedy(
    error: Exception, said: str, tmp_path: Path
) -> None:
    """Only a full disk is told to free some space."""

    def fail(_: Point) -> None:
        raise error

    saving = Checkpoint(tmp_path, DEFINITION, LOG, "one", 60, reach=fail)
    with pytest.raises(StopError, match=f"^the state cannot be written: .*{said} again$"):
        saving.save_or_stop(applied(Replica(DEFINITION), 3), "the state cannot be written")


def test_a_copy_with_a_name_of_its_own_is_no_snapshot(tmp_path: Path) -> None:
    """By its name it would be the newest for ever, or the oldest, which is removed."""
    replica, saving = applied(Replica(DEFINITION), 3), checkpoint(tmp_path)
    assert saving.save(replica)
    copies = [tmp_path / f"snapshot-{name}.ndsnap" for name in ("monday", "-", "3")]
    for path in copies:
        shutil.copyfile(tmp_path / f"snapshot-{3:020}.ndsnap", path)
    for _ in range(KEPT + 1):
        assert saving.save(applied(replica, 2))
    assert checkpoint(tmp_path).restore().next_offset == replica.next_offset
    assert all(path.exists() for path in copies)
    assert len(snapshots(tmp_path)) == KEPT


@pytest.mark.parametrize("damage", ["byte", "empty", "unforeseen"])
def test_row_14_a_damaged_snapshot_falls_back_to_the_older_then_to_the_log(
    tmp_path: Path, damage: str
) -> None:
    """
    Whatever became of the newest, the one before it is used; with both damaged, the log from its
    first record. What damage is, is tested in `tests/log/test_snapshot.py`.
    """
    log = MemoryLog(lambda: 7)
    log.append([entry(offset) for offset in range(9)])
    whole = Replica(DEFINITION)
    ReplicatedLog(whole, MemoryReader(log), log, DEFINITION.author("w")).restore()
    saving = checkpoint(tmp_path)
    saving.save(applied(Replica(DEFINITION), 3))
    saving.save(applied(Replica(DEFINITION), 6))
    refused = counted("neardup_snapshots_refused_total")
    for at, expected in ((6, 3), (3, 0)):
        _damage(tmp_path / f"snapshot-{at:020}.ndsnap", damage)
        restored = checkpoint(tmp_path).restore()
        assert restored.next_offset == expected
    assert counted("neardup_snapshots_refused_total") == refused + 3
    ordering = ReplicatedLog(restored, MemoryReader(log), log, DEFINITION.author("w"))
    assert ordering.restore() == 9
    for offset in range(1, 9):
        assert read_answer(restored, Source(TOPIC, 0), offset) == read_answer(
            whole, Source(TOPIC, 0), offset
        )


def test_row_15_a_snapshot_of_a_log_that_has_grown_again_is_passed_over(tmp_path: Path) -> None:
    """
    Brokers have lost the last records that it has, and others stand at their offsets. It is put
    aside, since nothing else has them. A record that is gone, or does not come, says nothing.
    """
    saving = checkpoint(tmp_path)
    replica = Replica(DEFINITION)
    for _ in range(2):
        assert saving.save(applied(replica, 3))
    assert checkpoint(tmp_path).restore(record_digest_at=lambda _: None).next_offset == 6
    third = record_digest(entry(2, fingerprint=2 * 0x9E37_79B9_7F4A_7C15 % 2**64))
    for there, expected in (({5: "other", 2: third}, 3), ({2: "other"}, 0)):
        restored = checkpoint(tmp_path).restore(record_digest_at=partial(dict.get, there))
        assert restored.next_offset == expected
    assert len([*tmp_path.glob("snapshot-*.lost")]) == 2


def _damage(path: Path, how: str) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    # Whole by its checksum: a KeyError.
    odd = bytearray(path.read_bytes().replace(b'"clock_ms"', b'"clock_xx"'))
    struct.pack_into("<Q", odd, 24, xxhash.xxh3_64_intdigest(odd[:24] + odd[32:]))
    path.unlink()
    became = {"byte": bytes(data), "empty": b""}
    path.write_bytes(became.get(how, bytes(odd)))


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("look", [1, 2])  # at the definition, then at all of it
def test_a_snapshot_that_another_worker_replaces_is_no_damage(
    look: int, is_open: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before it is open, the newer one is read; from then on it is read whole, though it is gone."""
    looks = 0
    saving = checkpoint(tmp_path)
    replica = applied(Replica(DEFINITION), 3)
    assert saving.save(replica)
    mapped = checkpoint_module.map_file

    def replaced_meanwhile(path: Path) -> bytes | memoryview:
        nonlocal looks
        looks += 1
        data = mapped(path) if is_open else b""
        if looks == look:
            assert saving.save(applied(replica, 2))
            path.unlink()
        return data if is_open else mapped(path)

    monkeypatch.setattr(checkpoint_module, "map_file", replaced_meanwhile)
    refused = counted("neardup_snapshots_refused_total")
    restored = checkpoint(tmp_path).restore()
    assert restored.next_offset == (3 if is_open and look == 2 else 5)
    assert counted("neardup_snapshots_refused_total") == refused


def test_damaged_snapshots_do_not_count_among_the_two(tmp_path: Path) -> None:
    """
    A damaged one with a later offset does not push a good one out: the next good one replaces it.
    """
    saving = checkpoint(tmp_path)
    replica = Replica(DEFINITION)
    for _ in range(2):
        saving.save(applied(replica, 3))
    _damage(tmp_path / f"snapshot-{6:020}.ndsnap", "byte")
    after = checkpoint(tmp_path)
    assert after.save(applied(after.restore(), 5))
    assert names(tmp_path) == [3, 8]


def test_row_15_another_log_or_definition_is_refused_and_the_file_named(tmp_path: Path) -> None:
    """No silent fall-back: the text names the file, and what to do."""
    checkpoint(tmp_path).save(applied(Replica(DEFINITION), 3))
    for other, named in (
        (LOG._replace(cluster_id="c2"), "this worker follows .* in cluster c2"),
        (LOG._replace(topic_id=b"x" * 16), f"this worker follows {(b'x' * 16).hex()}"),
    ):
        with pytest.raises(
            StopError, match=rf"snapshot-0+3\.ndsnap.*{named}.*recreated or renewed.*state_dir"
        ):
            checkpoint(tmp_path, log=other).restore()
    for definition, named in (
        (Definition("nd1", "0" * 16, SearchRules("exact", 6)), "max_distance is 3 there, 6 here$"),
        (
            Definition("nd1", "f" * 16, SearchRules("exact", 3)),
            "parameters is '0{16}' there, 'f{16}' here$",
        ),
    ):
        with pytest.raises(StopError, match=rf"snapshot-0+3\.ndsnap has another def.*: {named}"):
            checkpoint(tmp_path, definition).restore()
    assert names(tmp_path) == [3]


@pytest.mark.parametrize(
    ("first", "records", "said"), [(5, 2, "starts at offset 5"), (0, 2, "past the log's end")]
)
def test_row_15_a_log_that_begins_after_the_snapshot_or_ends_before_it_is_refused(
    tmp_path: Path, first: int, records: int, said: str
) -> None:
    """A snapshot at offset 3 cannot go on with a log cut at 5, nor with one that ends at 2."""
    checkpoint(tmp_path).save(applied(Replica(DEFINITION), 3))
    log = MemoryLog(lambda: 7)
    log.first = first
    log.append([one_row(offset) for offset in range(first, first + records)])
    replica = checkpoint(tmp_path).restore()
    ordering = ReplicatedLog(replica, MemoryReader(log, 3), log, DEFINITION.author("w"))
    with pytest.raises(StopError, match=said):
        ordering.restore()


def test_a_log_begins_with_its_base_until_a_snapshot_has_it(tmp_path: Path) -> None:
    """
    A folder's newest or a file; once a snapshot has it the base may go, and another one or none is
    refused.
    """
    known, other, plain, own = (tmp_path / name for name in ("known", "other", "plain", "own"))
    checkpoint(known).save(applied(Replica(DEFINITION), 3))
    checkpoint(other).save(applied(Replica(DEFINITION), 4))
    checkpoint(plain).save(applied(Replica(DEFINITION), 3))

    def started(folder: Path, base: Path | None) -> Replica:
        return Checkpoint(folder, DEFINITION, LOG, "one", 60, base=base).restore()

    [file] = known.iterdir()
    replica = started(own, known)
    assert replica.definition == started(own, file).definition != DEFINITION
    assert (replica.next_offset, replica.documents) == (0, 2)
    replica.read(replica.definition.declaration("w", FORMAT_VERSION), 0, 0)
    assert checkpoint(own).save(replica)
    with pytest.raises(
        StopError,
        match=r"own/snapshot-0+1.ndsnap has another.*base_snapshot is .* there, .* here. Name",
    ):
        started(own, other)
    with pytest.raises(
        StopError,
        match=r"plain/snapshot-0+3.*base_snapshot is None there, .* leave base_snapshot out",
    ):
        started(plain, known)
    (tmp_path / "link").symlink_to(known)
    for base in (known, file, tmp_path / "link"):
        with pytest.raises(
            StopError,
            match=r"can begin with .* stands in state_dir .*move it to a folder of its own",
        ):
            started(known, base)
    file.unlink()
    with pytest.raises(
        StopError,
        match=r"no log can begin with .*known/\*.ndsnap: .*No such file.*Name a whole snapshot",
    ):
        started(tmp_path / "new", known)
    known.rmdir()
    assert checkpoint(own).definition() == replica.definition != checkpoint(plain).definition()
    assert started(own, known).definition == started(own, None).definition == replica.definition
    with pytest.raises(
        StopError, match=r"plain/snapshot-0+3.ndsnap began without a base, and there is no .*known"
    ):
        started(plain, known)
    with pytest.raises(
        StopError,
        match=r"max_distance is 3 there, 6 here\. Make the snapshot with the group's settings",
    ):
        first_replica(Definition("nd1", "0" * 16, SearchRules("exact", 6)), other)
    _damage(next(other.iterdir()), "byte")
    with pytest.raises(
        StopError, match=r"no log can begin with .*other/snapshot-.*: the snapshot is damaged"
    ):
        started(tmp_path / "new", other)


@pytest.mark.parametrize("unusable", ["empty", "folder"])
def test_the_base_is_known_by_an_older_snapshot_if_the_newest_cannot_be_read(
    tmp_path: Path, unusable: str
) -> None:
    """An older snapshot is whole, and names the base, which need not be there any more."""
    known, own = tmp_path / "known", tmp_path / "own"
    checkpoint(known).save(applied(Replica(DEFINITION), 3))
    started = Checkpoint(own, DEFINITION, LOG, "one", 60, base=known)
    replica = started.restore()
    replica.read(replica.definition.declaration("w", FORMAT_VERSION), 0, 0)
    assert started.save(replica)
    newest = own / "snapshot-00000000000000000002.ndsnap"
    if unusable == "empty":
        newest.touch()
    else:
        newest.mkdir()
    next(known.iterdir()).unlink()
    known.rmdir()
    again = Checkpoint(own, DEFINITION, LOG, "one", 60, base=known).restore()
    assert (again.definition, again.next_offset) == (replica.definition, 1)


def test_a_folder_is_held_by_one(tmp_path: Path) -> None:
    """The second to lock it is told, and the folder is free afterwards."""
    with locked(tmp_path), pytest.raises(StopError, match="in use"), locked(tmp_path):
        pass
    with locked(tmp_path):
        pass


def test_a_folder_that_may_not_be_listed_holds_outputs_and_no_state() -> None:
    """What is in a state would be overlooked. It is refused at the start, and not at the end."""
    with TemporaryDirectory() as name:  # pytest's own are of its user alone
        folder = Path(name)
        folder.chmod(0o300)
        is_root = os.geteuid() == 0
        if is_root:
            os.chown(folder, 65_534, -1)
            os.seteuid(65_534)
        try:
            says = r"cannot be listed \(Permission denied\): allow it, or name another folder"
            with pytest.raises(StopError, match=says):
                checkpoint(folder)
            with pytest.raises(StopError, match=says), locked(folder):
                pass
            with written(folder / "kept.jsonl") as stream:
                stream.write(b"{}")
            state_module._sync_folders([FileDigest(str(folder / "kept.jsonl"), 2, "")])
        finally:
            if is_root:
                os.seteuid(0)
            folder.chmod(0o700)


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    """A file where the folder should be."""
    (tmp_path / "file").touch()
    with pytest.raises(StopError, match=r"file/state cannot be made \(Not a directory\): name an"):
        checkpoint(tmp_path / "file" / "state")
