"""
The account of a run over files: what was read, judged and kept, counted and told in one way.

`dedup` and `archive` have the same summary, for people and as JSON, and the same errors where
nothing could be judged. A run that reads its inputs in several tasks adds their counts up.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

from worker.core.document import Outcome
from worker.errors import DocumentError, StopError

_COUNTS = ("documents", "damaged", "left_out", "assumed")


@dataclass
class InputTally:
    """
    Counts of the records that have been read so far, and of the documents that cannot be judged.

    Attributes:
        left_out: records that are no documents, by reason.
        assumed: times in another form than that of messages, counted by the note that `columns`
            makes.
        dead: documents that cannot be judged.
        first_damage, first_dead: place and reason of the first of them; "" if there is none.
    """

    documents: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    damaged: int = 0
    assumed: Counter[str] = field(default_factory=Counter)
    dead: int = 0
    first_damage: str = ""
    first_dead: str = ""

    def note_damage(self, place: str, reason: str) -> None:
        """Count a damaged record."""
        self.damaged += 1
        self.first_damage = self.first_damage or f"{place}: {reason}"

    def note_dead(self, place: str, error: DocumentError) -> None:
        """Count a document that cannot be judged."""
        self.dead += 1
        if not self.first_dead:
            remedy = " (--text-column names another field)" if error.code == "no-body" else ""
            self.first_dead = f"{place}: {error.code}: {error.text}{remedy}"

    @classmethod
    def joined(cls, parts: Iterable[Mapping[str, Any]]) -> Self:
        """Return the tally of several inputs, given as the fields of their tallies."""
        joined = cls()
        for part in parts:
            joined.documents += part["documents"]
            joined.damaged += part["damaged"]
            joined.dead += part["dead"]
            joined.left_out.update(part["left_out"])
            joined.assumed.update(part["assumed"])
            joined.first_damage = joined.first_damage or part["first_damage"]
            joined.first_dead = joined.first_dead or part["first_dead"]
        return joined

    def counts(self) -> dict[str, Any]:
        """Return the counts of what was read, for JSON."""
        return {name: getattr(self, name) for name in _COUNTS}

    def told(self) -> str:
        """Return one line that sums up what was read."""
        return _told_of_reading(self.counts())

    def check_judged(self, what: str = "nothing") -> None:
        """Raise StopError if no document can be judged; `what` is its name in the error."""
        if self.documents == self.dead:
            first = "".join(f"; {one}" for one in (self.first_dead, self.first_damage) if one)
            if not (first or self.left_out):
                raise StopError(f"{what} could be judged: there is nothing in what was read")
            raise StopError(f"{what} could be judged: {self.told()}{first}")


class RunAccount(NamedTuple):
    """
    The counts of a run, for its summary and its JSON.

    Attributes:
        inputs, references: what was read.
        outcomes: how many documents got each verdict.
        redelivered: how many of the new ones were kept before, and have come again.
        named_apart: how many documents have the doc_id of another input's (`apart.py`).
        kept: how many documents are kept; None: none were chosen.
        unscored: how many have nothing to choose by; None: the rule suits all.
        kept_before: how many were not chosen among, because an earlier run or a reference has the
            original of their cluster; None: nothing was chosen but the first ones.
    """

    inputs: InputTally
    references: InputTally
    outcomes: Mapping[str, int]
    redelivered: int
    named_apart: int
    kept: int | None
    unscored: int | None
    kept_before: int | None

    def summary(self) -> dict[str, Any]:
        """Return the summary for JSON; the seconds are the caller's to add."""
        return self.inputs.counts() | {
            "references": self.references.documents - self.references.dead,
            "references_unmatched": self.references.dead,
            "outcomes": self.outcomes,
            "redelivered": self.redelivered,
            "named_apart": self.named_apart,
            "kept": self.kept,
            "unscored": self.unscored,
            "kept_before": self.kept_before,
        }


def told_of(summary: Mapping[str, Any], kept_in: str = "") -> str:
    """
    Return a run's summary as a line for people.

    Args:
        summary: as `RunAccount.summary` returns it, with its seconds. One that an older version
            has left in a state may lack the newest counts.
        kept_in: where the kept documents are; "" says nothing of it.

    >>> read = InputTally(documents=3, assumed=Counter({"without a zone, read as UTC": 2}))
    >>> account = RunAccount(read, InputTally(2, dead=1), {"new": 2, "duplicate": 1}, 1, 0, 2, 1, 3)
    >>> print(told_of(account.summary() | {"seconds": 0.25}, "kept.jsonl").replace("; ", "\\n"))
    3 documents, 0 damaged records, 0 left out
    2 times without a zone, read as UTC
    matched against 1 reference (1 more could not be judged)
    1 duplicate, 1 new, 1 redelivered
    2 kept in kept.jsonl
    1 without a number or time to be preferred by
    3 copies of what an earlier run or a reference has kept: to choose among all, judge all at once
    0.2 s
    """
    parts = [_told_of_reading(summary)]
    references = summary["references"]
    unmatched = summary["references_unmatched"]
    if references or unmatched:
        more = f" ({unmatched:,} more could not be judged)" if unmatched else ""
        parts.append(f"matched against {_counted(references, 'reference')}{more}")
    parts.append(_told_of_outcomes(summary))
    if summary["kept"] is not None:
        parts.append(f"{summary['kept']:,} kept{kept_in and f' in {kept_in}'}")
    if summary["unscored"]:
        parts.append(f"{summary['unscored']:,} without a number or time to be preferred by")
    if summary.get("kept_before"):
        parts.append(
            f"{summary['kept_before']:,} copies of what an earlier run or a reference has kept: to "
            f"choose among all, judge all at once"
        )
    parts.append(f"{summary['seconds']:.1f} s")
    return "; ".join(parts)


def _told_of_outcomes(summary: Mapping[str, Any]) -> str:
    """
    Return how many documents got each verdict. One that was kept before is called no new one.

    >>> _told_of_outcomes({"outcomes": {"new": 2, "duplicate": 1}, "redelivered": 2})
    '1 duplicate, 2 redelivered'
    """
    outcomes = Counter(summary["outcomes"])
    if again := summary.get("redelivered"):
        outcomes["redelivered"] = again
        outcomes[Outcome.NEW.value] -= again
    return ", ".join(f"{count:,} {name}" for name, count in sorted(outcomes.items()) if count)


def _told_of_reading(counts: Mapping[str, Any]) -> str:
    left_out = counts["left_out"]
    reasons = ", ".join(f"{count:,} {reason}" for reason, count in sorted(left_out.items()))
    parts = [
        f"{_counted(counts['documents'], 'document')}, "
        f"{_counted(counts['damaged'], 'damaged record')}, "
        f"{sum(left_out.values()):,} left out{reasons and f' ({reasons})'}"
    ]
    parts += [f"{_counted(count, 'time')} {what}" for what, count in counts["assumed"].items()]
    return "; ".join(parts)


def _counted(count: int, noun: str) -> str:
    """
    Return a count with its noun.

    >>> _counted(1, "document"), _counted(2_000, "time")
    ('1 document', '2,000 times')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
