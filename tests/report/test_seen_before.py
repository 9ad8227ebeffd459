"""
What pages say of re-crawls and of a wrong merge, tried: by documents that are judged, not by made
verdicts.
"""

from __future__ import annotations

from tests.cli.program import ARTICLE, OTHER
from worker.core.document import Deletion, Verdict
from worker.report.page import page
from worker.report.tally import Class, Tally, class_of
from worker.shell.files.deduplicator import Deduplicator
from worker.shell.files.given import InputDocument
from worker.shell.messages import encode_verdict


def _page(url: str, day: int, text: str = ARTICLE) -> dict[str, str]:
    return {"url": url, "fetched_at": f"2026-11-0{day}T00:00:00Z", "text": text}


SITE = "https://example.org/1"
MIRROR = "https://mirror.example/1"


def _judged(*documents: InputDocument) -> list[Verdict]:
    return list(Deduplicator(threads=1).add_many(documents))


def test_a_copy_that_is_crawled_again_counts_as_a_copy_again() -> None:
    """
    As "Re-crawls" and the report say: of an original a re-crawl is told, of a duplicate it is not.
    The report counts those by their URLs when it has read all verdicts.
    """
    verdicts = _judged(_page(SITE, 1), _page(MIRROR, 2), _page(SITE, 3), _page(MIRROR, 4))
    assert [class_of(verdict) for verdict in verdicts] == [
        Class.NEW, Class.EXACT, Class.RECRAWL, Class.EXACT,
    ]  # fmt: skip
    copies = [verdict.duplicate_of and verdict.duplicate_of.copies for verdict in verdicts]
    assert copies == [None, 1, 2, 3]
    with Tally() as tally:
        for verdict in [*verdicts, verdicts[0], verdicts[1]]:
            tally.take(verdict, encode_verdict(verdict)[1])
        # The mirror of the second day is the fourth day's and once more delivered.
        assert tally.clusters.captured_again() == 2
        told = page(tally, "", [], None, {})
    row = 'copies at the URL of an earlier copy</th><td class="n">2<'
    assert row in told.decode()
    with Tally() as tally:
        for verdict in verdicts[:3]:
            tally.take(verdict, encode_verdict(verdict)[1])
        assert tally.clusters.captured_again() == 0


def test_a_wrong_original_is_undone_by_deleting_it() -> None:
    """
    As "A wrong merge" says: the next similar document is new, even one that was its duplicate, and
    counts its own copies; documents that are unlike it are not touched.
    """
    original = {**_page(SITE, 1), "doc_id": "test page"}
    other = _page("https://example.org/other", 1, OTHER)
    verdicts = _judged(
        original, other, _page(MIRROR, 2), Deletion("test page"), _page(MIRROR, 3), other, original
    )
    assert [verdict.outcome.value for verdict in verdicts] == [
        "new", "new", "duplicate", "deleted", "new", "new", "duplicate",
    ]  # fmt: skip
    last = verdicts[-1].duplicate_of
    assert last is not None and (last.original.url, last.copies) == (MIRROR, 1)
    assert verdicts[5].reason == "redelivered"
