"""What comes again: the same message, the same doc_id with other content, a deletion, and the document after it."""

from __future__ import annotations

import random
import time
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.log.test_replica import DEFINITION, DIRECTED, REPLACED, TOPIC
from tests.oracle import Oracle, read_answers, said
from worker.core.verdict import Verdict
from worker.log.originals import OriginalStore
from worker.log.record import Row, RowKind, Rows, Section, Source, decode, encode
from worker.log.replica import Replica
from worker.log.rules import Definition
from worker.log.texts import Texts

SOURCE = Source(TOPIC, 0)
STORY, OTHER = 0x1234_5678_9ABC_DEF0, 0x0F0F_0F0F_F0F0_F0F0
THIRD = 0x5555_0000_FFFF_3333
NEAR = STORY ^ 0b101  # two bits from STORY

Step = tuple[str, int | None]
"""A doc_id, and the fingerprint of what came under it; None deletes it."""

HISTORIES: dict[str, list[tuple[Step, str]]] = {
    "an original again, and again": [
        (("a", STORY), "new"),
        (("a", STORY), "new: redelivered"),
        (("a", STORY), "new: redelivered"),
    ],
    "a duplicate again": [
        (("a", STORY), "new"),
        (("b", NEAR), "duplicate of a"),
        (("b", NEAR), "duplicate of a"),
    ],
    "the same doc_id with other content: the former version is gone": [
        (("a", STORY), "new"),
        (("a", OTHER), "new"),
        (("b", STORY), "new"),
        (("c", OTHER), "duplicate of a"),
    ],
    "an original edited a little is new, not a duplicate of its former self": [
        (("a", STORY), "new"),
        (("a", NEAR), "new"),
        (("b", STORY), "duplicate of a"),
    ],
    "an original becomes a copy of another: its own duplicates stay what they were": [
        (("a", STORY), "new"),
        (("b", NEAR), "duplicate of a"),
        (("c", OTHER), "new"),
        (("a", OTHER), "duplicate of c"),
        (("b", NEAR), "new"),
    ],
    "a copy right before its original changes": [
        (("a", STORY), "new"),
        (("c", OTHER), "new"),
        (("b", NEAR), "duplicate of a"),
        (("a", THIRD), "new"),
    ],
    "a copy right after its original has changed": [
        (("a", STORY), "new"),
        (("c", OTHER), "new"),
        (("a", THIRD), "new"),
        (("b", NEAR), "new"),
    ],
    "a duplicate comes with content of its own": [
        (("a", STORY), "new"),
        (("b", NEAR), "duplicate of a"),
        (("b", OTHER), "new"),
        (("c", STORY), "duplicate of a"),
    ],
    "a deletion, twice, and the document again": [
        (("a", STORY), "new"),
        (("a", None), "deleted: removed"),
        (("a", None), "deleted: not-an-original"),
        (("a", STORY), "new"),
        (("a", STORY), "new: redelivered"),
    ],
    "deletion of an original that has duplicates: the next like them is new, the others find that one": [
        (("a", STORY), "new"),
        (("b", NEAR), "duplicate of a"),
        (("a", None), "deleted: removed"),
        (("c", STORY), "new"),
        (("b", NEAR), "duplicate of c"),
        (("a", STORY), "duplicate of c"),
    ],
    "deletion of a duplicate changes nothing": [
        (("a", STORY), "new"),
        (("b", NEAR), "duplicate of a"),
        (("b", None), "deleted: not-an-original"),
        (("b", NEAR), "duplicate of a"),
    ],
    "deletion of what never came": [(("a", None), "deleted: not-an-original"), (("a", STORY), "new")],
}


def _row(offset: int, step: Step) -> Row:
    doc_id, value = step
    if value is None:
        return Row(offset, RowKind.DELETED, doc_id, "", 0)
    return Row(offset, RowKind.FULL, doc_id, f"https://example.org/{doc_id}", 0, value, value, 9)


def _told(verdict: Verdict) -> str:
    if verdict.duplicate_of is not None:
        return f"duplicate of {verdict.duplicate_of.original.doc_id}"
    return verdict.outcome.value + (f": {verdict.reason}" if verdict.reason else "")


@pytest.mark.parametrize("records_of", [1, 2, 100], ids=["a record each", "two a record", "one record"])
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES.keys())
def test_what_comes_again(history: list[tuple[Step, str]], records_of: int) -> None:
    """The answers are those of the table above, however the messages share records, and the oracle agrees."""
    rows = [_row(offset, step) for offset, (step, _) in enumerate(history)]
    replica, oracle = Replica(DEFINITION), Oracle(DEFINITION.search)
    for number, first in enumerate(range(0, len(rows), records_of)):
        chosen = rows[first : first + records_of]
        section = Section(SOURCE, first, first + len(chosen), -1, Rows.of(chosen))
        [data] = encode(DEFINITION.author("w"), [section], 1 << 20)
        replica.apply(decode(data), number, 1_000)
        replica.check()
        oracle.apply(data)
    answers = replica.answers(SOURCE, list(range(len(rows))), "documents", read_answers)
    told = [_told(answer) for answer in answers if isinstance(answer, Verdict)]
    assert told == [expected for _, expected in history]
    assert [oracle.answers[SOURCE, offset][0] for offset in range(len(rows))] == [
        text.split()[0].strip(":") for text in told
    ]


def _recrawl(seed: int, pages: int, messages: int) -> list[Row]:
    """All pages of a site, then messages: pages again, changed or not, which copy one another, some of one digest."""
    chance = random.Random(seed)
    stories = [chance.getrandbits(64) for _ in range(pages)]
    rows = []
    for offset in range(pages + messages):
        number = offset if offset < pages else chance.randrange(pages * 2)
        story = chance.choice(stories) ^ (1 << chance.randrange(64) if chance.random() < 0.8 else 0)
        kind = RowKind.FULL if number % 5 else RowKind.SHORT
        value = story if offset >= pages else stories[number]
        digest = stories.index(value) if value in stories else 0
        rows.append(Row(offset, kind, f"page-{number}", f"u{number % 300}", 0, value, digest, 9))
    return rows


def _applied(of: Definition, rows: list[Row], rows_of: int) -> Replica:
    replica = Replica(of)
    for number, first in enumerate(range(0, len(rows), rows_of)):
        chosen = rows[first : first + rows_of]
        section = Section(SOURCE, first, first + len(chosen), -1, Rows.of(chosen))
        replica.apply(decode(next(encode(of.author("w"), [section], 1 << 24))), number, 0)
    replica.check()
    return replica


@pytest.mark.parametrize("of", [DEFINITION, DIRECTED, REPLACED], ids=["exact", "directed", "replaced"])
def test_rows_of_one_record_are_judged_one_after_the_other(of: Definition) -> None:
    """Versions leave right before their successor is judged: a thousand in a record, or one in each, is the same."""
    rows = _recrawl(1, 600, 1_400)
    together, alone = _applied(of, rows, 1_000), _applied(of, rows, 1)
    for offset in range(len(rows)):
        told = [said(replica.answer(SOURCE, offset, "documents", read_answers)) for replica in (together, alone)]
        assert told[0] == told[1]


_FLOODS: dict[str, Callable[[int, random.Random], Row]] = {
    "ids in turn": lambda at, chance: _flooding(at, f"page-{at % 100}", f"u{at}", chance.getrandbits(64)),
    "one id, again": lambda at, _: _flooding(at, "page", "u", STORY),
    "one id, again and changed": lambda at, _: _flooding(at, "page", "u", (STORY, OTHER)[at // 25 % 2]),
    "a copy, again": lambda at, _: _flooding(at, ("first", "page")[at > 0], "u", STORY),
    "two copies in turn": lambda at, _: _flooding(at, f"page-{at % 2}", f"u{at % 3 == 0}", STORY),
    "one URL": lambda at, chance: _flooding(at, f"page-{at}", "u", chance.getrandbits(64)),
    "URLs change hands": lambda at, chance: _flooding(
        at, f"page-{at % 60 - at // 60}", f"u{at % 60}", chance.getrandbits(64)
    ),
    "deletions": lambda at, _: _row(at, (f"page-{at // 2 % 50}", at if at % 100 < 50 else None)),
}


def _flooding(offset: int, doc_id: str, url: str, value: int) -> Row:
    return Row(offset, RowKind.FULL, doc_id, url, 0, value, value, 9)


@pytest.mark.parametrize("of", [DEFINITION, DIRECTED, REPLACED], ids=["exact", "directed", "replaced"])
@pytest.mark.parametrize("flood", _FLOODS.values(), ids=_FLOODS.keys())
def test_what_repeats_in_a_record_is_judged_as_if_each_row_came_alone(
    of: Definition, flood: Callable[[int, random.Random], Row]
) -> None:
    """Rows with chosen doc_ids and URLs: 300 in a record, or one in each, is the same."""
    chance = random.Random(1)
    rows = [flood(at, chance) for at in range(300)]
    together, alone = _applied(of, rows, 300), _applied(of, rows, 1)
    for offset in range(len(rows)):
        told = [said(replica.answer(SOURCE, offset, "documents", read_answers)) for replica in (together, alone)]
        assert told[0] == told[1]


@pytest.mark.parametrize(
    ("flood", "batches_max"), [("ids in turn", 9), ("one id, again", 2), ("one id, again and changed", 72)]
)
def test_what_repeats_in_a_record_is_judged_in_batches(
    flood: str, batches_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every row with a doc_id that had come before in the record was judged by itself, at a hundred times the cost."""
    sizes = []
    find_many = OriginalStore.find_many

    def counted(held: OriginalStore, hashes: NDArray[np.uint64], doc_ids: Texts) -> NDArray[np.int64]:
        sizes.append(len(doc_ids))
        return find_many(held, hashes, doc_ids)

    monkeypatch.setattr(OriginalStore, "find_many", counted)
    chance = random.Random(1)
    _applied(DEFINITION, [_FLOODS[flood](at, chance) for at in range(900)], 900)
    assert 0 < len(sizes) <= batches_max


def test_a_site_that_is_crawled_again_costs_little_more_than_a_new_one() -> None:
    """A version was judged by itself, at two hundred times the cost of a new document."""
    chance = random.Random(1)
    spent_s = []
    replica = Replica(DEFINITION)
    for number in range(3):  # the first one loads the kernels
        rows = [
            Row(
                number * 2_000 + at,
                RowKind.FULL,
                f"page-{at}-{number == 0}",
                f"u-{at}",
                0,
                chance.getrandbits(64),
                at,
                9,
            )
            for at in range(2_000)
        ]
        section = Section(SOURCE, rows[0].offset, rows[-1].offset + 1, -1, Rows.of(rows))
        record = decode(next(encode(DEFINITION.author("w"), [section], 1 << 24)))
        before_s = time.process_time()
        replica.apply(record, number, 0)
        spent_s.append(time.process_time() - before_s)
    assert replica.documents == 4_000
    assert spent_s[2] < 50 * spent_s[1]
