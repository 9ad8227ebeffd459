"""Whatever takes long says how far it is, how fast, and how long it will take; and it can be told to be quiet."""

from __future__ import annotations

import io
import itertools
import json
import re
from pathlib import Path

import pytest
from rich.console import Console

from tests.cli.program import ARTICLE, lines, page, run
from tests.cli.test_options_used import commands
from worker.cli import shared as progress

LONG = (
    "archive", "dedup", "evaluate", "explain", "feed", "find-all", "find-clusters", "fingerprint", "nearest", "rebuild",
    "report", "sample-crawl", "tune", "verify",
)  # fmt: skip


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What a terminal shows."""
    found = io.StringIO()
    monkeypatch.setattr(progress, "Console", lambda **_: Console(file=found, force_terminal=True, width=100))
    return found


@pytest.mark.parametrize("name", LONG)
def test_every_long_command_can_be_quiet(name: str) -> None:
    """The same option everywhere."""
    assert [one.opts for one in commands()[name].params if one.name == "quiet"] == [["--quiet"]]


def test_progress_says_how_far_how_fast_and_how_long(screen: io.StringIO) -> None:
    """On a terminal; each step has its line."""
    with progress.counted("messages") as tell:
        for done in (1, 500, 1_000):
            tell("documents", done, 2_000)
        tell("verdicts", 10, 10)
    shown = screen.getvalue()
    assert "documents" in shown
    assert "verdicts" in shown
    assert re.search(r"50%.* 1,000 messages, .*/s .*\d:\d\d:\d\d", shown)
    screen.truncate(0)
    with progress.counted("messages", quiet=True) as tell:
        tell("documents", 1, 2)
    assert "documents" not in screen.getvalue()


def test_answers_are_read_with_progress(screen: io.StringIO, tmp_path: Path) -> None:
    """Of a file the size tells how many there are; `report` and the commands before it are silent if asked."""
    source, verdicts, drawn = tmp_path / "in.jsonl", tmp_path / "verdicts", tmp_path / "page"
    source.write_text(lines(*(page(number, text=ARTICLE) for number in range(1_000))))
    for arguments in (["dedup", source, "--output", verdicts], ["report", verdicts, "--output", drawn]):
        assert (run(*arguments, "--quiet").output, screen.getvalue()) == ("", "")
    run("report", verdicts, "--output", drawn)
    assert re.search(r"reading answers .*100%.* 1,000 answers, .*/s", screen.getvalue())


def test_damage_is_named_thrice_and_then_counted(tmp_path: Path) -> None:
    """Not a line for each of a thousand; nothing of it with --quiet. Most of a sample's damaged records are read."""
    source = tmp_path / "crawl.warc.gz"
    said = run("sample-crawl", "--documents", "2000", source).stderr
    [damaged] = re.findall(r"(\d+) damaged, .*; of what is damaged, three in five are read all the same$", said.strip())
    command = ("dedup", source, "--output", tmp_path / "verdicts")
    told = run(*command).stderr.splitlines()
    unread = 2000 - int(told[-1].split()[0].replace(",", ""))
    assert [line.partition(":")[0] for line in told] == ["damaged"] * 4 + [told[-1].partition(":")[0]]
    assert (told[3], f"{unread} damaged records" in told[-1]) == (f"damaged: {unread - 3} more", True)
    assert 2 * int(damaged) // 5 <= unread <= 2 * int(damaged) // 5 + 2
    assert run(*command, "--quiet").stderr == ""


def test_the_best_settings_are_for_people_or_for_scripts(tmp_path: Path) -> None:
    """A JSON object a line, with the settings that differ from those given."""
    texts = [f"{ARTICLE} It was said again by the {number} of us who had been there." for number in range(40)]
    documents = [page(number, text=text, doc_id=str(number)) for number, text in enumerate(texts)]
    source, pairs = tmp_path / "in.jsonl", tmp_path / "pairs.tsv"
    source.write_text(lines(*documents))
    ids = [document["doc_id"] for document in documents]
    pairs.write_text("".join(f"{one}\t{other}\t1\n" for one, other in itertools.pairwise(ids)))
    best = json.loads(run("tune", source, pairs, "--json", "--quiet").stdout.splitlines()[0])
    assert set(best) == {"recall", "false_positives", "settings"} and best["recall"] > 0.9
