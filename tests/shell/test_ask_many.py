"""
Many questions at once, and a frame matched against a reference: the answers of one question after
the other, and nothing is kept.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import neardup
import pandas
import polars
import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from neardup import Deduplicator, DocumentError, Verdict

from tests.cli.program import ARTICLE, OTHER, lines
from tests.faults.crawl import random_words
from tests.faults.cut import told
from tests.shell.test_site_pages import NOTICE, site_page
from worker.log.replica import Replica

TEXTS = [ARTICLE, OTHER, f"{ARTICLE} {OTHER}", ARTICLE.upper(), "A short one.", "a SHORT one", ""]
BLOCKED = [ARTICLE, "A short one.", f"{OTHER} It will not come today."]


def of(verdict: Any) -> str | None:
    """The doc_id of the original."""
    return verdict.duplicate_of and str(verdict.duplicate_of.original.doc_id)


def _history() -> list[Any]:
    """
    Documents of all kinds: copies, new versions, deletions, short texts, and nothing to compare.
    """
    history: list[Any] = [ARTICLE, OTHER, "A short one.", "a SHORT one", ""]
    for doc_id in "abc":
        for text in (ARTICLE, OTHER, f"{OTHER} {ARTICLE}", "Three words here.", ARTICLE.upper()):
            url = f"https://example.org/{doc_id in 'ab'}"
            history.append({"doc_id": doc_id, "url": url, "text": text})
        history.append(neardup.Deletion(doc_id))
        history.append({"doc_id": doc_id, "url": "https://example.org/", "html": f"<p>{ARTICLE}"})
        history += [site_page(doc_id, title, text) for title in "xy" for text in (NOTICE, "Wait.")]
    return history


def test_questions_alone_and_together_have_the_verdict_that_follows(tmp_path: Path) -> None:
    """
    Whole verdicts, of every kind of document, with and without a name, at every point of a history;
    what is saved stays byte for byte the same. Other rules of judging are for `tests/log`.
    """
    retention = neardup.Retention(documents_max=3)
    found = Deduplicator(recrawls="replace", retention=retention, threads=1)
    history = _history()
    before, after = tmp_path / "before", tmp_path / "after"
    for number, document in enumerate(history):
        asked = told(found.ask(document))
        if number % 9 == 0:
            found.save(before)
            together = list(map(told, found.ask_many([*history, document])))
            assert together == [told(found.ask(one)) for one in history] + [asked]
            found.save(after)
            assert before.read_bytes() == after.read_bytes()
        assert asked == told(found.add(document))


def test_many_questions_take_few_queries(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each batch, as `add_many`; one for each document is what makes `ask` slow."""
    dice = random.Random(1)
    texts = [" ".join(random_words(dice, 30)) for _ in range(300)]
    queries: list[int] = []
    ask = Replica.ask

    def counted(replica: Replica, rows: Any, *given: Any, **named: Any) -> Any:
        queries.append(len(rows))
        return ask(replica, rows, *given, **named)

    monkeypatch.setattr(Replica, "ask", counted)
    assert len(list(Deduplicator(threads=1).ask_many(texts))) == 300
    assert sum(queries) == 300 and len(queries) <= 3


def test_questions_in_the_middle_of_a_stream_take_nothing_of_it() -> None:
    """
    Each answer is as of what has been judged by then, also of `ask` and `nearest`; documents that
    are read may ask, too; the clusters are those without questions.
    """
    dice = random.Random(4)
    texts = [" ".join(random_words(dice, 30)) for _ in range(40)] * 2
    found, never_asked = Deduplicator(threads=2), Deduplicator(threads=2)

    def read() -> Any:
        for text in texts:
            assert len(list(found.ask_many(["One.", text]))) == 2
            yield text

    verdicts = []
    for verdict in found.add_many(read()):
        verdicts.append(verdict)
        assert [of(one) for one in found.ask_many([texts[0]])] == [verdicts[0].doc_id]
        assert of(found.ask(texts[0])) == verdicts[0].doc_id and found.nearest(texts[0], 1)
    assert (len(verdicts), len(found)) == (80, 40)
    assert list(map(of, verdicts)) == list(map(of, never_asked.add_many(texts)))
    assert found.clusters() == never_asked.clusters()
    questions = found.ask_many(iter(texts))
    next(questions)
    found.add("A text that comes in between.")
    assert sum(1 for _ in questions) == 79
    found.close()
    assert len(list(found.ask_many(texts))) == 80


def test_what_cannot_be_asked_has_its_error_in_its_place() -> None:
    """As `add_many` has it: returned, left out with a warning, or raised after those before it."""
    found = Deduplicator(threads=1)
    asked: list[Any] = ["One text.", None, {"title": "no body"}, "Another text."]
    answers = list(found.ask_many(asked, errors="return"))
    assert [type(one) for one in answers] == [Verdict, TypeError, DocumentError, Verdict]
    with pytest.warns(UserWarning, match="2 of 4 rows could not be judged"):
        assert len(list(found.ask_many(asked, errors="skip"))) == 2
    verdicts = found.ask_many(asked)
    assert next(verdicts).outcome.value == "new"
    with pytest.raises(TypeError, match="document 1 is None"):
        next(verdicts)
    with pytest.raises(ValueError, match="errors must be one of"):
        found.ask_many(asked, errors="ignore")  # type: ignore[call-overload]
    with pytest.raises(TypeError, match="wanted an iterable of documents"):
        found.ask_many("a text")
    named = found.ask_many([{"key": 1, "text": ARTICLE}], id_column="name")
    with pytest.raises(TypeError, match="no column 'name', there are key, text: id_column names"):
        list(named)


MAKERS: dict[str, Callable[[dict[str, list[Any]]], Any]] = {
    "pandas": pandas.DataFrame,
    "polars": polars.DataFrame,
    "lazy": polars.LazyFrame,
    "Arrow": pyarrow.table,
}


@pytest.mark.parametrize("kind", MAKERS)
def test_a_frame_is_matched_against_a_reference(kind: str) -> None:
    """
    With the reference's ids, in a frame of the same kind. Rows are no copies of each other, and one
    with the id and the text of a row of the reference is its copy.
    """
    make = MAKERS[kind]
    train = make({"id": [0, 1, 2], "body": [ARTICLE, "A short one.", OTHER]})
    test = make({"id": [0, 1, 2, 3], "body": [OTHER.upper(), "Else.", OTHER, "Else."]})
    names: dict[str, Any] = {"id_column": "id", "text_column": "body"}
    found = neardup.match(test, train, **names)
    frame = (
        found
        if kind == "pandas"
        else pandas.DataFrame(
            found.to_pydict() if kind == "Arrow" else found.to_dict(as_series=False)
        )
    )
    assert list(frame["doc_id"]) == ["0", "1", "2", "3"]
    assert list(frame["stays"]) == [False, True, False, True]
    assert [None if pandas.isna(one) else one for one in frame["duplicate_of"]] == [
        "2",
        None,
        "2",
        None,
    ]


def test_a_reference_is_documents_of_any_kind_or_what_has_judged_them(tmp_path: Path) -> None:
    """Texts, files, or a Deduplicator with rules of its own, which stays as it was."""
    frame = polars.DataFrame({"text": [ARTICLE, "A short one.", "Nothing of the kind."]})
    source = tmp_path / "blocked.jsonl"
    source.write_text(lines(*({"text": text} for text in BLOCKED)))
    known = Deduplicator(recrawls="replace", threads=1)
    list(known.add_many(BLOCKED))
    for reference in (BLOCKED, neardup.CrawlFiles([str(source)]), known):
        assert neardup.match(frame, reference)["stays"].to_list() == [False, False, True]
    assert len(known) == 3
    with pytest.raises(TypeError, match="wanted a frame or a column"):
        neardup.match(BLOCKED, known)
    with pytest.raises(TypeError, match="wanted an iterable of documents"):
        neardup.match(frame, ARTICLE)


ROWS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.sampled_from(TEXTS), st.sampled_from([None, "https://a.example/"])),
    min_size=1,
    max_size=8,
)  # fmt: skip


@given(ROWS, ROWS, st.sampled_from(["compare", "replace"]))
def test_ids_and_urls_that_both_have_hide_no_match(
    reference: list[Any], asked: list[Any], recrawls: Any
) -> None:
    """Each row gets the original that it would have under a name and a URL that nothing has."""
    fields = ("doc_id", "text", "url")
    known = Deduplicator(recrawls=recrawls, threads=1)
    rows = [dict(zip(fields, row, strict=True)) for row in reference]
    list(known.add_many(rows))
    frame = polars.DataFrame(asked, dict.fromkeys(fields, polars.String), orient="row")
    found = neardup.match(frame, known)
    fresh = [{"doc_id": f"row {number}", "text": text} for number, (_, text, _) in enumerate(asked)]
    assert found["duplicate_of"].to_list() == [of(one) for one in known.ask_many(fresh)]
    assert found["doc_id"].to_list() == [row[0] for row in asked]


def test_a_reference_of_which_nothing_can_be_judged_is_refused() -> None:
    """Otherwise every row would stay. Of one that is judged in part, a warning says how much."""
    frame = polars.DataFrame({"text": [ARTICLE]})
    with pytest.raises(TypeError, match="none of 2 rows of the reference could be judged"):
        neardup.match(frame, [None, 7])
    said = "1 of 2 rows of the reference could not be judged, and so are not matched against"
    with pytest.warns(UserWarning, match=said):
        assert neardup.match(frame, [None, ARTICLE])["stays"].to_list() == [False]
    read = iter([ARTICLE])
    assert neardup.match(frame, read)["stays"].to_list() == [False]
    never_judged = Deduplicator(threads=1)
    never_judged.add_many([ARTICLE])  # nobody takes its verdicts
    empty: list[Any] = [read, [], never_judged]
    for reference in empty:
        with pytest.warns(UserWarning, match="the reference has no document .* so all rows stay"):
            assert neardup.match(frame, reference)["stays"].to_list() == [True]


def test_what_is_added_meanwhile_is_known_to_questions_that_come_later(tmp_path: Path) -> None:
    """
    Under a name of its own: a document in the same place with the same content is another one than
    what is asked. The place of what follows stays the same, asked or not.
    """
    source = tmp_path / "asked.jsonl"
    source.write_text(lines({"text": ARTICLE}, {"text": OTHER}))
    for asked in ([ARTICLE, OTHER], neardup.CrawlFiles([str(source)])):
        found = Deduplicator(threads=1)
        questions = found.ask_many(asked)
        added = found.add(ARTICLE)
        verdict, other = questions
        assert (verdict.outcome.value, of(verdict)) == ("duplicate", added.doc_id)
        assert verdict.doc_id.startswith("0.1.0-") and other.outcome.value == "new"
        assert found.add(ARTICLE).doc_id == verdict.doc_id


def test_a_question_may_name_a_document_that_is_added_meanwhile() -> None:
    """By an id of its own it is that document, delivered again."""
    found = Deduplicator(threads=1)
    questions = found.ask_many([{"doc_id": "a", "text": ARTICLE}])
    found.add({"doc_id": "a", "text": ARTICLE})
    [verdict] = questions
    assert (verdict.doc_id, verdict.outcome.value) == ("a", "new")
