"""A thin page that is crawled again is a copy of its own original, however many show its text."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES
from tests.log import test_replica as logs
from tests.log.histories import Check, applied, judged_in_records
from tests.log.test_ask import ask, feed
from tests.log.test_duplicates import DEFINITION, GONE, HISTORIES, original_of
from worker.core.marks import FEATURES_MIN, TITLE_WORDS_MIN, page_mark, titles_tell
from worker.core.search import CONFIRMED_MAX, SearchRules
from worker.log.record import Row, RowKind
from worker.log.replica import Replica
from worker.log.rules import Retention

PAGES = 3 * CONFIRMED_MAX
FINGERPRINT = 0x1234_5678_9ABC_DEF0


def _titles(count: int) -> list[int]:
    """Return titles of which no two share more than half of their words."""
    dice = np.random.default_rng(5)
    titles: list[int] = []
    while len(titles) < count:
        title = sum(1 << int(bit) for bit in dice.choice(31, 8, replace=False))
        if all(2 * (title & other).bit_count() <= (title | other).bit_count() for other in titles):
            titles.append(title)
    return titles


def _page(url: str, title: int, doc_id: str = "", features: int = 40) -> Row:
    """A page that shows the one text."""
    mark = page_mark(url, title, features)
    return Row(
        0, RowKind.FULL, doc_id or url, url, 0, FINGERPRINT, 7, features, "", 0, 1 << 9, mark
    )


FAMILY = [
    _page(f"https://a.example/{at}", title, f"p{at}") for at, title in enumerate(_titles(PAGES))
]
OTHER_TITLE = _titles(PAGES + 1)[-1]


def _again(way: str, page: Row) -> Row:
    """Return a page crawled again in one of the ways."""
    url = page.url if way == "url" else f"{page.url}?ref=mail"
    title = OTHER_TITLE if way == "url" else page.mark >> 33
    return _page(url, title, f"{page.doc_id} again")


def _told(records: list[list[Row]]) -> list[str | None]:
    """Return the originals of rows, in records."""
    count = sum(map(len, records))
    return [told[1] for told in logs.told(applied(DEFINITION, *records), range(count))]


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize("way", ["url", "title"])
def test_each_of_a_large_family_finds_its_own_original(way: str, together: bool) -> None:
    """At its URL, or at another one with its title; those behind the first 16, too."""
    copies = [_again(way, page) for page in FAMILY]
    told = _told([[*FAMILY, *copies]] if together else [FAMILY, copies])
    assert told == [None] * PAGES + [page.doc_id for page in FAMILY]


@pytest.mark.parametrize("together", [False, True])
def test_another_page_of_the_family_is_new(together: bool) -> None:
    """It has another URL and another title; a page of another host is a copy of the first."""
    other = _page("https://a.example/other", OTHER_TITLE)
    elsewhere = _page("https://b.example/other", OTHER_TITLE)
    told = _told([[*FAMILY, other, elsewhere]] if together else [FAMILY, [other], [elsewhere]])
    assert told[PAGES:] == [None, "p0"]


@pytest.mark.parametrize("together", [False, True])
def test_a_page_by_https_does_not_follow_the_same_by_http(together: bool) -> None:
    """They have one mark. But the second one's own original is known by its URL."""
    alike = _page("https://a.example/0", OTHER_TITLE & OTHER_TITLE - 1, "alike")
    page = FAMILY[1]
    copies = [_page(url, OTHER_TITLE, url) for url in (page.url.replace("https", "http"), page.url)]
    assert copies[0].mark == copies[1].mark
    records = [[alike, page], copies] if together else [[each] for each in [alike, page, *copies]]
    assert _told(records) == [None, None, "alike", "p1"]


def test_a_title_of_few_words_is_no_pages_own() -> None:
    """Another page can have the same bits, so the URL alone counts."""
    few = (1 << TITLE_WORDS_MIN - 1) - 1
    assert titles_tell(np.array([few << 33, (few << 1 | 1) << 33], np.uint64)).tolist() == [
        False,
        True,
    ]
    page = _page("https://a.example/few", few << 20, "few")
    at_its_url = page._replace(doc_id="again")
    elsewhere = _page("https://a.example/elsewhere", few << 20)
    assert _told([FAMILY, [page], [at_its_url, elsewhere]])[PAGES:] == [None, "few", None]


@pytest.mark.parametrize("way", ["url", "title"])
def test_a_thin_original_that_has_left_is_found_no_more(way: str) -> None:
    """The next copy is an original, and the one behind it its copy; a question says the same."""
    replica = Replica(DEFINITION)
    last = FAMILY[-1]
    for number, row in enumerate(FAMILY):
        feed(replica, row, number, number)
    assert original_of(ask(replica, _again(way, last))[0]) == last.doc_id
    # Under its own name it would take the place of the original.
    assert (
        original_of(ask(replica, _again(way, last)._replace(doc_id=last.doc_id, digest=8))[0])
        is None
    )
    feed(replica, GONE._replace(doc_id=last.doc_id), PAGES, PAGES)
    assert original_of(ask(replica, _again(way, last))[0]) is None
    feed(replica, _again(way, last), PAGES + 1, PAGES + 1)
    assert original_of(ask(replica, _again(way, last)._replace(doc_id="x"))[0]) == "p47 again"
    replica.check()


def test_longer_pages_and_those_without_a_mark_are_in_no_table() -> None:
    """A search finds them, because no rule keeps them apart. Each thin one takes 20 bytes."""
    replica = Replica(DEFINITION)
    rows = [
        FAMILY[0],
        FAMILY[1]._replace(sketch=1 << 40),
        _page("https://a.example/long", OTHER_TITLE, features=FEATURES_MIN)._replace(sketch=1),
        _page("", OTHER_TITLE)._replace(sketch=1 << 99),
    ]
    for number, row in enumerate(rows):
        feed(replica, row._replace(digest=number), number, number)
    held = replica.judge.held
    assert len(held.thin) == 2 and held.documents == 4
    held.check()
    without = Replica(replace(DEFINITION, search=SearchRules("exact", 3)))
    feed(without, FAMILY[0], 0, 0)
    without.judge.held.check()
    assert len(without.judge.held.thin) == 0


TITLES = _titles(5)
TITLES.append(TITLES[0] ^ 1 << 4)  # most of its words are those of another one
PLACES = ("https://a", "http://a", "https://b")
URLS = [f"{place}.example/{path}" for place in PLACES for path in range(3)]
steps = st.lists(
    st.tuples(
        st.sampled_from(URLS),
        st.sampled_from([0, 0b11, *TITLES, *TITLES]),
        st.integers(0, 20),  # doc_id
        st.sampled_from([RowKind.FULL] * 9 + [RowKind.DELETED]),
        st.sampled_from([40, 40, 40, FEATURES_MIN]),
        st.sampled_from([0, 0, 0, 0, 1, 2, 3, 4]),  # the text
    ),
    min_size=10,
    max_size=60,
)


def _foreseen(replica: Replica, part: list[Row]) -> Check:
    """Ask about a record's first row; the answer must be the verdict that then comes."""
    foreseen = ask(replica, part[0])

    def check(judged: Replica) -> None:
        told = logs.told(judged, [part[0].offset])[0]
        if part[0].kind == RowKind.FULL:
            assert original_of(foreseen[0]) == told[1]

    return check


@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(steps, *HISTORIES)
def test_thin_pages_are_judged_as_the_oracle_does_in_any_history(
    drawn: list[tuple[str, int, int, RowKind, int, int]],
    rows_of: int,
    prefix_max: int,
    recrawls: Literal["compare", "replace"],
    retention: Retention,
    restarts: set[int],
) -> None:
    """
    With deletions, re-crawls, eviction, renewal, crowded prefixes, texts that share a digest or all
    but their sketches, and at any moment a snapshot, or rows numbered anew.
    """
    search = SearchRules(prefix_max=prefix_max)
    of = replace(logs.definition(retention, search), recrawls=recrawls)
    texts = [(0, 7, 1 << 9), (0, 7, 1 << 30), (1 << 5, 7, 1 << 9), (1 << 6, 8, 3 << 9), (0, 9, 5)]
    rows = [
        _page(url, title, f"d{doc_id}", features)._replace(
            offset=offset,
            kind=kind,
            fingerprint=FINGERPRINT ^ texts[text][0],
            digest=texts[text][1],
            sketch=texts[text][2],
        )
        for offset, (url, title, doc_id, kind, features, text) in enumerate(drawn)
    ]
    with logs.small_chunks() as patch:
        patch.setattr("worker.log.judge._RENEWALS", 2)
        patch.setattr("tests.oracle.RENEWALS", 2)
        oracle, replica = judged_in_records(of, rows, rows_of, restarts, _foreseen)
    logs.agree(oracle, replica, logs.SOURCE, 0)
