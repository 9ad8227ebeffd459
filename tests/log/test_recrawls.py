"""A page that is crawled again: what its verdict says of the version before."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.log.test_replica import DIRECTED, FACTS, TOPIC
from tests.oracle import read_answers
from worker.core.verdict import Verdict
from worker.log.record import Row, RowKind, Rows, Section, Source, decode, encode
from worker.log.replica import Replica
from worker.log.rules import Definition

PAGE = 0x0123_4567_89AB_CDEF
EDITED, REWRITTEN = PAGE ^ 0b11, ~PAGE & (2**64 - 1)
SKETCHES = {EDITED: FACTS[2], REWRITTEN: FACTS[1]}
ROWS = [  # doc_id, URL, fingerprint
    ("a1", "https://example.org/a", PAGE),
    ("a2", "https://example.org/a", EDITED),
    ("a3", "https://example.org/a", REWRITTEN),
    ("a4", "https://example.org/a", REWRITTEN),
    ("copy", "https://example.com/copy", PAGE),
    ("a3", "https://example.org/a", PAGE >> 1),
]


def told(definition: Definition, records_of: int) -> list[tuple[str, str | None, str | None]]:
    """Outcome, doc_id of the original, and the former version with how much has changed, of each row."""
    source = Source(TOPIC, 0)
    rows = [
        Row(at, RowKind.FULL, doc_id, url, at, value, value, 9, sketch=SKETCHES.get(value, FACTS[0]))
        for at, (doc_id, url, value) in enumerate(ROWS)
    ]
    replica = Replica(definition)
    for number, at in enumerate(range(0, len(rows), records_of)):
        part = rows[at : at + records_of]
        [data] = encode(definition.author("w"), [Section(source, at, at + len(part), -1, Rows.of(part))], 1 << 20)
        replica.apply(decode(data), number, 0)
        replica.check()
    answers = replica.answers(source, range(len(rows)), "documents", read_answers)
    found = []
    for answer in answers:
        assert isinstance(answer, Verdict)
        of, former = answer.duplicate_of, answer.former_version
        before = f"{former.original.doc_id} {former.changed} {former.similarity}" if former else None
        found.append((answer.outcome.value, of.original.doc_id if of else None, before))
    return found


@pytest.mark.parametrize("records_of", [1, 2, 6])
def test_a_recrawl_names_the_former_version_and_how_much_has_changed(records_of: int) -> None:
    """A version that changed little is a duplicate of the former one; else it is new; its doc_id's goes before."""
    assert told(DIRECTED, records_of) == [
        ("new", None, None),
        ("duplicate", "a1", "a1 little 0.895"),
        ("new", None, "a1 much 0.0"),
        ("duplicate", "a3", "a3 not 1.0"),
        ("duplicate", "a1", None),
        ("new", None, "a3 much 0.0"),
    ]


@pytest.mark.parametrize("records_of", [1, 2, 6])
def test_a_recrawl_takes_the_place_of_the_former_version_where_settings_say_so(records_of: int) -> None:
    """A version with any change is new, and a copy of the former one finds nothing; one without is a duplicate."""
    assert told(replace(DIRECTED, recrawls="replace"), records_of) == [
        ("new", None, None),
        ("new", None, "a1 little 0.895"),
        ("new", None, "a2 much 0.0"),
        ("duplicate", "a3", "a3 not 1.0"),
        ("new", None, None),
        ("new", None, "a3 much 0.0"),
    ]
