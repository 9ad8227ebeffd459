"""The READMEs say what the kept results say, and a result tells when the code is newer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import figures, kept
from tests.benchmarks.common import RESULTS, options
from tests.conftest import REPOSITORY


def test_the_tables_are_those_of_the_results() -> None:
    """Each table stands in one page, and `make docs` has written it."""
    found = []
    for page in figures.PAGES:
        text = page.read_text(encoding="utf-8")
        assert figures.with_figures(text) == text, f"{page.name} is not current: make docs"
        found += figures.blocks(text)
    assert sorted(found) == sorted(figures.TABLES)


def test_no_other_page_has_a_table_that_nobody_writes() -> None:
    """A block in a page that `make docs` does not know would never change."""
    pages = {page for page in REPOSITORY.rglob("*.md") if ".venv" not in page.as_posix()}
    with_blocks = {page for page in pages if figures.blocks(page.read_text(encoding="utf-8"))}
    assert with_blocks == set(figures.PAGES)


@pytest.mark.parametrize("name", kept.MEASURED)
def test_each_result_names_code_that_is_there(name: str) -> None:
    """What it measures can be read, and its result is kept."""
    assert (RESULTS / f"{name}.json").is_file()
    assert int(kept.code_digest(name), 16) >= 0


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A worker with one file of code, which the benchmark `pairs` measures."""
    monkeypatch.setattr(kept, "WORKER", tmp_path)
    path = tmp_path / "core" / "pairs.py"
    path.parent.mkdir()
    path.write_text('def join(bits):\n    """Join."""\n    return bits + 1\n')
    return path


@pytest.mark.parametrize("left_out", ["--quick", "--no-save", ""])
def test_a_whole_run_keeps_figures_tables_and_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, left_out: str
) -> None:
    """A trial run keeps nothing, and neither does one that is told so."""
    monkeypatch.setattr(kept, "RESULTS", tmp_path / "results")
    monkeypatch.setattr(kept, "vectors", lambda: kept.DEPLOYED)
    chosen = options("", "less").parse_args([left_out] if left_out else [])
    figures = {"machine": {"cpu": "A"}, "trials": [1]}
    plots = {"pairs.png": lambda path: path.write_text("drawn")}
    kept.finish(chosen, "pairs", figures, ["| a |", ""], plots)
    if left_out:
        assert not (tmp_path / "results").exists()
        return
    files = {path.name: path.read_text() for path in (tmp_path / "results").iterdir()}
    machine = {"cpu": "A", "code": kept.code_digest("pairs")}
    assert json.loads(files.pop("pairs.json")) == {"machine": machine, "trials": [1]}
    assert files == {
        "pairs.md": f"Measured with `make bench-pairs`: {kept.said(machine)}.\n\n| a |\n\n",
        "pairs.png": "drawn",
    }


def test_results_of_wider_vectors_take_no_other_ones_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have files of their own, no pictures, and a column of their own in a table."""
    monkeypatch.setattr(kept, "RESULTS", tmp_path)
    monkeypatch.setattr(kept, "code_digest", lambda name: "d")
    chosen = options("", "less").parse_args([])
    shown = []
    for build, seconds in (("x86-64-v3", 2), ("AVX-512", 1)):
        monkeypatch.setattr(kept, "vectors", lambda build=build: build)
        plots = {"pairs.png": lambda path, build=build: path.write_text(build)}
        kept.finish(chosen, "pairs", {"machine": {}, "seconds": seconds}, [], plots)
        shown.append(list(figures.by_build("work", ["pairs"], seconds_of)))
    assert (tmp_path / "pairs.png").read_text() == "x86-64-v3"
    assert shown == [
        ["| work | unit | measured | target |", "|---|---|---|---|", "| join | s | 2 | – |"],
        [
            "| work | unit | x86-64-v3 | target | AVX-512 | target |",
            "|---|---|---|---|---|---|",
            "| join | s | 2 | – | 1 | – |",
        ],
    ]


def seconds_of(build: str) -> list[figures.Figure]:
    """A row with the seconds of a kept result."""
    kept_of = kept.kept_results("pairs", build)
    return [figures.Figure("join", "s", str(kept_of["seconds"]))]


def test_a_result_that_is_absent_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the command that makes it. A run that adds to what was kept begins with nothing."""
    monkeypatch.setattr(kept, "RESULTS", tmp_path)
    assert kept.kept_results("pairs", kept.DEPLOYED) == {}
    with pytest.raises(FileNotFoundError, match=r"pairs\.json: run make bench-pairs"):
        kept.results_of("pairs", kept.DEPLOYED)


def digest() -> str:
    """Return the digest as a new process would."""
    kept.code_digest.cache_clear()
    try:
        return kept.code_digest("pairs")
    finally:
        kept.code_digest.cache_clear()


@pytest.mark.parametrize(
    ("code", "is_equal"),
    [
        ('def join(bits):\n    """Say more."""\n\n    return bits + 1  # a reason\n', True),
        ("def join(bits):\n    return bits + 1\n", True),
        ('def join(\n    bits,\n):\n    return f"{bits}" and bits + 1\n', False),
        ("def join(bits):\n    return bits + 2\n", False),
        ("def join(bits):\nreturn_bits + 1\n", False),
    ],
)
def test_a_digest_tells_code_from_explanation(worker: Path, code: str, is_equal: bool) -> None:
    """Another docstring, comment or empty line makes no figure stale; another constant does."""
    before = digest()
    worker.write_text(code)
    assert (digest() == before) is is_equal


def test_a_result_older_than_the_code_is_told(
    worker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the line below its table; one of this code is told without a remark."""
    machine: dict[str, Any] = {"date": "2026-01-02", "cpu": "A", "vectors": "b", "code": digest()}
    (tmp_path / "pairs.json").write_text(json.dumps({"machine": machine}))
    monkeypatch.setattr(kept, "RESULTS", tmp_path)
    told = []
    for code in (None, "def join(bits):\n    return bits\n"):
        if code:
            worker.write_text(code)
        figures.results.cache_clear()
        kept.code_digest.cache_clear()
        told.append(figures.run_of("pairs"))
    figures.results.cache_clear()
    kept.code_digest.cache_clear()
    assert told == [
        "`make bench-pairs`, 2026-01-02, A, b",
        "`make bench-pairs`, 2026-01-02, A, b, **older than the code**",
    ]
