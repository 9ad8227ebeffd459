"""
What comes again: the same message, the same doc_id with other content, a deletion, and the document
after it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.log.histories import applied, in_records
from tests.log.test_replica import DEFINITION, DIRECTED, REPLACED, definition, told
from worker.core.index import Column, Judgement, SearchIndex
from worker.log.record import Row, RowKind
from worker.log.rules import Definition, Retention

STORY, OTHER = 0x1234_5678_9ABC_DEF0, 0x0F0F_0F0F_F0F0_F0F0


def _row(offset: int, doc_id: str, value: int | None) -> Row:
    if value is None:
        return Row(offset, RowKind.DELETED, doc_id, "", 0)
    return Row(offset, RowKind.FULL, doc_id, f"https://example.org/{doc_id}", 0, value, value, 9)


def _site(chance: random.Random) -> Callable[[int], Row]:
    """
    All pages of a site, then pages again, changed or not, which copy one another, some of one
    digest.
    """
    stories = [chance.getrandbits(64) for _ in range(150)]

    def row(at: int) -> Row:
        number = at if at < len(stories) else chance.randrange(2 * len(stories))
        story = chance.choice(stories) ^ (1 << chance.randrange(64) if chance.random() < 0.8 else 0)
        value = story if at >= len(stories) else stories[number]
        digest = stories.index(value) if value in stories else 0
        made = _flooding(at, f"page-{number}", f"u{number % 150}", value)
        return made._replace(kind=RowKind.FULL if number % 5 else RowKind.SHORT, digest=digest)

    return row


def _busy(chance: random.Random) -> Callable[[int], Row]:
    """Few pages with few texts, which are near one another: sent twice, changed, copied, deleted."""
    texts = [chance.getrandbits(64) for _ in range(5)]
    texts += [text ^ (1 << bit) for text in texts for bit in (0, 40)]
    sent = [_row(0, "page-0", texts[0])]

    def row(at: int) -> Row:
        drawn = chance.random()
        if drawn < 0.35:
            made = chance.choice(sent[-12:])
            if drawn < 0.05:
                made = made._replace(digest=made.digest ^ 1)
            elif drawn < 0.1:
                made = made._replace(fingerprint=made.fingerprint ^ 1)
        else:
            value = None if drawn < 0.45 else chance.choice(texts)
            made = _row(at, f"page-{chance.randrange(40)}", value)
        sent.append(made._replace(offset=at))
        return sent[-1]

    return row


_FLOODS: dict[str, Callable[[random.Random], Callable[[int], Row]]] = {
    "a site": _site,
    "a busy site": _busy,
    "each twice": lambda _: (
        lambda at: _flooding(at, f"page-{at // 2}", "u", at // 2 * STORY % 2**64)
    ),
    "ids in turn": lambda chance: (
        lambda at: _flooding(at, f"page-{at % 100}", f"u{at}", chance.getrandbits(64))
    ),
    "one id, again": lambda _: lambda at: _flooding(at, "page", "u", STORY),
    "one id, again and changed": lambda _: (
        lambda at: _flooding(at, "page", "u", (STORY, OTHER)[at // 25 % 2])
    ),
    "a copy, again": lambda _: lambda at: _flooding(at, ("first", "page")[at > 0], "u", STORY),
    "two copies in turn": lambda _: (
        lambda at: _flooding(at, f"page-{at % 2}", f"u{at % 3 == 0}", STORY)
    ),
    "one URL": lambda chance: lambda at: _flooding(at, f"page-{at}", "u", chance.getrandbits(64)),
    "URLs change hands": lambda chance: (
        lambda at: _flooding(
            at, f"page-{at % 60 - at // 60}", f"u{at % 60}", chance.getrandbits(64)
        )
    ),
    "deletions": lambda _: (
        lambda at: _row(at, f"page-{at // 2 % 50}", at if at % 100 < 50 else None)
    ),
    "all again and changed": lambda chance: (
        lambda at: _flooding(at, f"page-{at % 900}", f"u{at % 900}", chance.getrandbits(64))
    ),
}


def _flood(name: str, count: int) -> list[Row]:
    row = _FLOODS[name](random.Random(1))
    return [row(at) for at in range(count)]


def _flooding(offset: int, doc_id: str, url: str, value: int) -> Row:
    return Row(offset, RowKind.FULL, doc_id, url, 0, value, value, 9)


@pytest.mark.parametrize(
    "of", [DEFINITION, DIRECTED, REPLACED], ids=["exact", "directed", "replaced"]
)
@pytest.mark.parametrize("flood", [name for name in _FLOODS if name != "all again and changed"])
def test_rows_of_one_record_are_judged_as_if_each_came_alone(of: Definition, flood: str) -> None:
    """Versions leave right before their successor is judged; doc_ids and URLs may be chosen."""
    rows = _flood(flood, 300 if "site" in flood else 110)
    together, alone = (applied(of, *in_records(rows, rows_of)) for rows_of in (150, 1))
    assert told(together, range(len(rows))) == told(alone, range(len(rows)))


COMES_AGAIN: list[tuple[str, int | None, str]] = [  # doc_id, content (None deletes), answer
    ("a", STORY, "new"),
    ("a", STORY, "new: redelivered"),
    ("b", STORY, "duplicate of a"),
    ("b", STORY, "duplicate of a"),
    ("a", None, "deleted: removed"),  # the original of b
    ("b", STORY, "new"),
    ("a", STORY, "duplicate of b"),
    ("b", OTHER, "new"),  # with other content
    ("c", STORY, "new"),
    ("c", None, "deleted: removed"),
    ("c", None, "deleted: not-an-original"),
    ("c", OTHER, "duplicate of b"),
    ("b", OTHER, "new: redelivered"),
]


@pytest.mark.parametrize("rows_of", [1, 2, 7, len(COMES_AGAIN)])
def test_what_comes_again_is_called_so_in_records_of_any_size(rows_of: int) -> None:
    """Redeliveries, new versions, deletions, and the document after them."""
    rows = [_row(at, doc_id, value) for at, (doc_id, value, _) in enumerate(COMES_AGAIN)]
    answers = told(applied(DIRECTED, *in_records(rows, rows_of)), range(len(rows)))
    shown = [
        f"duplicate of {of}" if of else f"{outcome}: {reason}" if reason else outcome
        for outcome, of, _, reason, *_ in answers
    ]
    assert shown == [answer for *_, answer in COMES_AGAIN]


@pytest.mark.parametrize(
    ("flood", "batches_max"),
    [
        ("each twice", 1),
        ("ids in turn", 9),
        ("one id, again", 2),
        ("one id, again and changed", 72),
        ("all again and changed", 4),
    ],
)
def test_what_repeats_is_judged_in_batches(
    flood: str, batches_max: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Every row whose doc_id had come before, in its record or in one before, was judged by itself, at
    100 times.
    """
    sizes = []
    match_or_insert = SearchIndex.match_or_insert

    def counted(index: SearchIndex, fingerprints: Column, *others: Any, **named: Any) -> Judgement:
        sizes.append(len(fingerprints))
        return match_or_insert(index, fingerprints, *others, **named)

    monkeypatch.setattr(SearchIndex, "match_or_insert", counted)
    rows = _flood(flood, 1_800 if flood.startswith("all") else 900)
    applied(DEFINITION, *in_records(rows, 900))
    assert 0 < len(sizes) <= batches_max


def test_an_original_that_comes_again_in_its_own_record_is_renewed() -> None:
    """So the next one behind it is evicted in its place, and it still finds its copies."""
    kept = Retention(documents_max=2, expire_from="last")
    rows = [_row(at, name, STORY * (at + 1) % 2**64) for at, name in enumerate("abc")]
    copies = [row._replace(doc_id=f"copy-{row.doc_id}") for row in rows[:2]]
    replica = applied(definition(kept, DIRECTED.search), [*rows, rows[0]], copies)
    outcomes = [answer[0] for answer in told(replica, range(6))]
    assert outcomes == ["new", "new", "new", "new", "duplicate", "new"]
