"""The choice of the kept documents: one of each cluster, however the table of clusters is cut."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from worker.core.document import Verdict
from worker.settings import Settings
from worker.shell.files.archives import Record
from worker.shell.files.choice import MEMBER, ChoiceNotes, Preference, best_of, copies_of_others
from worker.shell.files.crawl import with_answers
from worker.shell.files.engine import file_engine


class Member(NamedTuple):
    """A document of the table: its cluster's name, whether it is the original, its measure."""

    name: int
    begins: bool
    measure: float


MEMBERS = st.lists(
    st.builds(
        Member, st.integers(0, 5), st.booleans(), st.sampled_from([-np.inf, -3.0, 0.0, 1.0, 2.0])
    ),
    max_size=60,
)


def plain_choice(members: list[Member], count: int) -> dict[int, int]:
    """Return the kept places with their clusters' sizes: one document after the other."""
    open_clusters: dict[int, list[int]] = {}  # by name: the places of the latest cluster
    clusters: list[list[int]] = []
    for place, (name, begins, _measure) in enumerate(members):
        if begins:
            open_clusters[name] = []
            clusters.append(open_clusters[name])
        if name in open_clusters:
            open_clusters[name].append(place)
    chosen: dict[int, int] = {}
    for places in clusters:
        best = sorted(places, key=lambda place: (-members[place].measure, place))[:count]
        if count == 0 and len(places) == 1:
            best = places
        chosen |= dict.fromkeys(best, len(places))
    return chosen


def table_of(members: list[Member]) -> NDArray[np.void]:
    """Return the rows of the table, by keys; the halves of some keys are equal."""
    table = np.zeros(len(members), MEMBER)
    table["key"] = np.array([(one.name % 3, one.name) for one in members]).reshape(-1, 2)
    table["place"] = np.arange(len(members))
    table["measure"] = [one.measure for one in members]
    table["begins"] = [one.begins for one in members]
    key = table["key"]
    return table[np.lexsort((table["place"], key[:, 1], key[:, 0]))]


@given(MEMBERS, st.integers(0, 4))
def test_so_many_documents_of_each_cluster_are_kept(members: list[Member], count: int) -> None:
    """
    Those with the largest measures, the first among equals, with the size of their cluster; for 0
    those without copies. None of a cluster whose original is elsewhere, and these are counted; a
    new version of an original begins another cluster. Ranges of keys say together what the whole
    table says.
    """
    table = table_of(members)
    expected = plain_choice(members, count)
    parts = [table, *(table[table["key"][:, 0] == half] for half in range(3))]
    found = []
    for part in parts:
        best, sizes = best_of(part, count)
        assert np.array_equal(best, np.sort(best))
        found.append(dict(zip(part["place"][best].tolist(), sizes.tolist(), strict=True)))
    whole, *ranges = found
    assert whole == expected
    assert {place: size for one in ranges for place, size in one.items()} == expected
    of_others = len(members) - len(plain_choice(members, len(members)))
    assert sum(map(copies_of_others, parts[1:])) == copies_of_others(table) == of_others


TEXT = "The council of the town has said that the bridge over the river is open to all again."


def document_of(text: str, url: str, day: int) -> bytes:
    fetched_at = f"2026-10-{day}T00:00:00Z"
    return orjson.dumps({"text": text, "url": url, "fetched_at": fetched_at})


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [("first", 0), ("longest", 1), ("newest", 2), ("shortest-url", 3), ("highest:quality", 4)],
)
def test_each_rule_prefers_what_its_verdicts_say(rule: str, wanted: int) -> None:
    """
    The length of a URL is that in characters, whatever bytes they take; a redelivery is in no
    cluster.
    """
    urls = ["https://e.org/äöüß", "https://e.org/bbbb", "https://e.org/cccc", "https://e.org/ü"]
    urls += ["https://e.org/dddd", urls[0]]
    texts = [TEXT, f"{TEXT} Nobody else was there.", TEXT, TEXT, TEXT, TEXT]
    days = [10, 10, 30, 20, 10, 10]
    scores = [1.0, None, 2.0, None, 9.0, 99.0]
    records = [
        Record("f", 0, None, document_of(text, url, day), score=score)
        for text, url, day, score in zip(texts, urls, days, scores, strict=True)
    ]
    notes = ChoiceNotes(Preference.parse(rule), revisits=True)
    with file_engine(Settings(threads=1)) as engine:
        engine.begin()
        for score in scores:
            notes.expect(score)
        with engine.noting(notes.take_expected):
            verdicts = [answered.answer for _, answered in with_answers(records, engine.answers)]
    stays = [isinstance(verdict, Verdict) and verdict.stays for verdict in verdicts]
    assert stays == [True, *[False] * 5]
    choice = notes.choice()
    assert np.flatnonzero(choice.kept).tolist() == [wanted]
    assert {place: one.url for place, one in choice.originals.items()} == dict.fromkeys(
        range(1, 5), urls[0]
    )
