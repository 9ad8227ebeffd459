"""Rows 31 and 32: runs over files that are killed and repeated, and library calls that are cut off."""

from __future__ import annotations

import os
import random
import re
from collections import Counter
from pathlib import Path

import pytest
from neardup import Deduplicator
from typer.testing import Result

from tests.cli.program import lines, run
from tests.conftest import EXAMPLES
from tests.faults.cut import CALL, CALLS, Cut, Kill, in_a_fork, known, made, partly, text

pytestmark = pytest.mark.faults


DAYS = [
    lines(*({"doc_id": f"{day}-{n}", "text": text(day * 4 + n % 7)} for n in range(10)), "no JSON")
    for day in range(2)
]
RUNS: dict[str, list[str]] = {
    "verdicts, damage": ["--output", "out.jsonl", "--damage", "damage.jsonl"],
    "kept, a reference": [
        *("--reference", "old.jsonl", "--keep", "new"),
        *("--output", "out.jsonl", "--duplicates", "others.jsonl"),
    ],
}


def _days(folder: Path) -> None:
    folder.mkdir()
    for day, content in enumerate(DAYS):
        (folder / f"day{day}.jsonl").write_text(content)
    (folder / "old.jsonl").write_text(lines({"doc_id": "old", "text": text(3)}))


def _written(folder: Path) -> dict[str, bytes]:
    """The outputs, without the times at which verdicts were decided."""
    names = ("out.jsonl", "out.csv", "others.jsonl", "damage.jsonl")
    return {
        name: re.sub(rb'"decided_at":"[^"]*"', b"", (folder / name).read_bytes())
        for name in names
        if (folder / name).exists()
    }


def _command(folder: Path, day: int, options: list[str]) -> Result:
    os.chdir(folder)
    return run("dedup", f"day{day}.jsonl", "--state", "state", *options)


@pytest.mark.parametrize("name", RUNS)
def test_row_31_a_run_killed_at_any_rename_or_sync_and_repeated_gives_the_same(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Killed before or behind each rename and wait for the disk: the same command then writes what a
    run without a kill has written, and so does the next day's.
    """
    monkeypatch.chdir(tmp_path)
    options = RUNS[name]
    whole, before = tmp_path / "whole", tmp_path / "before"
    _days(whole)
    _days(before)
    _command(before, 0, options)  # a kernel that is compiled is renamed into its cache, too

    def counted() -> int:
        kill = Kill()
        _command(whole, 0, options)
        return kill.count

    steps = int(in_a_fork(counted))
    first = _written(whole)
    assert steps >= 2 * len(first) + 3  # a rename and a wait each, and the state's three
    _command(whole, 1, options)
    second = _written(whole)
    assert first != second and all(second.values())
    for at in range(steps):
        for behind in (False, True):
            folder = tmp_path / f"{at}-{behind}"
            _days(folder)

            def killed(folder: Path = folder, at: int = at, behind: bool = behind) -> None:
                Kill(at, behind=behind)
                _command(folder, 0, options)

            assert in_a_fork(killed) == "hung or killed"
            _command(folder, 0, options)
            assert _written(folder) == first, (at, behind)
            _command(folder, 0, options)  # once more, as a scheduler does
            assert _written(folder) == first, (at, behind)
            _command(folder, 1, options)
            assert _written(folder) == second, (at, behind)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", CALLS)
def test_row_32_an_error_at_any_line_leaves_a_call_done_or_not_begun_or_the_rest_refused(
    name: str,
) -> None:
    """
    Every n-th line of the library within a call: afterwards all answers are those of a Deduplicator
    that has had the whole call, or none of it; else each call is refused, and says why.

    An error while a document is read is that document's: those before it are judged.
    """
    call = CALLS[name]
    whole = made()
    length = Cut(0, KeyboardInterrupt)
    length.run(call, whole)
    allowed = {known(made()), known(whole), *(known(partly(count)) for count in range(len(CALL)))}
    seen: Counter[str] = Counter()
    step = max(1, length.lines // (3 * EXAMPLES))
    for stop in range(random.randrange(step) + 1, length.lines + 1, step):
        found = made()
        Cut(stop, random.choice([KeyboardInterrupt, MemoryError])).run(call, found)
        try:
            found._engine.check_whole()
        except RuntimeError:
            seen["refused"] += 1
            _check_refused(found)
            continue
        assert known(found) in allowed, f"line {stop} of {length.lines} of `{name}`"
        found._engine.replica.check()
        seen["answered"] += 1
    assert seen["answered"]
    assert bool(seen["refused"]) == (name in {"add_many", "add", "ask"})


def _check_refused(found: Deduplicator) -> None:
    """Every call says that a call was cut off, and `close` ends the threads."""
    for call in (*CALLS.values(), len):
        with pytest.raises(
            RuntimeError, match=r"(KeyboardInterrupt|MemoryError|an exception) ended"
        ):
            call(found)
    assert "make another Deduplicator" in repr(found)
    found.close()
