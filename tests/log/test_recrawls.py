"""A page that is crawled again: what its verdict says of the version before."""

from __future__ import annotations

import pytest

from tests.log.test_replica import DIRECTED, FACTS, REPLACED, SOURCE, packed, replay, told
from tests.oracle import read_answer
from worker.core.verdict import Verdict
from worker.log.record import Row, RowKind
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


OUTCOMES = {  # and the doc_id of the original, the former version and how much has changed
    "compare": [
        ("new", None, None),
        ("duplicate", "a1", "a1 little"),
        ("new", None, "a1 much"),
        ("duplicate", "a3", "a3 not"),
        ("duplicate", "a1", None),
        ("new", None, "a3 much"),
    ],
    "replace": [
        ("new", None, None),
        ("new", None, "a1 little"),
        ("new", None, "a2 much"),
        ("duplicate", "a3", "a3 not"),
        ("new", None, None),
        ("new", None, "a3 much"),
    ],
}


@pytest.mark.parametrize("records_of", [1, 2, 6])
@pytest.mark.parametrize("definition", [DIRECTED, REPLACED], ids=lambda definition: definition.recrawls)
def test_a_recrawl_names_the_former_version_and_how_much_has_changed(definition: Definition, records_of: int) -> None:
    """
    A version that changed little is a duplicate of the former one; else it is new; its doc_id's goes before.

    Where it takes the former one's place, a version with any change is new, and a copy of the former finds nothing.
    """
    rows = [
        Row(at, RowKind.FULL, doc_id, url, at, value, value, 9, sketch=SKETCHES.get(value, FACTS[0]))
        for at, (doc_id, url, value) in enumerate(ROWS)
    ]
    firsts = range(0, len(rows), records_of)
    replica = replay([packed(definition, rows[first : first + records_of]) for first in firsts], definition)
    assert [(said[0], said[1], said[6]) for said in told(replica, range(len(rows)))] == OUTCOMES[definition.recrawls]
    answer = read_answer(replica, SOURCE, 1)
    assert isinstance(answer, Verdict) and answer.former_version and answer.former_version.similarity == 0.895
