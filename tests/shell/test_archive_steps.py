"""`neardup archive`: how far it says that it is, what it reads, and what it writes of a cluster."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.cli.program import ARTICLE, OTHER, lines, page
from tests.shell.test_archive import archive, crawl, here, run  # noqa: F401  # `here` is a fixture
from worker.devkit.sample.crawl import write_sample_crawl
from worker.shell.archive import run as run_module
from worker.shell.archive import tasks
from worker.shell.archive.run import Run


@pytest.mark.usefixtures("here")
def test_a_step_is_shown_to_be_within_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A task that runs tells how much of its file is done; one that has ended counts as a whole, and
    leaves nothing behind.
    """
    monkeypatch.setattr(run_module, "REPORT_S", 0.0)
    monkeypatch.setattr(tasks, "JOB_DOCUMENTS_MAX", 2)
    crawl(tmp_path)
    output = tmp_path / "out"
    reached: dict[str, list[int]] = {"rows": [], "judge": [], "verdicts": []}
    write_text = Path.write_text

    def noted(path: Path, text: str) -> int:
        written_bytes = write_text(path, text)
        begun = Run.load(output)
        step = path.name.partition("-")[0]
        sizes = [1 << 30] * len(begun.inputs)
        reached[step].append(begun.reached(step, sizes) - (len(begun.done(step)) << 30))
        return written_bytes

    monkeypatch.setattr(Path, "write_text", noted)
    archive(output, "--quiet")
    for step, amounts in reached.items():
        # All rows of this small corpus are one batch of the judge.
        assert len(set(amounts)) > (0 if step == "judge" else 3), (step, amounts)
        assert all(0 < amount < 1 << 30 for amount in amounts)
    assert not [*output.rglob("*.part")]


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("name", ["a.wacz", "a.zip"])
def test_the_kept_documents_of_a_zip_are_an_archive(tmp_path: Path, name: str) -> None:
    """
    A WACZ is read as the WARC in it, and its documents are copied as WARC, which its name says.
    """
    plain = tmp_path / "plain.warc.gz"
    write_sample_crawl(plain, 40, seed=2)
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / name, "w") as zipped:
        zipped.write(plain, "archive/data.warc.gz")
    archive(tmp_path / "out", "--keep", "new", "--quiet")
    run("dedup", plain, "--keep", "new", "--output", tmp_path / "kept.warc.gz", "--threads", "1")
    [kept] = (tmp_path / "out" / "kept").iterdir()
    assert kept.name == "000000-a.warc.gz"
    assert kept.read_bytes() == (tmp_path / "kept.warc.gz").read_bytes()


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("prefer", ["first", "longest", "shortest-url"])
def test_each_kept_document_has_the_size_of_its_cluster(tmp_path: Path, prefer: str) -> None:
    """
    Across files, itself included, one line for each kept document in its order, whichever of a
    cluster is kept.
    """
    (tmp_path / "in").mkdir()
    texts = [(1, ARTICLE), (2, OTHER), (3, ARTICLE), (4, "alone here and nowhere else")]
    more = [(5, f"{ARTICLE} Nobody else was there."), (6, OTHER), (7, ARTICLE), (8, "")]
    for name, given in (("a", texts), ("b", more)):
        documents = [
            page(n, doc_id=str(n), text=text) | {"url": f"https://example.org/{'x' * (9 - n)}"}
            for n, text in given
        ]
        (tmp_path / "in" / f"{name}.jsonl").write_text(lines(*documents))
    output = tmp_path / "out"
    archive(output, "--keep", "new", "--prefer", prefer, "--quiet")

    def written_in(folder: str) -> list[list[dict[str, Any]]]:
        paths = sorted((output / folder).iterdir())
        return [[orjson.loads(line) for line in path.read_bytes().splitlines()] for path in paths]

    kept, copies = written_in("kept"), written_in("copies")
    wanted = {
        "first": [[("1", 4), ("2", 2), ("4", 1)], []],
        "longest": [[("2", 2), ("4", 1)], [("5", 4)]],
        "shortest-url": [[("4", 1)], [("6", 2), ("7", 4)]],
    }
    assert [[(line["doc_id"], line["copies"]) for line in file] for file in copies] == wanted[
        prefer
    ]
    assert [[line["doc_id"] for line in file] for file in kept] == [
        [line["doc_id"] for line in file] for file in copies
    ]


SCORES: dict[str, list[Any]] = {"a": [0.5, None, 7], "b": [1e300, "2", 6], "c": ["high", 3, 8]}


@pytest.mark.usefixtures("here")
def test_the_highest_number_of_all_files_is_preferred(tmp_path: Path) -> None:
    """
    What stays is what `dedup` keeps, however many files a cluster is in; what has no number is
    counted.
    """
    (tmp_path / "in").mkdir()
    for name, scores in SCORES.items():
        texts = zip((ARTICLE, OTHER, ARTICLE), scores, strict=True)
        (tmp_path / "in" / f"{name}.jsonl").write_text(
            lines(*({"text": text, "quality": score} for text, score in texts))
        )
    options = ("--keep", "new", "--prefer", "highest:quality")
    output, kept = tmp_path / "out", tmp_path / "kept.jsonl"
    said = orjson.loads(archive(output, *options, "--json").splitlines()[-1])
    run("dedup", tmp_path / "in", *options, "--output", kept)
    copied = b"".join(path.read_bytes() for path in sorted((output / "kept").iterdir()))
    assert copied == kept.read_bytes()
    assert [orjson.loads(line)["quality"] for line in copied.splitlines()] == [1e300, 3]
    assert said["kept"] == 2 and said["unscored"] == 2


@pytest.mark.usefixtures("here")
def test_numbers_that_no_document_can_have_are_refused(tmp_path: Path) -> None:
    """
    An archive before it is read, a field without numbers before anything is copied; where nothing
    can be judged, that is said.
    """
    (tmp_path / "in").mkdir()
    options = ("--keep", "new", "--prefer", "highest:quality")
    source = tmp_path / "in" / "a.jsonl"
    source.write_text(lines(page(1, text=ARTICLE)))
    said = archive(tmp_path / "first", *options, code=1)
    assert "no document has a finite number in 'quality', of 1: name a field" in said
    assert not [*(tmp_path / "first").glob("kept/*")]
    source.write_text(lines(page(1)))
    assert "nothing could be judged" in archive(tmp_path / "third", *options, code=1)
    source.unlink()
    write_sample_crawl(tmp_path / "in" / "b.warc.gz", 5, seed=1)
    said = archive(tmp_path / "second", *options, code=1)
    assert "WARC has none: prefer first, longest" in said


@pytest.mark.usefixtures("here")
def test_references_of_a_former_run_are_matched_and_not_written(tmp_path: Path) -> None:
    """A copy of a document of the state is not kept, however high its number is."""
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "a.jsonl"
    source.write_text(lines(page(1, text=ARTICLE)))
    state = ("--state", tmp_path / "known")
    archive(tmp_path / "references", *state, "--quiet")
    given = [page(2, text=ARTICLE) | {"quality": "9"}, page(3, text=OTHER) | {"quality": "1"}]
    source.write_text(lines(*given))
    options = ("--keep", "new", "--prefer", "highest:quality", "--quiet")
    archive(tmp_path / "out", *state, *options)
    [kept] = (tmp_path / "out" / "kept").iterdir()
    assert kept.read_text() == lines(given[1])
