"""
A group that begins with the originals of files, on Apache Kafka: two workers, a kill, and whom the
log refuses.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from tests.faults.conftest import Deploy
from tests.faults.crawl import Message, crawl
from worker.core.document import Outcome
from worker.errors import DefinitionError, StopError
from worker.settings import Settings
from worker.shell.admin import rebuild
from worker.shell.admin.verify import verify
from worker.shell.files.engine import file_engine
from worker.shell.files.state import opened_state
from worker.shell.messages import decode_verdict

pytestmark = [pytest.mark.kafka, pytest.mark.faults]

MESSAGES = 150


def _known(folder: Path, seed: int) -> set[str]:
    """Judge a crawl as `neardup dedup --state` does; return the doc_ids of its originals."""
    with opened_state(folder) as state, file_engine(Settings(threads=1), state) as engine:
        for _ in engine.answers(crawl(seed, MESSAGES)):
            pass
        held = engine.replica.judge.held
        return {held.get(row).doc_id for row in held.live_between(held.first, len(held)).tolist()}


def _copies(seed: int) -> Iterator[Message]:
    """The documents of a crawl under names of their own: each must be found in the base."""
    for key, value in crawl(seed, MESSAGES):
        if value is not None and value.startswith(b'{"doc_id"'):
            assert key is not None
            fields = orjson.loads(value)
            yield b"copy-" + key, orjson.dumps({**fields, "doc_id": f"copy-{fields['doc_id']}"})


def test_a_stream_begins_where_a_corpus_at_rest_ends(deploy: Deploy, tmp_path: Path) -> None:
    """
    Copies of what the files had are duplicates of it, through a kill; without the base, or by
    another, all ends.
    """
    known, other, state = (tmp_path / name for name in ("known", "other", "state"))
    originals = _known(known, 1)
    _known(other, 2)
    deployment = deploy(base_snapshot=known)
    first, _ = (
        deployment.start_all("one", "two", fault="after-append:kill:4"),
        deployment.start_all("three"),
    )
    deployment.supervise(*first)
    deployment.feed(_copies(1))
    deployment.feed(crawl(3, MESSAGES))
    deployment.until_all_committed()
    assert [code for _, code in deployment.endings] and {
        code for _, code in deployment.endings
    } == {-signal.SIGKILL}
    report = verify(deployment.settings)
    assert report.clean and (report.answered, report.unanswered) == (deployment.fed, 0), report
    verdicts = [
        decode_verdict(message.value)
        for message in deployment.read(deployment.settings.topic_verdicts)
    ]
    copies = [
        one
        for one in verdicts
        if one.doc_id.startswith("copy-") and one.outcome is not Outcome.SKIPPED
    ]
    of_base = [
        one for one in copies if one.duplicate_of and one.duplicate_of.original.doc_id in originals
    ]
    # The others' originals had left the base: deleted, or changed.
    assert len(of_base) > 0.7 * len(copies) > 50
    assert any(
        one.outcome is Outcome.NEW and not one.doc_id.startswith("copy-") for one in verdicts
    )

    without = deployment.settings.model_copy(update={"base_snapshot": None})
    with pytest.raises(
        DefinitionError, match="Name the snapshot with this digest as base_snapshot"
    ):
        verify(without)
    changed = without.model_copy(update={"max_distance": 6})
    with pytest.raises(StopError, match="begins with a snapshot"):
        rebuild.plan(changed, deployment.admin)
    for name, base in (("none", ""), ("other", other)):
        refused = deployment.start(name, base_snapshot=base)
        assert refused.wait() == 1
        assert "Name the snapshot with this digest as base_snapshot" in refused.log_tail()

    worker = deployment.start_all("four", state_dir=state)[0]
    assert worker.stop() == 0
    known.rename(tmp_path / "away")
    deployment.start_all("four", state_dir=state)
    deployment.feed(crawl(4, MESSAGES))
    deployment.until_all_committed()
    (tmp_path / "away").rename(known)
    assert verify(deployment.settings).clean
