"""
What commands write: never over what is there, an input or a former output; nothing that works on a
terminal.
"""

from __future__ import annotations

import errno
import gzip
import io
import json
import os
import pty
import re
import shlex
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import NoReturn, TypeAlias

import pandas
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from tests.cli.program import ARTICLE, OTHER, lines, misused, page, refused, run
from tests.cli.test_options import COMMANDS
from tests.conftest import REPOSITORY, plain_environment
from worker.__main__ import main
from worker.cli import options
from worker.cli.shared import TableColumn, TableColumns
from worker.cli.verdicts import cells_that_differ
from worker.errors import StopError
from worker.shell.files.formats import WARC
from worker.shell.files.keeping import format_kept
from worker.shell.files.options import FileOptions
from worker.shell.messages import verdict_of
from worker.shell.messages.verdicts import JudgedAnswers

ROLES = {  # {a} and {b} are the same file
    "input and kept": "{a} --keep new --output {b}",
    "input and duplicates": "{other} {a} --keep new --output {none} --duplicates {b}",
    "output and duplicates": "{other} --keep new --output {a} --duplicates {b}",
    "input in the state": "{b} --output {none} --state {state}",
    "output in the state": "{other} --output {b} --state {state}",
    "duplicates in the state": "{other} --keep new --output {none} --duplicates {b} --state "
    "{state}",
}


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("dedup {name} --output {there}/out.jsonl", "crawl"),
        ("dedup {name} --keep new --output {there}/kept.jsonl", "crawl/*.jsonl"),
        ("dedup {name} --output {elsewhere} --damage {there}/lost.jsonl", "crawl/**"),
        ("dedup {name} --output {elsewhere} --state {there}/known", "crawl"),
        ("dedup {elsewhere} --reference {name} --output {there}/out.jsonl", "crawl"),
        ("archive --input {name} --output {there}/judged", "crawl"),
        ("fingerprint {name} --output {there}/out.jsonl", "crawl/*"),
        ("report {elsewhere} --documents {name} --output {there}/page.html", "crawl"),
        ("find-all --input {name} --output {there}/pairs.jsonl", "crawl"),
        ("nearest {name} --to x --output {there}/near.jsonl", "crawl/*.jsonl"),
    ],
)
def test_no_command_writes_where_a_later_run_would_read(
    tmp_path: Path, command: str, name: str
) -> None:
    """The first run is refused, before there is anything; the error names both places."""
    there = tmp_path / "crawl"
    there.mkdir()
    for folder in (there, tmp_path):
        (folder / "in.jsonl").write_text(lines(page(1, text=ARTICLE)))
    given = {"name": tmp_path / name, "there": there, "elsewhere": tmp_path / "in.jsonl"}
    if "--output {elsewhere}" in command:
        given["elsewhere"] = tmp_path / "out.jsonl"
    said = refused(*(part.format(**given) for part in command.split()))
    assert "a later run would read it as documents: name a place elsewhere" in said
    assert f"{there}/" in said and str(given["name"]) in said
    assert {path.name for path in tmp_path.rglob("*")} == {"crawl", "in.jsonl"}


@pytest.mark.parametrize("role", ROLES)
def test_no_two_roles_are_one_place(tmp_path: Path, role: str) -> None:
    """
    Refused before anything is opened, and everything is as it was; `check_places` knows more names.
    """
    place, other = tmp_path / "folder" / "place.jsonl", tmp_path / "other.jsonl"
    place.parent.mkdir()
    for path in (place, other):
        path.write_text(lines(page(1, text=ARTICLE)))
    link = tmp_path / "link.jsonl"
    link.symlink_to(place)
    before = {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")}
    given = {"a": place, "b": link, "other": other, "none": tmp_path / "none"}
    given["state"] = place.parent
    said = refused("dedup", *(part.format(**given) for part in ROLES[role].split()))
    assert re.search("is an input and the output|are the same file|lies in", said)
    assert {path: path.is_file() and path.read_bytes() for path in tmp_path.rglob("*")} == before


def test_an_input_is_no_state(tmp_path: Path) -> None:
    """A state is a folder, and a file of documents is none."""
    (tmp_path / "in.jsonl").write_text(lines(page(1, text=ARTICLE)))
    given = ("dedup", tmp_path / "in.jsonl", "--output", tmp_path / "out.jsonl", "--state")
    assert "in.jsonl is an input, and --state must be a folder" in refused(
        *given, tmp_path / "in.jsonl"
    )


def test_spark_is_named_by_a_url(tmp_path: Path) -> None:
    """Spark would be said not to answer, after the inputs have been read."""
    given = (
        "archive",
        "--input",
        tmp_path,
        "--output",
        tmp_path / "judged",
        "--spark",
        "host:15002",
    )
    assert "--spark must be like sc://HOST:15002, got 'host:15002'" in misused(*given)


def test_a_summary_calls_stdout_by_its_name(tmp_path: Path) -> None:
    """Where documents that are kept go if no --output is named."""
    (tmp_path / "in.jsonl").write_text(lines(page(1, text=ARTICLE)))
    assert "; 1 kept in stdout; " in run("dedup", tmp_path / "in.jsonl", "--keep", "new").stderr


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ("place --output - >> place", "- is an input and the output"),
        ("- --output place < place", "place is an input and the output"),
        pytest.param(
            "other --keep new --output - --duplicates - >> place",
            "- and - are the same file",
            marks=pytest.mark.nightly,
        ),
        (
            "other --keep new --output - --duplicates /dev/stdout | cat",
            "- and /dev/stdout are the same file",
        ),
        pytest.param(
            "other --keep new --output place --duplicates - >> place",
            "place and - are the same file",
            marks=pytest.mark.nightly,
        ),
    ],
)
def test_standard_streams_are_places(tmp_path: Path, arguments: str, text: str) -> None:
    """What the shell has sent them to is read, and written, too."""
    for name in ("place", "other"):
        (tmp_path / name).write_text(lines(page(1, text=ARTICLE)))
    command = f"{shlex.quote(sys.executable)} -m worker dedup {arguments}"
    done = subprocess.run(
        command, shell=True, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert f"neardup: {text}" in done.stderr
    assert (tmp_path / "place").read_text() == lines(page(1, text=ARTICLE))


@pytest.mark.parametrize(
    "arguments",
    [
        "dedup a b --output out --damage /dev/stderr 2>> log",
        "dedup a --quiet --keep new --output /dev/fd/7 7>> log",
    ],
)
def test_a_name_of_an_open_file_is_written_behind_what_is_there(
    tmp_path: Path, arguments: str
) -> None:
    """
    The shell appends to it, so a former content stays, and the shell sees what is new. Which names
    an open file has is tested in `tests/shell/test_outputs.py`.
    """
    (tmp_path / "a").write_text(lines(page(1, text=ARTICLE)))
    (tmp_path / "b").write_text("{no JSON\n")
    log = tmp_path / "log"
    log.write_text("precious\n")
    command = f"{shlex.quote(sys.executable)} -m worker {arguments} && echo and more >> log"
    subprocess.run(command, shell=True, cwd=tmp_path, check=True, env=plain_environment())
    first, second, *_, last = log.read_text().splitlines()
    assert (first, last) == ("precious", "and more") and second
    assert not list(tmp_path.glob("*.part"))


def test_a_summary_and_an_output_are_not_both_on_stdout(tmp_path: Path) -> None:
    """Neither would be readable; the damaged places are an output, too."""
    (tmp_path / "in.jsonl").write_text(lines(page(1, text=ARTICLE)))
    for outputs in (["--output", "-"], ["--output", tmp_path / "out", "--damage", "/dev/stdout"]):
        said = misused("dedup", tmp_path / "in.jsonl", *outputs, "--json")
        assert "--json writes its summary to stdout: name an --output" in said


def test_outputs_that_destroy_nothing_are_written(tmp_path: Path) -> None:
    """A device twice, and a place beside the input whose name begins as the input's does."""
    source = tmp_path / "in.jsonl"
    source.write_text(lines(page(1, text=ARTICLE), page(2, text=ARTICLE)))
    for output, duplicates in (
        ("/dev/null", "/dev/null"),
        (f"{source}.kept", f"file://{source}.others"),
    ):
        outputs = ("--output", output, "--duplicates", duplicates, "--state", tmp_path / "in")
        run("dedup", source, "--keep", "new", *outputs)
    assert {path.name for path in tmp_path.iterdir()} == {
        "in",
        "in.jsonl",
        "in.jsonl.kept",
        "in.jsonl.others",
    }


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemError, TypeError])
def test_an_interrupt_is_no_traceback(
    error: type[BaseException], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """
    Before the command line sees to it a second goes by; within a call of the Kafka client it is
    another error.
    """

    def interrupted() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise error from None

    monkeypatch.setattr("worker.cli.app", interrupted)
    monkeypatch.setattr("worker.signals.received", [])
    monkeypatch.setattr(os, "_exit", sys.exit)  # which ends this process without its tests
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr().err) == (130, "neardup: interrupted\n")


def test_a_place_that_may_not_be_entered_is_named_without_a_traceback(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another user's folder, or a state that another user wrote with a strict umask."""

    def denied() -> NoReturn:
        raise PermissionError(errno.EACCES, "Permission denied", "theirs/crawl.warc")

    monkeypatch.setattr("worker.cli.app", denied)
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 1
    said = "neardup: theirs/crawl.warc: Permission denied: allow it, or name another place\n"
    assert capsys.readouterr().err == said


def test_a_name_that_is_too_long_is_said_without_a_traceback(tmp_path: Path) -> None:
    """The file system refuses to look for it."""
    long = "x" * 300
    command = [sys.executable, "-m", "worker", "dedup", long]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == f"neardup: {long}: File name too long: name another place\n"


def test_a_folder_that_is_gone_is_said_without_a_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A script's own folder may be removed while the commands behind it still run in it."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.setattr("worker.cli.app", lambda: os.path.realpath("a"))
    with monkeypatch.context() as folder, pytest.raises(SystemExit) as end:
        folder.chdir(gone)
        gone.rmdir()
        main()
    assert end.value.code == 1
    said = "the folder in which this command runs is gone: change into another one"
    assert capsys.readouterr().err == f"neardup: {said}\n"


ROWS = [
    {"doc_id": name, "text": text}
    for name, text in zip("abcd", [ARTICLE, ARTICLE.upper(), "", OTHER], strict=True)
]


@pytest.mark.parametrize(
    ("form", "outputs"),
    [
        ("messages", (["out.csv"], ["out.parquet"], ["kept.jsonl", "--keep", "new"])),
        ("verdicts", (["out.jsonl"], ["kept.jsonl", "--keep", "new"])),
    ],
)
def test_nothing_is_made_of_an_answer_that_its_output_does_not_write(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, outputs: tuple[list[str], ...]
) -> None:
    """No message for a table, no object for lines, and neither for the documents themselves."""
    (tmp_path / "in.jsonl").write_text(lines(*ROWS, page(9, fetched_at="no")))
    (tmp_path / "known.jsonl").write_text(lines(page(10, text="known before")))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(JudgedAnswers, form, property(lambda _: pytest.fail(f"{form} are made")))
    for output in outputs:
        run("dedup", "in.jsonl", "--reference", "known.jsonl", "--output", *output)


def test_verdicts_are_what_their_outputs_name_says(tmp_path: Path) -> None:
    """
    Lines, CSV and Parquet say the same, compressed or not; what is none of them is refused, and
    nothing is made.
    """
    source = tmp_path / "in.jsonl"
    source.write_text(lines(*ROWS) + '{"doc_id": "e", "url": "https://example.org/e"}\n')

    def judged(name: str) -> pandas.DataFrame:
        run("dedup", source, "--output", tmp_path / name)
        read = (
            pandas.read_parquet
            if ".parquet" in name
            else partial(pandas.read_csv, dtype_backend="numpy_nullable")
        )
        return read(tmp_path / name)

    for name in ("out.csv", "out.csv.gz", "out.csv.zst", "out.parquet"):
        found = judged(name)
        assert found.doc_id.tolist()[:4] == ["a", "b", "c", "d"]
        assert found.verdict.tolist() == ["new", "duplicate", "skipped", "new", "not-judged"]
        assert (found.duplicate_of[1], found.similarity[1], found.reason[4]) == (
            "a",
            1.0,
            "no-body",
        )
    run("dedup", source, "--output", tmp_path / "out.jsonl.gz")
    told = gzip.decompress((tmp_path / "out.jsonl.gz").read_bytes()).splitlines()
    assert [json.loads(line)["verdict"] for line in told] == [
        "new",
        "duplicate",
        "skipped",
        "new",
        "dead-letter",
    ]
    for command in (["dedup"], ["dedup", "--keep", "new"], ["fingerprint"]):
        text = refused(*command, source, "--output", tmp_path / "wrong.warc.gz")
        assert "would be JSON Lines, and its name says WARC" in text
    assert not list(tmp_path.glob("wrong*"))


def test_nothing_binary_goes_to_a_terminal(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Which it would garble; a pipe gets it."""
    (tmp_path / "a.warc").write_bytes(b"WARC/1.0\r\n\r\n")
    files = [str(tmp_path / "a.warc")]
    ours, theirs = pty.openpty()
    with os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patch:
        patch.setattr("sys.stdout", terminal)
        with pytest.raises(StopError, match="WARC is not written to a terminal: name an --output"):
            format_kept(files, ["-"], FileOptions(keep="new"))
    os.close(ours)
    assert format_kept(files, ["-"], FileOptions(keep="new")) is WARC


COLUMNS = (
    TableColumn("bits", 4, is_right=True),
    TableColumn("url"),
    TableColumn("reason"),
    TableColumn("µs", 6, rank=1),
)


@given(st.integers(40, 300), st.lists(st.text(max_size=300), min_size=4, max_size=4))
def test_no_row_is_wider_than_the_terminal(width: int, cells: list[str]) -> None:
    """Wide characters count twice, and control characters never reach it."""
    columns = TableColumns(*COLUMNS, width=width)
    assert cell_len(columns.head()) <= width
    assert cell_len(columns.line(cells)) <= width
    assert columns.line(cells).isprintable()


@pytest.mark.parametrize("width", [60, 76, 100, 200])
@pytest.mark.parametrize("command", ["compare", "plan"])
def test_tables_follow_the_terminals_width(tmp_path: Path, width: int, command: str) -> None:
    """The bits of a comparison go below each other, the layouts of a plan have fewer columns."""
    for name, word in (("a.txt", "brothers"), ("b.txt", "sisters")):
        (tmp_path / name).write_text(
            f"The old bridge over the river was built by two {word} in spring."
        )
    arguments = {
        "compare": [str(tmp_path / "a.txt"), str(tmp_path / "b.txt")],
        "plan": ["--documents", "10M"],
    }[command]
    said = run(command, *arguments, COLUMNS=str(width)).output
    table = [
        line
        for line in said.splitlines()
        if command == "compare" or line.startswith(("   ", "*  "))
    ]
    assert len(table) > 4 and max(map(cell_len, table)) <= width
    if command == "compare":
        blocks = "".join(
            block for line in table if line.startswith("A   ") for block in line.split()[1:]
        )
        assert len(blocks) == 64


def test_a_terminal_without_utf8_gets_question_marks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    No command ends in a traceback for a character that cannot be shown, its help least of all.
    """
    for name, word in (("a.txt", "Brücke…"), ("b.txt", "橋")):
        (tmp_path / name).write_text(
            f"{word} over the river was built by two brothers in the spring of that year."
        )
    calls = [[*name.split(), "--help"] for name in COMMANDS]
    calls += [
        ["compare", *(str(tmp_path / name) for name in ("a.txt", "b.txt"))],
        ["plan", "--documents", "10M"],
    ]
    calls += [["settings"]]
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


@pytest.mark.parametrize(
    ("arguments", "closed", "code", "said", "shown"),
    [
        ("settings", "2>&-", 0, "", "bootstrap = "),
        ("settings", ">&-", 1, "neardup: cannot write: Bad file descriptor\n", ""),
        ("settings", "<&-", 0, "", "bootstrap = "),
        ("dedup - --quiet", "<&-", 1, "neardup: cannot read stdin: it is closed\n", ""),
        ("find-all --input -", "<&-", 1, "neardup: cannot read stdin: it is closed\n", ""),
    ],
)
def test_a_process_may_be_started_without_its_standard_streams(
    arguments: str, closed: str, code: int, said: str, shown: str
) -> None:
    """Only what a command needs is missed: in stderr's place, all of them ended without a word."""
    command = shlex.join([sys.executable, "-m", "worker", *arguments.split()])
    done = subprocess.run(
        ["sh", "-c", f"{command} {closed}"], capture_output=True, text=True,
        env=plain_environment(), check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, said)
    assert done.stdout.startswith(shown) and bool(done.stdout) == bool(shown)


def test_what_stands_in_for_a_stream_is_inherited() -> None:
    """The engine of `archive` writes to its stderr, which is that of the command."""
    child = "import sys; sys.exit(sys.stderr is None)"
    parent = (
        "import subprocess, sys; from worker.__main__ import _open_missing; _open_missing(); "
        f"sys.exit(subprocess.call([sys.executable, '-c', {child!r}]))"
    )
    command = shlex.join([sys.executable, "-c", parent])
    subprocess.run(["sh", "-c", f"{command} 2>&-"], check=True)


def into(stdout: int, command: str) -> tuple[int, bytes]:
    """Run a command into a file; give its exit code and what it said beside."""
    done = subprocess.run(
        [sys.executable, "-m", "worker", command], stdout=stdout, stderr=subprocess.PIPE,
        env=plain_environment(), check=False,
    )  # fmt: skip
    return done.returncode, done.stderr


@pytest.mark.parametrize("command", ["settings", "--help"])
def test_a_full_disk_is_said_in_one_line(command: str) -> None:
    """Behind `>`, where the command only has its stdout."""
    with Path("/dev/full").open("wb") as full:
        assert into(full.fileno(), command) == (
            1,
            b"neardup: cannot write: No space left on device\n",
        )


def test_a_reader_that_has_seen_enough_is_no_traceback() -> None:
    """`neardup settings | head`: the pipe is closed before everything is written."""
    read, write = os.pipe()
    os.close(read)
    assert into(write, "settings") == (1, b"")
    os.close(write)


Captured: TypeAlias = pytest.CaptureFixture[str]
HOSTILE = (
    "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e[/][link=file:///etc/passwd]\r\nWARC/1.0\r\n<b>{{7*7}}"
)


@pytest.fixture
def hostile(tmp_path: Path) -> dict[str, str]:
    """
    Documents with a hostile string in every field, damaged ones and labelled pairs, in files named
    by it.
    """
    town = (
        "The council of the town has said that the bridge over the river will be open to all in "
        "May. " * 2
    )
    texts = (
        town,
        town,
        town + HOSTILE,
        "Quite another text about the ships of the north, and of them. " * 2,
        ".",
    )
    same: dict[str, str | None] = dict.fromkeys(("title", "content_type", "collection"), HOSTILE)
    rows = [
        same
        | {
            "doc_id": f"{number}{HOSTILE}",
            "url": f"http://a/{HOSTILE}{number}",
            "text": text,
            "language": HOSTILE[:60],
        }
        for number, text in enumerate(texts)
    ]
    rows.append(
        {**rows[0], "doc_id": f"5{HOSTILE}", "text": None, "body_base64": "", "charset": HOSTILE}
    )
    lines = [json.dumps({**row, "fetched_at": "2026-01-01T00:00:00Z"}) for row in rows]
    lines += [json.dumps({**rows[0], "fetched_at": HOSTILE}), f"{{{HOSTILE[:20]}", ""]
    flat = " ".join(HOSTILE.split())  # for a line of a table
    pairs = [(0, 1, 1), (0, 3, 1), (0, 2, 0), (2, 3, 0), (0, 9, 1)]
    files = {
        "DOCUMENTS": "\n".join(lines),
        "FLAT": "\n".join(lines[:5]).replace(json.dumps(HOSTILE)[1:-1], json.dumps(flat)[1:-1]),
        "PAIRS": "".join(
            f"{first}{flat}\t{second}{flat}\t{same}\t{flat}\n" for first, second, same in pairs
        ),
        "WRONG": HOSTILE,
    }
    named = {
        name: str(tmp_path / f"{HOSTILE.replace('/', '|')}.{name}.jsonl")
        for name in (*files, "OUT")
    }
    for name, text in files.items():
        Path(named[name]).write_text(text)
    return {**named, "ID": f"2{HOSTILE}", "ANY": HOSTILE}


@pytest.mark.parametrize(
    "command",
    [
        "dedup DOCUMENTS", "dedup DOCUMENTS --output OUT", "dedup DOCUMENTS --output ANY",
        "dedup DOCUMENTS --state ANY",
        "dedup DOCUMENTS --keep new --output OUT", "dedup DOCUMENTS --keep new --output OUT "
                                                   "--json", "dedup ANY",
        "dedup --fetched-at ANY DOCUMENTS", "fingerprint DOCUMENTS", "fingerprint DOCUMENTS "
                                                                     "--output OUT",
        "find-all --input DOCUMENTS", "find-clusters --input DOCUMENTS", "nearest --to ID "
                                                                                 "DOCUMENTS",
        "nearest --to ANY DOCUMENTS", "explain ID DOCUMENTS", "explain ANY DOCUMENTS",
        "compare DOCUMENTS FLAT",
        "evaluate FLAT PAIRS", "evaluate FLAT WRONG", "tune FLAT PAIRS", "report DOCUMENTS "
                                                                         "--output OUT",
        "settings --config ANY", "top --worker ANY",
    ],
)  # fmt: skip
def test_no_text_of_others_works_on_the_terminal(
    hostile: dict[str, str],
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capfd: Captured,
) -> None:
    """Escapes, markup, line ends and marks of direction, in any field or name, do nothing there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(options, "WAIT_S", 0.25)
    arguments = [
        re.sub("|".join(hostile), lambda found: hostile[found[0]], word) for word in command.split()
    ]
    monkeypatch.setattr(sys, "argv", ["neardup", *arguments])
    with pytest.raises(SystemExit):
        main()
    out, err = capfd.readouterr()
    assert "Traceback" not in err and "MarkupError" not in err
    lines = out.split("\n")
    # JSON has the text, escaped.
    programs = [line for line in lines if line.startswith(('{"', '["'))]
    assert all(json.loads(line) and not re.search(r"[\x00-\x1f]", line) for line in programs)
    people = [line for line in lines + err.split("\n") if line not in programs]
    assert [line for line in people if not line.isprintable()] == []


def test_a_table_of_verdicts_shows_where_two_urls_differ() -> None:
    """At 80 columns both would be cut before the difference; whole URLs go into a pipe."""
    example = REPOSITORY / "schemas" / "examples" / "verdict.duplicate-near.json"
    fields = json.loads(example.read_bytes())["value"]
    place = "https://example.org/archive/2026/november/news/of-the-town/"
    fields["url"] = f"{place}ferry"
    fields["duplicate_of"]["url"] = f"{place}bridge"
    verdict = verdict_of(fields)
    columns = (TableColumn("verdict", 9), TableColumn("url"), TableColumn("duplicate of"))
    width = TableColumns(*columns, width=80).width_of("url")
    assert cells_that_differ(verdict, width)[2:] == ["…/ferry", "…/bridge"]
    assert cells_that_differ(verdict, None)[2:] == [f"{place}ferry", f"{place}bridge"]
