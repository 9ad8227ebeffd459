"""`neardup report`: from a file of verdicts to a page."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from worker.cli import app
from worker.devkit.sample.crawl import write_sample_crawl
from worker.errors import StopError


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A sample crawl and its verdicts."""
    folder = tmp_path_factory.mktemp("report")
    crawl, verdicts = folder / "crawl.warc.gz", folder / "verdicts.jsonl"
    write_sample_crawl(crawl, 200, 3)
    assert CliRunner().invoke(app, ["dedup", str(crawl), "--output", str(verdicts)]).exit_code == 0
    return crawl, verdicts


def test_a_crawl_becomes_a_page(judged: tuple[Path, Path], tmp_path: Path) -> None:
    """With texts side by side and languages where the documents are given; the parameters are this program's own."""
    crawl, verdicts = judged
    page = tmp_path / "report.html"
    result = CliRunner().invoke(app, ["report", str(verdicts), "--documents", str(crawl), "--output", str(page)])
    assert result.exit_code == 0, result.output
    text = page.read_text()
    assert "<del>" in text or "<ins>" in text or "Word for word" in text
    assert ">Languages<" in text and "anchors" in text and "equal words" in text
    without = CliRunner().invoke(app, ["report", str(verdicts), "--output", "-", "--title", "a <crawl>"])
    assert "<h1>a &lt;crawl&gt;</h1>" in without.stdout and "--documents" in without.stdout


def test_the_page_comes_whole_or_not_at_all(judged: tuple[Path, Path], tmp_path: Path) -> None:
    """A line that is no verdict is named; what stood there stays; the input is not written over."""
    page, bad = tmp_path / "report.html", tmp_path / "bad.jsonl"
    page.write_text("the former")
    bad.write_bytes(judged[1].read_bytes() + b"{}\n")
    result = CliRunner().invoke(app, ["report", str(bad), "--output", str(page)])
    assert isinstance(result.exception, StopError) and "bad.jsonl, line" in str(result.exception)
    result = CliRunner().invoke(app, ["report", str(bad), "--output", str(bad)])
    assert isinstance(result.exception, StopError) and "input and the output" in str(result.exception)
    bad.write_bytes(b"")
    result = CliRunner().invoke(app, ["report", str(bad), "--output", str(page)])
    assert isinstance(result.exception, StopError) and "no verdict yet" in str(result.exception)
    assert page.read_text() == "the former"
