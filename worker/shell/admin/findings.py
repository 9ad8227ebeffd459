"""What an audit reads of the published answers, and what it finds."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from worker.shell.ports import Headers


class Defect(StrEnum):
    """What can be wrong with the answer to a source offset."""

    LOST = "lost"  # committed by the group, and never answered
    REPEATED = "repeated"  # answered more than once
    WRONG = "wrong"  # answered otherwise than the log says, or not to be answered at all
    MUTUAL = "mutual"  # two documents that are each a duplicate of the other


class Finding(NamedTuple):
    """One defect. Partition and offset are the source's; -1 where a message names none."""

    defect: Defect
    partition: int
    offset: int
    text: str


class AnswerMessage(NamedTuple):
    """One committed message of the verdicts' or the dead letters' topic."""

    key: bytes | None
    value: bytes | None
    headers: Headers
    is_dead_letter: bool


@dataclasses.dataclass(frozen=True)
class Report:
    """Counts over the whole history. `defects` has every defect's number, `findings` the first of each."""

    documents: int  # source offsets that the topic or the log has
    answered: int  # source offsets with at least one answer
    outcomes: Mapping[str, int]  # new, duplicate, skipped, deleted, dead-letter
    unanswered: int  # not committed yet: they wait for a worker
    expired: int  # without an answer that is still kept, because answers so old have been deleted
    defects: Mapping[str, int]
    findings: tuple[Finding, ...]
    log_records: int
    log_rows: int
    log_rows_repeated: int  # second appends, ignored by every replica
    new_documents: int | None = None  # messages of `topic_new`; None: not asked for

    @property
    def clean(self) -> bool:
        """Return whether nothing is lost, repeated, wrong or mutual. What is unanswered only waits."""
        return not any(self.defects.values())

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, as for JSON."""
        return {
            **{name: value for name, value in dataclasses.asdict(self).items() if name != "findings"},
            "clean": self.clean,
            "findings": [finding._asdict() for finding in self.findings],
        }
