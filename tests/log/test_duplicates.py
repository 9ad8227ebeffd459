"""A copy of a duplicate is a duplicate of the same original, whatever has come since."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import EXAMPLES, one_in
from tests.log import test_replica as logs
from tests.log.histories import applied, in_records, judged_in_records
from tests.log.test_ask import ask, feed
from tests.log.test_snapshot import LOG, to_bytes
from worker.core.document import Verdict
from worker.core.marks import NO_MARK, page_mark
from worker.core.search import SearchRules
from worker.log import duplicates
from worker.log.duplicates import DuplicateTexts
from worker.log.record import Row, RowKind
from worker.log.replica import Replica
from worker.log.rules import Definition, Retention
from worker.log.snapshot import restore

FINGERPRINT = 0x1234_5678_9ABC_DEF0
_BINS = range(504)


def _pages() -> dict[str, int]:
    """
    Return the sketches of a family near the threshold, by name.

    `d` and `e` are .60 like `o`, and `d` is .56 like each of `r0` to `r3`. Of `o` and these no two
    are more than .40 alike. So `d` is a duplicate of `o`, until four of the others are there, from
    which `o` does not stand out.
    """
    dice = random.Random(11)

    def of(kept: set[int], replaced: int) -> set[int]:
        """Bins of which so many are others."""
        others = [number for number in _BINS if number not in kept]
        left = dice.sample(sorted(kept), len(kept) - replaced)
        return {*left, *dice.sample(others, replaced)}

    middle = set(dice.sample(_BINS, 120))
    bins = {"d": middle, "o": of(middle, 25)}
    bins["e"] = of(bins["o"], 25)
    bins |= {f"r{number}": of(middle, 28) for number in range(4)}
    return {name: sum(1 << number for number in page) for name, page in bins.items()}


PAGES = _pages()
# No mark, and those of two short pages of one host at other URLs and with other titles.
MARKS = [NO_MARK, *(page_mark(f"https://a.example/{at}", at, 20) for at in (1, 2))]
DIGESTS = {name: 1_000 + number for number, name in enumerate(PAGES)}
RULES = SearchRules()
DEFINITION = Definition("nd1", "0" * 16, RULES)


def row(page: str, doc_id: str, url: str = "", kind: RowKind = RowKind.FULL) -> Row:
    """A row with the text of a page of the family."""
    digest = DIGESTS[page]
    return Row(0, kind, doc_id, url, 0, FINGERPRINT, digest, 9, "", 0, PAGES[page])


HISTORY = [row(page, page) for page in ("o", "d", "r0", "r1", "r2", "r3")]
COPY = row("d", "copy of d")
GONE = Row(0, RowKind.DELETED, "o", "", 0)


def original_of(answer: object) -> str | None:
    """Return the doc_id of the original that an answer names, None if it is new."""
    assert isinstance(answer, Verdict)
    return answer.duplicate_of.original.doc_id if answer.duplicate_of else None


def fed(rows: list[Row], of: Definition = DEFINITION) -> tuple[Replica, list[str | None]]:
    """Return a replica that has had these rows, a record each, and their originals."""
    replica = Replica(of)
    answers = [feed(replica, each, number, number) for number, each in enumerate(rows)]
    return replica, [
        original_of(answer) if answer.outcome != "deleted" else None  # type: ignore[union-attr]
        for answer in answers
    ]


def test_a_copy_of_a_duplicate_is_one_while_the_original_is_there() -> None:
    """Four others have come that are as similar; a text that comes for the first time is new."""
    replica, originals = fed([*HISTORY, COPY])
    assert originals == [None, "o", None, None, None, None, "o"]
    unlike_any = COPY._replace(digest=7)
    assert original_of(ask(replica, unlike_any)[0]) is None
    assert original_of(ask(replica, COPY._replace(doc_id="asked"))[0]) == "o"


def test_a_duplicate_is_forgotten_with_its_original() -> None:
    """The next copy is a new page, and its copies are duplicates of that one."""
    _, originals = fed([*HISTORY, GONE, COPY, row("d", "second copy")])
    assert originals[-2:] == [None, "copy of d"]


def test_an_original_that_comes_again_has_no_duplicates_from_before() -> None:
    """It is another original, though its text is the same: a search decides."""
    _, originals = fed([*HISTORY, GONE, row("o", "o"), COPY])
    assert originals[-1] is None


@pytest.mark.parametrize("cut", range(1, 8))
def test_rows_of_one_record_are_as_of_several(cut: int) -> None:
    """The copy follows its duplicate, also where both are in one record with all that is between."""
    rows = [*HISTORY, COPY, GONE]
    replica = applied(DEFINITION, rows[:cut], rows[cut:])
    assert [told[1] for told in logs.told(replica, range(7))] == [None, "o", *[None] * 4, "o"]


@pytest.mark.parametrize("chunk_bits", [1, 4])
def test_an_original_that_is_kept_for_longer_keeps_its_duplicates(chunk_bits: int) -> None:
    """It is renewed at each copy, its former rows are given back, and its copies find it."""
    of = replace(DEFINITION, retention=Retention(0, "last", 6))
    with logs.small_chunks(chunk_bits) as patch:
        patch.setattr("worker.log.judge._RENEWALS", 6)
        rows = list(HISTORY)
        for number in range(12):
            other = Row(0, RowKind.FULL, f"n{number}", "", 0, number << 40, number, 9, "", 0)
            rows += [COPY._replace(doc_id=f"copy-{number}"), other._replace(sketch=1 << number)]
        replica = Replica(of)
        originals = []
        for number, each in enumerate(rows):
            originals.append(original_of(feed(replica, each, number, number)))
            replica.committed(logs.SOURCE, number + 1)  # no kept verdict names a former row
            replica.check()
        assert originals[6::2] == ["o"] * 12
        assert replica.judge.held.first > 0 or chunk_bits > 1
        restored = restore(to_bytes(replica), of, LOG)
        for other_replica in (replica, restored):
            other_replica.compact()
            other_replica.check()
            assert original_of(ask(other_replica, COPY)[0]) == "o"


steps = st.lists(
    st.tuples(
        st.sampled_from([*PAGES, "d", "d", "e", "o"]),
        st.integers(0, 15),  # doc_id
        st.sampled_from([RowKind.FULL] * 9 + [RowKind.DELETED]),
        st.sampled_from([0, 0, 0, 1 << 5]),  # a bit of the fingerprint
        st.sampled_from([0, 0, 0, 1, 2]),  # the mark: no page of a host, or one of two
        st.sampled_from([0, 0, 0, 0, 0, 0, 1]),  # the digest of another text
    ),
    min_size=10,
    max_size=60,
)


# How a history is judged: rows of a record, originals of a prefix, what a re-crawl does, what is
# forgotten, and the records behind which the replica restarts.
HISTORIES: tuple[st.SearchStrategy[Any], ...] = (
    st.sampled_from([1, 3, 20, 60]),
    st.sampled_from([4_096, 4_096, 3]),
    st.sampled_from(["compare", "replace"]),
    st.sampled_from(
        [Retention(), Retention(documents_max=6), Retention(documents_max=5, expire_from="last")]
    ),
    st.sets(st.integers(0, 60)),
)


@settings(max_examples=2 * EXAMPLES, deadline=None)
@given(
    steps,
    *HISTORIES,
    st.sampled_from([2, 64]),
)
def test_copies_are_judged_as_the_oracle_does_in_any_history(
    drawn: list[tuple[str, int, RowKind, int, int, int]],
    rows_of: int,
    prefix_max: int,
    recrawls: Literal["compare", "replace"],
    retention: Retention,
    restarts: set[int],
    texts_min: int,
) -> None:
    """
    With deletions, re-crawls, eviction, renewal, crowded prefixes, digests that two texts share,
    texts that are forgotten, and at any moment a snapshot, or rows numbered anew.
    """
    search = SearchRules(prefix_max=prefix_max)
    of = replace(logs.definition(retention, search), recrawls=recrawls)
    rows = [
        row(page, f"d{doc_id}", f"https://a.example/{doc_id % 5}", kind)._replace(
            offset=offset,
            fingerprint=FINGERPRINT ^ flip,
            digest=DIGESTS["d"] if collides else DIGESTS[page] + flip,
            mark=MARKS[mark],
        )
        for offset, (page, doc_id, kind, flip, mark, collides) in enumerate(drawn)
    ]
    with logs.small_chunks() as patch:
        patch.setattr(duplicates, "TEXTS_MIN", texts_min)
        patch.setattr("worker.log.judge._RENEWALS", 2)
        patch.setattr("tests.oracle.RENEWALS", 2)
        oracle, replica = judged_in_records(of, rows, rows_of, restarts)
    logs.agree(oracle, replica, logs.SOURCE, 0)


@settings(max_examples=one_in(2), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(list(PAGES)), st.integers(0, 9)), max_size=40))
def test_no_copy_of_a_judged_text_is_new_while_its_original_is_there(
    drawn: list[tuple[str, int]],
) -> None:
    """After every row, all texts so far are asked for again, under new names."""
    replica = Replica(DEFINITION)
    held = replica.judge.held
    originals: dict[str, int] = {}  # by text: the row of the original that it is, or is a copy of
    for number, (page, doc_id) in enumerate(drawn):
        answer = feed(replica, row(page, f"d{doc_id}"), number, number)
        names = {at: held.get(at).doc_id for at in held.live_between(0, len(held)).tolist()}
        rows = {name: at for at, name in names.items()}
        originals[page] = rows[original_of(answer) or f"d{doc_id}"]
        for text, original in originals.items():
            if original in names:
                assert original_of(ask(replica, row(text, "asked"))[0]) == names[original]


def test_the_oldest_texts_are_forgotten_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """As many as there are originals stay, TEXTS_MIN in any case, and less than a step more."""
    monkeypatch.setattr(duplicates, "TEXTS_MIN", 10)
    monkeypatch.setattr(duplicates, "STEP_BITS", 2)
    texts = DuplicateTexts()
    for number in range(40):
        texts.remember(np.array([number], np.uint64), np.array([number]))
        texts.forget_beyond(5)
        texts.check()
        assert min(number + 1, 10) <= len(texts) < 14
    assert texts.find(np.arange(40, dtype=np.uint64)).tolist()[-10:] == list(range(30, 40))
    assert texts.find(np.array([0], np.uint64)).tolist() == [-1]
    texts.forget_beyond(100)
    assert len(texts) >= 10


def test_numbers_of_texts_begin_anew_before_their_bits_run_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is remembered stays the same."""
    monkeypatch.setattr(duplicates, "STEP_BITS", 2)
    monkeypatch.setattr(duplicates, "TEXTS_MIN", 10)
    monkeypatch.setattr(duplicates, "TEXTS_STOP", 32)
    texts = DuplicateTexts()
    for number in range(100):
        texts.remember(np.array([number], np.uint64), np.array([number]))
        texts.forget_beyond(0)
        assert texts.find(np.array([number], np.uint64)).tolist() == [number]
        assert len(texts.entries) <= 32
    texts.check()
    assert texts.find(np.array([90], np.uint64)).tolist() == [90]


@pytest.mark.parametrize("cut", [0, 1, 2])
def test_no_row_follows_another_that_may_not_be_listed(cut: int) -> None:
    """The one prefix is full, so nobody finds the original of which this is the copy."""
    of = replace(DEFINITION, search=SearchRules(prefix_max=1))
    rows = [row("o", "o"), row("r0", "first"), row("r0", "second")]
    replica = applied(of, rows[:cut], rows[cut:])
    assert [told[0] for told in logs.told(replica, range(3))] == ["new"] * 3


def test_an_original_that_comes_again_is_none_of_its_digest() -> None:
    """Another text with its digest is a duplicate; the original is still itself."""
    of_its_digest = row("e", "e")._replace(digest=7)
    original = COPY._replace(doc_id="original", digest=7)
    _, originals = fed([*HISTORY, original, of_its_digest, original])
    assert originals[-3:] == [None, "o", None]


@pytest.mark.parametrize("together", [False, True])
def test_an_original_that_leaves_in_a_record_leaves_its_duplicates(together: bool) -> None:
    """Another text under its doc_id takes it out; a copy behind it in the record is searched."""
    other = Row(0, RowKind.FULL, "o", "", 0, 1, 1, 9, "", 0, 1)
    rows = [*HISTORY, other, COPY]
    replica = applied(DEFINITION, *([rows[:6], rows[6:]] if together else in_records(rows, 1)))
    assert [told[1] for told in logs.told(replica, range(6, 8))] == [None, None]


def test_a_question_that_replaces_the_original_is_no_duplicate_of_it() -> None:
    """The original would leave first, and its duplicates with it."""
    replica, _ = fed(HISTORY)
    assert original_of(ask(replica, row("d", "o"))[0]) is None
    assert original_of(ask(replica, COPY)[0]) == "o"


@pytest.mark.parametrize("together", [False, True])
def test_a_copy_that_is_another_page_of_the_originals_host_is_new(together: bool) -> None:
    """A text that was a duplicate is no way around the rule for two pages of one host."""
    history = [each._replace(mark=MARKS[1]) for each in HISTORY]
    history[1] = history[1]._replace(mark=NO_MARK)
    copies = [COPY._replace(doc_id=f"c{number}", mark=mark) for number, mark in enumerate(MARKS)]
    replica = applied(DEFINITION, *in_records([*history, *copies], 9 if together else 1))
    assert [told[1] for told in logs.told(replica, range(6, 9))] == ["o", "o", None]
