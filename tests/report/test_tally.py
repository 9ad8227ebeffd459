"""What a report counts."""

from __future__ import annotations

import tracemalloc

import pytest

from tests.report.made import copy, dead, former, taken, verdict
from worker.core.document import Changed, Outcome, Verdict
from worker.errors import StopError
from worker.report import tally as tallies
from worker.report.answers import of_lines
from worker.report.tally import NO_TIME, OTHER, Class, Clusters, class_of, host_of
from worker.shell.messages import DeadLetter, encode_verdict


def test_a_recrawl_is_no_copy() -> None:
    """The same URL again, and a page with a former version, whatever the original is; copies are exact or near."""
    answers: list[Verdict | DeadLetter] = [
        verdict(1),
        verdict(2, former_version=former(1, Changed.MUCH)),
        copy(3, 1, 0),
        copy(4, 1, 5),
        copy(5, 1, same_url=True),
        copy(6, 1, former_version=former(2, Changed.LITTLE)),
        verdict(7, outcome=Outcome.SKIPPED, reason="empty-text", fingerprint=None),
        verdict(8, outcome=Outcome.DELETED, url=None, fetched_at_ms=None, reason="removed", fingerprint=None),
        dead("no-body"),
    ]
    expected = [
        Class.NEW, Class.VERSION, Class.EXACT, Class.NEAR, Class.RECRAWL, Class.RECRAWL, Class.SKIPPED, Class.DELETED,
        Class.DEAD,
    ]  # fmt: skip
    assert [class_of(one) for one in answers] == expected
    with taken(*answers) as tally:
        assert tally.classes.tolist() == [int(one) for one in expected]
        assert tally.counts()[Class.RECRAWL] == 2
        assert [time_ms == NO_TIME for time_ms in tally.times_ms] == [False] * 7 + [True] * 2
        assert tally.distances[Class.NEAR, 5] == tally.distances[Class.EXACT, 0] == 1
        assert tally.changed == {"much": 1, "little": 1}
        assert tally.reasons == {(Class.SKIPPED, "empty-text"): 1, (Class.DELETED, "removed"): 1}
        assert tally.errors == {"no-body": (1, "too bad", "documents[1] at 7, x")}
        assert tally.hosts["host2.example"][Class.RECRAWL] == 1
        assert len(tally.clusters) == 2  # without the re-crawls


def test_the_largest_clusters_come_with_their_members() -> None:
    """Largest first, of equals the earlier; a member that is answered twice stands once."""
    with taken(copy(9, 5), copy(1, 0, 3, 0.9), copy(2, 0, 9, 0.8), copy(2, 0, 9, 0.8), copy(8, 4), verdict(3)) as tally:
        assert tally.clusters.sizes() == {2: 2, 4: 1}
        first, second, third = tally.clusters.largest(5)
        assert (first.size, [one.doc_id for one in first.members], first.farthest.doc_id) == (4, ["d1", "d2"], "d2")
        assert [second.original.doc_id, third.original.doc_id] == ["d5", "d4"]
        assert len(tally.clusters.largest(1)) == 1
    with taken(verdict(1)) as tally:
        assert (tally.clusters.sizes(), tally.clusters.largest(3)) == ({}, [])


def test_what_has_no_bound_in_the_input_has_one_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hosts, reasons and classes of errors beyond their maximum are counted together; no answer is lost."""
    monkeypatch.setattr(tallies, "HOSTS_MAX", 2)
    monkeypatch.setattr(tallies, "REASONS_MAX", 2)
    skipped = [verdict(n, outcome=Outcome.SKIPPED, reason=f"r{n}", fingerprint=None) for n in range(5)]
    with taken(*skipped, *(dead(f"code{n}") for n in range(5))) as tally:
        assert len(tally.hosts) == 3 and sum(map(sum, tally.hosts.values())) == 5
        assert sum(tally.reasons.values()) == 5 and (Class.SKIPPED, OTHER) in tally.reasons
        assert tally.errors[OTHER][0] == 3


def test_a_copy_takes_few_bytes_of_memory() -> None:
    """Sixteen, and what a growing array has in reserve; its verdict lies on disk."""
    clusters, one = Clusters(), verdict(1)
    clusters.add("d", one)
    tracemalloc.start()
    for _ in range(50_000):
        clusters.add("d", one)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    clusters.close()
    assert held < 50_000 * 20


def test_answers_are_read_from_every_kind_of_line() -> None:
    """Verdicts, dead letters of `dedup` and of `dead-letters`; a URL with the words of one is still a verdict's."""
    lines = [
        encode_verdict(verdict(1, url='https://a.example/"dead-letter"'))[1],
        b"\n",
        dead("no-body").line(),
        b'{"verdict":"dead-letter","doc_id":null,"error":{"code":"c","text":"t"},"source":{"topic":"files","partition":0,'
        b'"offset":3},"input":{}}\n',
    ]
    found = list(of_lines(lines, "x"))
    assert found[0] == verdict(1, url='https://a.example/"dead-letter"')
    assert [one.code for one in found[1:] if isinstance(one, DeadLetter)] == ["no-body", "c"]


@pytest.mark.parametrize("line", [b"{", b"[]", b'{"verdict":"new"}', b"\xff", b'{"code":1}', b'"verdict"'])
def test_what_is_no_answer_is_named_by_its_line(line: bytes) -> None:
    """With what to name instead."""
    with pytest.raises(StopError, match=r"v\.jsonl, line 2: .*neardup dedup"):
        list(of_lines([encode_verdict(verdict(1))[1], line], "v.jsonl"))


def test_hosts() -> None:
    """Lower case, without port; what has none is named so."""
    urls = "HTTP://A.example/x", "javascript:1", "http://[::1]:80/", ""
    assert [host_of(url) for url in urls] == ["a.example", "(no host)", "::1", "(no host)"]
