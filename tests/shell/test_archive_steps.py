"""`neardup archive`: how far it says that it is, what it reads, and what it writes of a cluster."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

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
def test_the_kept_documents_of_a_zip_are_an_archive(tmp_path: Path) -> None:
    """A WACZ is read as the WARC in it, and its documents are copied as WARC, which its name says."""
    plain = tmp_path / "plain.warc.gz"
    write_sample_crawl(plain, 40, seed=2)
    (tmp_path / "in").mkdir()
    with zipfile.ZipFile(tmp_path / "in" / "a.wacz", "w") as zipped:
        zipped.write(plain, "archive/data.warc.gz")
    archive(tmp_path / "out", "--keep", "new", "--quiet")
    run("dedup", plain, "--keep", "new", "--output", tmp_path / "kept.warc.gz", "--threads", "1")
    [kept] = (tmp_path / "out" / "kept").iterdir()
    assert kept.name == "000000-a.warc.gz"
    assert kept.read_bytes() == (tmp_path / "kept.warc.gz").read_bytes()
