"""Terminals that are narrow, or know no UTF-8; stdout that takes no more."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.cli.program import run
from tests.cli.test_options import COMMANDS
from tests.conftest import plain_environment
from worker.__main__ import main
from worker.cli import options
from worker.cli.shared import Column, Columns

COLUMNS = (Column("bits", 4, is_right=True), Column("url"), Column("reason"), Column("µs", 6, rank=1))


@given(st.integers(40, 300), st.lists(st.text(max_size=300), min_size=4, max_size=4))
def test_no_row_is_wider_than_the_terminal(width: int, cells: list[str]) -> None:
    """Wide characters count twice, and control characters never reach it."""
    columns = Columns(*COLUMNS, width=width)
    assert cell_len(columns.head()) <= width
    assert cell_len(columns.line(cells)) <= width
    assert columns.line(cells).isprintable()


@pytest.mark.parametrize("width", [60, 76, 100, 200])
@pytest.mark.parametrize("command", ["compare", "plan"])
def test_tables_follow_the_terminals_width(tmp_path: Path, width: int, command: str) -> None:
    """The bits of a comparison go below each other, the layouts of a plan have fewer columns."""
    for name, word in (("a.txt", "brothers"), ("b.txt", "sisters")):
        (tmp_path / name).write_text(
            f"The old bridge over the river was built by two {word} in the spring of that year."
        )
    arguments = {"compare": [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")], "plan": ["--documents", "10M"]}[command]
    said = run(command, *arguments, COLUMNS=str(width)).output
    table = [line for line in said.splitlines() if command == "compare" or line.startswith(("   ", "*  "))]
    assert len(table) > 4 and max(map(cell_len, table)) <= width
    if command == "compare":
        blocks = "".join(block for line in table if line.startswith("A   ") for block in line.split()[1:])
        assert len(blocks) == 64


def test_a_terminal_without_utf8_gets_question_marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No command ends in a traceback for a character that cannot be shown, its help least of all."""
    for name, word in (("a.txt", "Brücke…"), ("b.txt", "橋")):
        (tmp_path / name).write_text(f"{word} over the river was built by two brothers in the spring of that year.")
    calls = [[*name.split(), "--help"] for name in COMMANDS]
    calls += [
        ["compare", str(tmp_path / "a.txt"), str(tmp_path / "b.txt")],
        ["plan", "--documents", "10M"],
        ["settings"],
    ]
    for arguments in calls:
        out, err = (io.TextIOWrapper(io.BytesIO(), "ascii") for _ in range(2))
        monkeypatch.setattr(sys, "stdout", out)
        monkeypatch.setattr(sys, "stderr", err)
        monkeypatch.setattr(sys, "argv", ["neardup", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0, arguments
        out.flush()
        assert len(out.buffer.getvalue()) > 100


def into(stdout: int, command: str) -> tuple[int, bytes]:
    """Run a command into a file; give its exit code and what it said beside."""
    done = subprocess.run(
        [sys.executable, "-m", "worker", command], stdout=stdout, stderr=subprocess.PIPE, env=plain_environment(),
        check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", ["settings", "--help"])
def test_a_full_disk_is_said_in_one_line(command: str) -> None:
    """Behind `>`, where the command only has its stdout."""
    with Path("/dev/full").open("wb") as full:
        assert into(full.fileno(), command) == (1, b"neardup: cannot write: No space left on device\n")


def test_a_reader_that_has_seen_enough_is_no_traceback() -> None:
    """`neardup settings | head`: the pipe is closed before everything is written."""
    read, write = os.pipe()
    os.close(read)
    assert into(write, "settings") == (1, b"")
    os.close(write)


Captured: TypeAlias = pytest.CaptureFixture[str]
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[/][link=file:///etc/passwd]\r\nWARC/1.0\r\n<b>{{7*7}}"


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, str]:
    """Documents with a hostile string in every field, damaged ones and labelled pairs, in files named by it."""
    town = "The council of the town has said that the bridge over the river will be open to all in May. " * 2
    texts = (town, town, town + HOSTILE, "Quite another text about the ships of the north, and of them. " * 2, ".")
    rows: list[dict[str, str | None]] = [
        {
            "doc_id": f"{number}{HOSTILE}",
            "url": f"http://a/{HOSTILE}{number}",
            "text": text,
            "title": HOSTILE,
            "language": HOSTILE[:60],
            "content_type": HOSTILE,
            "collection": HOSTILE,
        }
        for number, text in enumerate(texts)
    ]
    rows.append({**rows[0], "doc_id": f"5{HOSTILE}", "text": None, "body_base64": "", "charset": HOSTILE})
    lines = [json.dumps({**row, "fetched_at": "2026-01-01T00:00:00Z"}) for row in rows]
    lines += [json.dumps({**rows[0], "fetched_at": HOSTILE}), f"{{{HOSTILE[:20]}", ""]
    flat = " ".join(HOSTILE.split())  # for a line of a table
    pairs = [(0, 1, 1), (0, 3, 1), (0, 2, 0), (2, 3, 0), (0, 9, 1)]
    files = {
        "DOCUMENTS": "\n".join(lines),
        "FLAT": "\n".join(lines[:5]).replace(json.dumps(HOSTILE)[1:-1], json.dumps(flat)[1:-1]),
        "PAIRS": "".join(f"{first}{flat}\t{second}{flat}\t{same}\t{flat}\n" for first, second, same in pairs),
        "WRONG": HOSTILE,
    }
    named = {name: str(tmp_path / f"{HOSTILE.replace('/', '|')}.{name}.jsonl") for name in (*files, "OUT")}
    for name, text in files.items():
        Path(named[name]).write_text(text)
    return {**named, "ID": f"2{HOSTILE}", "ANY": HOSTILE}


@pytest.mark.parametrize(
    "command",
    [
        "dedup DOCUMENTS", "dedup DOCUMENTS --output OUT", "dedup DOCUMENTS --output ANY",
        "dedup DOCUMENTS --state ANY",
        "dedup DOCUMENTS --keep new --output OUT", "dedup DOCUMENTS --keep new --output OUT --json", "dedup ANY",
        "dedup --fetched-at ANY DOCUMENTS", "fingerprint DOCUMENTS", "fingerprint DOCUMENTS --output OUT",
        "find-all --documents DOCUMENTS", "find-clusters --documents DOCUMENTS", "nearest --to ID DOCUMENTS",
        "nearest --to ANY DOCUMENTS", "explain ID DOCUMENTS", "explain ANY DOCUMENTS", "compare DOCUMENTS FLAT",
        "evaluate FLAT PAIRS", "evaluate FLAT WRONG", "tune FLAT PAIRS", "report DOCUMENTS --output OUT",
        "settings --config ANY", "top --worker ANY",
    ],
)  # fmt: skip
def test_no_text_of_others_works_on_the_terminal(
    hostile: dict[str, str], command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: Captured
) -> None:
    """Escapes, markup, line ends and marks of direction, in any field or name, do nothing there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(options, "WAIT_S", 0.25)
    arguments = [re.sub("|".join(hostile), lambda found: hostile[found[0]], word) for word in command.split()]
    monkeypatch.setattr(sys, "argv", ["neardup", *arguments])
    with pytest.raises(SystemExit):
        main()
    out, err = capfd.readouterr()
    assert "Traceback" not in err and "MarkupError" not in err
    lines = out.split("\n")
    programs = [line for line in lines if line.startswith(('{"', '["'))]  # JSON has the text, escaped
    assert all(json.loads(line) and not re.search(r"[\x00-\x1f]", line) for line in programs)
    people = [line for line in lines + err.split("\n") if line not in programs]
    assert [line for line in people if not line.isprintable()] == []
