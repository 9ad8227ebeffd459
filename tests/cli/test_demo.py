"""`neardup demo`: the main job from end to end, and nothing left behind, however it ends."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections import Counter, deque
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest
from rich.console import Console

from schemas.fields import format_timestamp
from tests.cli.program import misused, refused, run
from tests.conftest import EVENTUALLY_S, REPOSITORY, Kafka, eventually, plain_environment
from tests.report.made import copy, verdict
from worker.__main__ import main
from worker.cli import options
from worker.cli.demo import (
    BEHIND_LATIN,
    PAGES_OF,
    _settings,
    facts_of,
    find_example,
    next_commands,
    show_screen,
    table,
)
from worker.core.document import Verdict
from worker.devkit import demo
from worker.devkit.broker import Runtime
from worker.devkit.demo import ARTICLE, Accuracy, Demo, Truth, workers_running
from worker.devkit.sample.crawl import TEMPLATES, truth_path, write_sample_crawl
from worker.errors import StopError
from worker.settings import TOPICS, Settings
from worker.shell.files.crawl import CrawlFiles, with_answers
from worker.shell.files.engine import file_engine


def start(folder: Path, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    """Start the demo, on a broker of its own unless the environment names one."""
    return subprocess.Popen(
        [
            sys.executable,
            "-m",
            "worker",
            "demo",
            "--documents",
            "300",
            "--keep",
            str(folder),
            *arguments,
        ],
        cwd=REPOSITORY,
        env=plain_environment()
        | {"PATH": os.defpath, "COLUMNS": "200", "PYTHONIOENCODING": "ascii"}
        | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def figures(name: str, screen: str) -> list[int]:
    """The figures of a line of the last screen."""
    found = re.search(rf"^{name} +(.*)$", screen, re.MULTILINE)
    assert found is not None, screen
    return [int(figure.replace(",", "")) for figure in re.findall(r"\d[\d,]*", found[1])]


@pytest.mark.slow
def test_the_demo_answers_every_document_once(tmp_path: Path, broker_runtime: Runtime) -> None:
    """
    Exit code 0, nothing unanswered or repeated, no false pair or merged template, duplicates across
    workers.
    """
    process = start(tmp_path / "demo", "--rate", "0")
    summary, _ = process.communicate(timeout=EVENTUALLY_S)
    assert process.returncode == 0, summary
    assert re.search(r"^answered +each once, by 3 workers; half within", summary, re.MULTILINE)
    fed = figures("fed", summary)[0]
    new = figures("new", summary)
    copies, exact = figures("copies", summary)
    near, across = figures("", summary[summary.index("word for word") :])[:2]
    assert new[0] + sum(new[1:]) + copies == fed > 250
    assert exact + near == copies > across > 0
    missed, all_copies = figures("missed", summary)[:2]
    assert all_copies - missed > missed
    wrong, _, *kinds = figures("wrong", summary)
    assert sum(kinds) == wrong
    # Legal notices are borderline.
    assert not wrong or re.search(r"called copies: \d+ legal notices$", summary, re.MULTILINE)
    crawl = tmp_path / "demo" / "crawl.warc.gz"
    assert summary.rstrip().splitlines()[-4:] == [
        "Try next",
        # `make demo` leaves a shell without `neardup`.
        f"  . {os.path.relpath(sys.prefix, REPOSITORY)}/bin/activate",
        f"  neardup dedup {crawl} --output verdicts.jsonl",
        f"  neardup report verdicts.jsonl --documents {crawl}",
    ]


@pytest.mark.slow
@pytest.mark.kafka
def test_workers_notice_that_the_demo_was_killed(tmp_path: Path, kafka: Kafka) -> None:
    """SIGKILL runs no clean-up; of its broker, `test_nothing_outlives_a_killed_owner` shows it."""
    check_end(tmp_path, signal.SIGKILL, NEARDUP_BOOTSTRAP=kafka.bootstrap)


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.usefixtures("broker_runtime")
def test_ctrl_c_leaves_no_process_behind(tmp_path: Path) -> None:
    """In the midst of it: neither a worker nor the broker."""
    check_end(tmp_path, signal.SIGINT)


def check_end(tmp_path: Path, number: signal.Signals, **environment: str) -> None:
    """End a demo by a signal, and wait for the end of all processes that it has started."""
    process = start(tmp_path / "demo", "--rate", "5", "--workers", "1", **environment)
    log = tmp_path / "demo" / "worker-1.log"
    eventually(lambda: log.exists() and b"partitions assigned" in log.read_bytes())
    started = psutil.Process(process.pid).children(recursive=True)
    assert process.poll() is None
    assert len(started) >= 1 + (not environment)  # a worker, and the demo's own broker
    process.send_signal(number)
    output, _ = process.communicate(timeout=EVENTUALLY_S)
    assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL), output
    _, alive = psutil.wait_procs(started, timeout=EVENTUALLY_S)
    assert alive == []


NOBODY = Settings(
    bootstrap="127.0.0.1:1", kafka={"transaction.timeout.ms": "1000"}, call_timeout_s=1.5
)


def test_workers_do_not_run_code_of_the_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker.py or a library's namesake there stays what it is: a file."""
    folder, marker = tmp_path / "stranger", tmp_path / "marker"
    folder.mkdir()
    for name in ("worker", "schemas", "typer", "json"):
        (folder / f"{name}.py").write_text(
            f"open({str(marker)!r}, 'w').close()\nraise SystemExit(3)\n"
        )
    monkeypatch.chdir(folder)
    with workers_running(NOBODY, ["one"], tmp_path) as running:
        assert running["one"].wait(240) == 1
    assert not marker.exists()
    assert "no answer from 127.0.0.1:1" in (tmp_path / "one.log").read_text()


def test_what_a_failed_demo_has_left_is_kept_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that sends its reader to a log needs the log."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("NEARDUP_BOOTSTRAP", NOBODY.bootstrap)
    monkeypatch.setattr(options, "WAIT_S", 0.25)
    result = run("demo", "--documents", "10", code=1)
    assert isinstance(result.exception, StopError)
    (folder,) = tmp_path.iterdir()
    assert f"kept in {folder}" in result.stderr and (folder / "crawl.warc.gz").exists()


def test_each_demo_on_a_cluster_has_topics_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They stay there, and in a container the next demo's process has the same number."""
    monkeypatch.setenv("NEARDUP_BOOTSTRAP", NOBODY.bootstrap)
    monkeypatch.setattr("worker.cli.demo.await_cluster", lambda _: None)
    with ExitStack() as stack:
        made = [_settings(stack, Console(), tmp_path, 1) for _ in range(2)]
    names = [{getattr(one, name) for name in ("group", *TOPICS)} - {None} for one in made]
    assert not names[0] & names[1]


@pytest.mark.parametrize("keep", ["file", "file/below"])
def test_what_cannot_be_the_folder_of_the_demo_is_refused(tmp_path: Path, keep: str) -> None:
    """It is said in one line, which names the option."""
    (tmp_path / "file").write_text("of another program")
    text = refused("demo", "--keep", tmp_path / keep)
    assert f"--keep {tmp_path / keep} cannot be a folder" in text
    assert (tmp_path / "file").read_text() == "of another program"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("absent.jsonl", "cannot read"),
        ("folder", "it is a folder: name the files in it"),
        ("empty.jsonl", "has no document that can be read: name another --input"),
    ],
)
def test_a_crawl_without_documents_is_refused_before_a_broker_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, text: str
) -> None:
    """Nothing is kept of a run that has not begun."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "empty.jsonl").touch()
    (tmp_path / "runs").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "runs"))
    monkeypatch.setattr("worker.cli.demo._settings", lambda *_: pytest.fail("a broker is started"))
    assert text in refused("demo", "--input", tmp_path / name)
    assert list((tmp_path / "runs").iterdir()) == []


@pytest.mark.parametrize("command", [["demo"], ["broker", "start"]])
def test_a_broker_of_two_nodes_is_refused(command: list[str]) -> None:
    """Before anything is made or downloaded, in one line with the reason."""
    assert "a quorum of 2 survives no failure" in misused(*command, "--nodes", "2")


def test_an_interrupted_demo_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not a failure whose cause is looked for."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def interrupted(archive: Path, *_: int) -> None:
        archive.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("worker.cli.demo.write_sample_crawl", interrupted)
    run("demo", "--documents", "10", code=130)
    assert list(tmp_path.iterdir()) == []


def test_sigterm_within_a_call_of_the_kafka_client_interrupts_the_demo(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Ctrl-C does there, whatever error it becomes."""

    def interrupted(*_: object) -> None:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            raise TypeError from None

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("worker.cli.demo.write_sample_crawl", interrupted)
    monkeypatch.setattr("worker.signals.received", [])
    monkeypatch.setattr(os, "_exit", sys.exit)  # which ends this process without its tests
    monkeypatch.setattr(sys, "argv", ["neardup", "demo", "--documents", "10"])
    with pytest.raises(SystemExit) as end:
        main()
    assert (end.value.code, capsys.readouterr().err.splitlines()[-1]) == (
        143,
        "neardup: terminated",
    )


@pytest.fixture(scope="module")
def judged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Demo, Path]:
    """A run over a sample crawl as it has ended, judged without Kafka."""
    crawl = tmp_path_factory.mktemp("crawl") / "crawl.warc.gz"
    write_sample_crawl(crawl, 1_500, 1)
    files = CrawlFiles([str(crawl)])
    ended = Demo(Settings(threads=1), files, Truth(truth_path(crawl)), rate=0)
    with file_engine(ended.settings) as engine:
        for _, answered in with_answers(files, engine.answers):
            assert isinstance(answered.answer, Verdict)
            ended._sent(0, answered.offset, 0)
            ended._take(answered.answer, 20)
    return ended, crawl


def screen(judged: tuple[Demo, Path], width: int = 80) -> list[str]:
    """The lines of the last screen."""
    ended, crawl = judged
    printed = io.StringIO()
    console = Console(width=width, file=printed, highlight=False)
    commands = next_commands(
        Path("crawl.warc.gz"), "neardup sample-crawl --documents 3000 --seed 1"
    )
    show_screen(console, facts_of(ended, 3, 250), find_example(ended, crawl), commands)
    return printed.getvalue().splitlines()


def test_the_live_table_shows_where_two_urls_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """On 80 columns, where neither of them has room."""
    monkeypatch.setenv("COLUMNS", "80")
    place = "https://example.org/a/long/way/to/go/before/anything/differs/"
    found = copy(2, of=1, distance=3, url=f"{place}ferry")
    assert found.duplicate_of is not None
    original = found.duplicate_of.original._replace(url=f"{place}bridge")
    found = found._replace(duplicate_of=found.duplicate_of._replace(original=original))
    shown = SimpleNamespace(
        latest=[found],
        outcomes=Counter(duplicate=1),
        answers=Counter({(0, 0): 1}),
        sent_ms={(0, 0): 1},
        seconds=1.0,
    )
    console = Console(width=80, file=io.StringIO(), record=True)
    console.print(table(shown))  # type: ignore[arg-type]  # what it reads of a demo
    [_, row, *_] = console.export_text().splitlines()
    assert row.split() == ["duplicate", "3", "…/ferry", "…/bridge"]


def test_the_last_screen_is_one_screen(
    judged: tuple[Demo, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """20 lines of 80 columns, where the shell does not know the command, too."""
    monkeypatch.setattr("shutil.which", lambda _: None)
    lines = screen(judged)
    assert len(lines) <= 20
    assert max(map(len, lines)) <= 80
    assert not [line for line in lines[:10] if line.endswith("…")]
    names = [line.split()[0] for line in lines[2:9] if not line.startswith(" ")]
    assert names == ["fed", "answered", "new", "copies", "missed", "wrong"]


def test_the_last_screen_says_what_was_missed_and_what_was_merged_wrongly(
    judged: tuple[Demo, Path],
) -> None:
    """
    Each is counted against the truth, here as the truth's file has it: a legal notice that was
    called a copy of another one counts as wrong.
    """
    ended, crawl = judged
    rows = [json.loads(line) for line in truth_path(crawl).read_text().splitlines()]
    group_of = {row["doc_id"]: row["group"] for row in rows if row["group"] is not None}
    relation_of = {row["doc_id"]: row["relation"] for row in rows}
    verdicts = [one for one in ended._verdicts.values() if one.doc_id in group_of]
    groups = [group_of[verdict.doc_id] for verdict in verdicts]
    duplicates = [
        (verdict.doc_id, verdict.duplicate_of.original.doc_id)
        for verdict in verdicts
        if verdict.duplicate_of is not None
    ]
    right = [pair for pair in duplicates if group_of[pair[0]] == group_of.get(pair[1])]
    wrong = [pair[0] for pair in duplicates if pair not in right]
    copies = len(groups) - len(set(groups))
    text = "\n".join(screen(judged))
    found = {pair[0] for pair in right}
    firsts: set[str] = set()
    rotating_missed = 0
    for judgement in verdicts:
        group = group_of[judgement.doc_id]
        if relation_of[judgement.doc_id] == "rotating" and group in firsts:
            rotating_missed += judgement.doc_id not in found
        firsts.add(group)
    assert figures("missed", text)[:2] == [copies - len(right), copies]
    assert f"; {rotating_missed} have rotated advertisements" in text
    legal = sum(relation_of[doc_id] == "legal" for doc_id in wrong)
    assert legal > 10
    assert figures("wrong", text)[:2] == [len(wrong), len(set(groups))]
    assert f"{legal} legal notices" in text
    assert set(PAGES_OF) == {ARTICLE, *TEMPLATES}  # each kind has a name


def test_the_last_screen_shows_a_copy_with_the_words_that_differ(
    judged: tuple[Demo, Path],
) -> None:
    """Two different URLs, and words of either text between some that both have."""
    lines = screen(judged)
    at = next(at for at, line in enumerate(lines) if line.startswith("A copy, similarity 0."))
    first, second, difference = lines[at + 1 : at + 4]
    assert first != second and all(line.startswith("  http://") for line in (first, second))
    assert re.search(r"\[-.+-\]|\{\+.+\+\}", difference)
    # A text in Latin letters, where there is one.
    assert max(difference.replace("…", "")) < BEHIND_LATIN


def test_the_last_screen_of_another_crawl_claims_no_truth(
    judged: tuple[Demo, Path], tmp_path: Path
) -> None:
    """
    Of --input nobody knows what was missed. What was not answered, or twice, is said instead of the
    latency; where no copy differs in a word, or a pipe has been read, no example is shown.
    """
    ended, crawl = judged
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for a writer
    assert find_example(ended, tmp_path / "pipe") is None
    texts = "".join(f'{{"doc_id": "{name}", "text": "The ferry is late."}}\n' for name in "ab")
    (tmp_path / "two.jsonl").write_text(texts)
    other = Demo(Settings(threads=1), CrawlFiles([str(tmp_path / "two.jsonl")]), Truth(None), 0)
    other._sent(0, 0, 0)
    facts = dict(facts_of(other, 2, 0))
    assert {"missed", "wrong"}.isdisjoint(facts)
    assert facts["answered"] == "1 pages were not answered, 0 more than once"
    assert find_example(other, tmp_path / "two.jsonl") is None
    lines = next_commands(crawl, None)
    assert lines[-1] == f"neardup report verdicts.jsonl --documents {crawl}"
    assert not any("sample-crawl" in line for line in lines)


FAILED = SimpleNamespace(failures=2, failed=["too large", "too late"])


@pytest.mark.parametrize(
    ("outcome", "text"),
    [
        (FAILED, "2 documents could not be fed: too large; too late"),
        (ValueError("odd"), "ValueError('odd')"),
    ],
)
def test_the_demo_ends_when_its_feeding_fails(
    monkeypatch: pytest.MonkeyPatch, outcome: Any, text: str
) -> None:
    """Failed deliveries and failures of any kind end the demo at once, not after its patience."""

    def feed(*_: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(demo, "feed_documents", feed)
    monkeypatch.setattr(demo, "watch", lambda *_, **__: itertools.repeat(None))
    running = Demo(Settings(), CrawlFiles([]), truth=None, rate=0)  # type: ignore[arg-type]
    with pytest.raises(StopError, match=re.escape(text)):
        deque(running.run(), maxlen=0)


def test_copies_with_rotated_advertisements_are_counted_apart(tmp_path: Path) -> None:
    """
    One that was not found is missed, and counted apart; one that was taken for another article is
    missed and wrong.
    """
    truth = tmp_path / "crawl.truth.jsonl"
    answers = [verdict(0), copy(1, of=0), verdict(2), verdict(3), copy(4, of=0)]
    groups = ["r1", "r1", "r1", "r2", "r2"]
    rows = [
        {
            "url": answer.url,
            "fetched_at": format_timestamp(answer.fetched_at_ms or 0),
            "group": group,
            "relation": "rotating",
        }
        for answer, group in zip(answers, groups, strict=True)
    ]
    truth.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    running = Demo(Settings(), CrawlFiles([]), Truth(truth), rate=0)
    for answer in answers:
        running._take(answer, answer.decided_at_ms)
    assert running.accuracy() == Accuracy(3, 2, 2, 2, Counter({ARTICLE: 1}))
    assert (
        "2 of 3 copies were not found; 2 have rotated advertisements"
        in dict(facts_of(running, 1, 0)).values()
    )
