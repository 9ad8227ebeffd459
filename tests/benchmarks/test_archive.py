"""The benchmark of a corpus at rest: what it makes is what it says, and one measure serves both sides."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from tests.benchmarks.archive.documents import SHARES, made_documents, write_documents
from tests.benchmarks.bench_archive import theirs


def test_made_documents_have_all_relations_and_a_truth_each(tmp_path: Path) -> None:
    """Equal seeds give equal ones; a copy has the group of an earlier document."""
    made = list(made_documents(1_500))
    assert made == list(made_documents(1_500))
    assert set(Counter(one.relation for one in made)) == set(SHARES)
    groups: set[str] = set()
    for one in made:
        if one.relation in {"syndicated", "edited", "recrawl", "redelivered"}:
            assert one.group in groups
        groups.add(one.group)
    write_documents(tmp_path / "in", 10, 3)
    counts = [len(path.read_bytes().splitlines()) for path in sorted((tmp_path / "in").iterdir())]
    assert counts == [3, 3, 4] and len((tmp_path / "truth.jsonl").read_bytes().splitlines()) == 10


def test_datatroves_clusters_say_for_whom_a_document_leaves(tmp_path: Path) -> None:
    """Clusters lie in a file for each task, as do the documents that leave; without any there is no file."""
    (tmp_path / "clusters").mkdir()
    np.array([0, 7, 2, 7], "<u4").tofile(tmp_path / "clusters" / "000000.clusters")
    np.array([0], "<u4").tofile(tmp_path / "clusters" / "000000.remove")
    np.array([1, 7], "<u4").tofile(tmp_path / "clusters" / "000002.clusters")
    np.array([1], "<u4").tofile(tmp_path / "clusters" / "000002.remove")
    assert theirs(tmp_path, [3, 1, 2]) == [2, 1, 2, 3, 4, 2]
