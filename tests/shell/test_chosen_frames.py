"""Which rows of a frame stay: those that `neardup dedup --prefer` would keep, with their clusters."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pandas
import polars
import pyarrow
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from neardup import Deduplicator, Deletion

from tests.cli.program import ARTICLE, OTHER, lines, run
from worker.shell.files.archives.columns import plain

PREFERRED = ("first", "longest", "newest", "shortest-url", "highest:quality")
POOL = [
    ARTICLE,
    ARTICLE.upper(),
    f"{ARTICLE} And so on.",
    OTHER,
    OTHER.upper(),
    "Short.",
    "SHORT!",
    "",
]
DRAWN = st.lists(
    st.tuples(
        st.sampled_from(POOL),
        st.sampled_from(["a", "bb", "ccc"]),
        st.integers(1, 9),
        st.one_of(st.none(), st.integers(0, 3)),
    ),
    min_size=1,
    max_size=10,
)


@settings(deadline=None, max_examples=30)
@given(DRAWN, st.sampled_from(PREFERRED))
def test_the_rows_that_stay_are_those_that_dedup_would_keep(rows: list[Any], prefer: str) -> None:
    """
    For every rule of `--prefer`, by the same module; clusters have the sizes that verdicts give.
    """
    columns = {
        "doc_id": [f"{number}" for number in range(len(rows))],
        "text": [text for text, *_ in rows],
        "url": [f"https://a.example/{path}/{number}" for number, (_, path, *_) in enumerate(rows)],
        "fetched_at": [f"2026-01-0{day}" for _, _, day, _ in rows],
        "quality": [quality for *_, quality in rows],
    }
    frame = polars.DataFrame(columns, schema_overrides={"quality": polars.Int64})
    if prefer.startswith("highest") and columns["quality"].count(None) == len(rows):
        # An error would lose the verdicts of rows that are known now.
        with pytest.warns(
            UserWarning, match="number in 'quality'.* the first of each cluster stays"
        ):
            found = Deduplicator(threads=1).verdicts_frame(frame, prefer=prefer)
        prefer = "first"
    else:
        found = Deduplicator(threads=1).verdicts_frame(frame, prefer=prefer)
    with TemporaryDirectory() as folder:
        source, kept = Path(folder) / "in.jsonl", Path(folder) / "kept.jsonl"
        source.write_text(lines(*frame.to_dicts()))
        stays = frame.filter(found["stays"])["doc_id"].to_list()
        run("dedup", source, "--keep", "new", "--prefer", prefer, "--output", kept, "--quiet")
        assert [json.loads(line)["doc_id"] for line in kept.read_text().splitlines()] == stays
    sizes = Counter(found["cluster"].drop_nulls().to_list())
    for row in found.to_dicts():
        if row["verdict"] == "skipped":
            assert (row["cluster"], row["cluster_size"]) == (None, None)
        else:
            assert row["cluster"] == (row["duplicate_of"] or row["doc_id"])
            assert row["cluster_size"] == sizes[row["cluster"]]
    assert len(stays) == len(sizes)


@pytest.mark.parametrize(
    "make",
    [
        pandas.DataFrame,
        polars.DataFrame,
        polars.LazyFrame,
        pyarrow.table,
        lambda columns: pyarrow.table(columns).to_reader(2),
    ],
)
def test_every_kind_of_frame_prefers_by_a_column(make: Any) -> None:
    """Of copies of an earlier call's document no row stays, whatever it has in the column."""
    found = Deduplicator(threads=1)
    columns = {"text": [ARTICLE, OTHER, OTHER.upper(), None], "score": [1.0, None, 0.5, 3.0]}
    with pytest.warns(UserWarning, match="1 of 4 rows could not be judged"):
        frame = found.verdicts_frame(make(columns), prefer="highest:score")
    if isinstance(frame, pyarrow.RecordBatchReader):
        frame = frame.read_all()
    assert list(map(plain, frame["stays"])) == [True, False, True, False]
    assert list(map(plain, frame["cluster_size"]))[:3] == [1, 2, 2]
    again = found.verdicts_frame(
        make({"text": [ARTICLE.upper()], "score": [9.0]}), prefer="highest:score"
    )
    if isinstance(again, pyarrow.RecordBatchReader):
        again = again.read_all()
    assert list(map(plain, again["stays"])) == [False]


@pytest.mark.parametrize("prefer", ["first", "longest"])
@pytest.mark.parametrize("between", [None, Deletion("a")], ids=["other text", "deleted"])
def test_a_doc_id_that_comes_again_names_one_cluster(prefer: str, between: Deletion | None) -> None:
    """That of the text which has it now; its former copies are in none, as in `clusters`."""
    named = [("a", ARTICLE), ("b", ARTICLE), ("a", OTHER), ("c", OTHER), ("d", OTHER)]
    rows: list[Any] = [{"doc_id": doc_id, "text": text} for doc_id, text in named]
    if between is not None:
        rows.insert(2, between)
    found = Deduplicator(threads=1)
    frame = found.verdicts_frame(pandas.Series(rows), prefer=prefer)
    judged = frame[frame["verdict"] != "deleted"]
    assert judged["stays"].tolist() == [True, False, True, False, False]
    assert judged["cluster"].fillna("").tolist() == ["", "", "a", "a", "a"]
    assert judged["cluster_size"].fillna(0).tolist() == [0, 0, 3, 3, 3]
    assert found.clusters() == [["a", "c", "d"]]


def test_what_cannot_be_preferred_is_refused_before_anything_is_judged() -> None:
    """A rule that is none, and a column that is not there."""
    found = Deduplicator(threads=1)
    table = pyarrow.table({"text": [ARTICLE]})
    with pytest.raises(ValueError, match="'best' is not one of first, longest"):
        found.verdicts_frame(table, prefer="best")
    with pytest.raises(ValueError, match="'None' is not one of first, longest"):
        found.verdicts_frame(table, prefer=None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="needs the column 'quality' that is named, got text"):
        found.verdicts_frame(table, prefer="highest:quality")
    with pytest.raises(TypeError, match="a column alone has not"):
        found.verdicts_frame(pandas.Series([ARTICLE]), prefer="highest:quality")
    with pytest.raises(TypeError, match="needs the column 'quality' that is named, got text"):
        found.verdicts_frame(table.to_reader(), prefer="highest:quality")
    assert len(found) == 0
    assert "cluster" not in found.verdicts_frame(table.to_reader()).schema.names


@pytest.mark.parametrize("names", [{}, {"id_column": "name"}], ids=["unnamed", "named"])
@pytest.mark.parametrize("prefer", ["first", "longest"])
def test_a_frame_that_is_judged_again_is_said_to_be(prefer: str, names: dict[str, Any]) -> None:
    """
    None of its rows stays: each is a copy of itself or, by its id, delivered again. After a call
    that was broken off, some stay, and those that were judged then would be lost.
    """
    texts = [ARTICLE, OTHER, ARTICLE.upper(), "Something else altogether."]
    frame = polars.DataFrame({"text": texts, "name": list("abcd")})
    found = Deduplicator(threads=1)
    assert found.verdicts_frame(frame, prefer=prefer, **names)["stays"].sum() == 3
    with pytest.warns(
        UserWarning, match=r"3 of 4 rows are those of an earlier call, .* do not stay"
    ):
        assert found.verdicts_frame(frame, prefer=prefer, **names)["stays"].sum() == 0
    broken_off = Deduplicator(threads=1)
    taken = broken_off.add_many(frame[:2], **names)
    assert [next(taken).stays for _ in range(2)] == [True, True]
    with pytest.warns(UserWarning, match="2 of 4 rows are those of an earlier call"):
        assert broken_off.verdicts_frame(frame, prefer=prefer, **names)["stays"].sum() == 1


def test_copies_in_other_places_of_an_earlier_frame_are_nothing_to_tell_of() -> None:
    """
    Nor is a single row that happens to be in the same place, which a stream of small frames has, or
    a row that comes twice in its frame.
    """
    found = Deduplicator(threads=1)
    found.verdicts_frame(polars.DataFrame({"text": [ARTICLE, OTHER]}))
    for texts in ([OTHER, ARTICLE], [ARTICLE], [ARTICLE, "Something else altogether."]):
        found.verdicts_frame(polars.DataFrame({"text": texts}))
    twice = {"doc_id": ["a", "a", "b", "b"], "text": ["One text.", "One text.", "Two.", "Two."]}
    found.verdicts_frame(polars.DataFrame(twice))
