"""
`neardup archive` on Spark's own Connect server, on Java: `dedup`'s verdicts, and the embedded
engine's files.
"""

from __future__ import annotations

import gzip
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path

import psutil
import pytest
from platformdirs import user_cache_path

from tests.benchmarks.archive.documents import write_documents
from tests.conftest import eventually, free_ports
from tests.deploy import bounded
from tests.shell.test_archive import (
    MANY,
    archive,
    check_against_dedup,
    crawl,
    dedup,
    files,
    known_in,
    run,
    summary,
    told,
    verdicts,
)
from tests.shell.test_archive_ends import SMALL_LEGS
from worker.core import planner
from worker.devkit.broker.cluster import COLLECTOR
from worker.devkit.broker.runtime import fetch, find_java, read_jars
from worker.devkit.sample.crawl import write_sample_crawl

pytestmark = pytest.mark.timeout(3600)  # 179 MB are fetched once

# What Maven resolves for spark-connect_2.13, less most of that from which no class is loaded here.
# MLlib is not among it: the server's log has an error for it when a session ends, which the client
# does not see.
JARS = read_jars(Path(__file__).with_name("spark_jars.tsv").read_text(encoding="utf-8"))
VERSION = "4.2.0"
# Arrow wants both: the first itself, the second by Netty, which on Java 25 uses Unsafe only where
# that is allowed.
FLAGS = ["--add-opens=java.base/java.nio=ALL-UNNAMED", "--sun-misc-unsafe-memory-access=allow"]
DOCUMENTS = 2_500
CRAWLED = int(os.environ.get("ARCHIVE_CRAWL", "20000"))
FILES = 8  # into which the sample crawl is cut
# Of a member of a gzip file of ours: its first ten bytes.
MEMBER = re.compile(rb"\x1f\x8b\x08\x00\x00\x00\x00\x00..", re.DOTALL)
EXECUTOR = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
WAIT_S = 300.0  # for the first rows


@pytest.fixture(scope="module")
def jars() -> tuple[Path, ...]:
    """The class path, fetched once and checked."""
    return fetch(user_cache_path("neardup") / f"spark-{VERSION}", jars=JARS)


@contextmanager
def _spark(
    jars: tuple[Path, ...], folder: Path, python: str | Path, master: str = "local[2,4]"
) -> Iterator[str]:
    """Run a Connect server whose tasks run on this Python; yield its URL."""
    [port] = free_ports()
    home, java = folder / "home", find_java()
    _write_home(home, java, jars)
    settings = {
        "master": master, "executor.extraJavaOptions": " ".join(FLAGS), "app.name": "neardup",
        "ui.enabled": "false", "local.dir": str(folder / "spark"),
        "connect.grpc.binding.address": "127.0.0.1", "connect.grpc.binding.port": str(port),
    }  # fmt: skip
    command: list[str | Path] = [
        java, "-Xmx1g", COLLECTOR, *FLAGS, "-cp", os.pathsep.join(map(str, jars)),
        *(f"-Dspark.{name}={value}" for name, value in settings.items()),
        "org.apache.spark.sql.connect.service.SparkConnectServer",
    ]  # fmt: skip
    environment = {
        **os.environ, "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_HOME": str(home), "JAVA_HOME": str(home), "SPARK_SCALA_VERSION": "2.13",
    }  # fmt: skip
    with (
        (folder / "spark.log").open("wb") as log,
        bounded.running(
            "Spark", *command, cwd=folder, env=environment, stdout=log, stderr=log
        ) as process,
    ):
        eventually(lambda: _serves(process, port, folder / "spark.log"), "Spark serves")
        yield f"sc://127.0.0.1:{port}"


def _write_home(home: Path, java: str | Path, jars: tuple[Path, ...]) -> None:
    """
    Write what executors of their own are started from: jars, and Java without a module that this
    one has not.
    """
    (home / "jars").mkdir(parents=True)
    for jar in jars:
        (home / "jars" / jar.name).symlink_to(jar)
    (home / "bin").mkdir()
    script = home / "bin" / "java"
    script.write_text(
        "#!/bin/sh\n"
        'for one; do shift; [ "$one" = --add-modules=jdk.incubator.vector ] || set -- "$@" '
        '"$one"; done\n'
        f'exec "{java}" "$@"\n'
    )
    script.chmod(0o755)


def _serves(process: subprocess.Popen[str], port: int, log: Path) -> bool:
    if process.poll() is not None:
        pytest.fail(f"Spark does not serve: {log.read_text()[-3000:]}", pytrace=False)
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


def test_every_verdict_is_that_of_dedup_and_every_file_the_embedded_engines(
    jars: tuple[Path, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A crawl, and beside it lines, rows, re-crawls, redeliveries, damage; files byte for byte, and
    the snapshot.
    """
    source = crawl(tmp_path)
    write_sample_crawl(source / "h.warc.gz", DOCUMENTS, seed=9)
    (source / "h.truth.jsonl").unlink()
    monkeypatch.setattr(time, "time_ns", lambda: 1_790_000_000_000_000_000)
    # Documents of Parquet cannot be kept.
    (source / "d.parquet").rename(source.parent / "rows.parquet")
    options = ("--format", "jsonl", "--keep", "new", "--duplicates", "--json", "--state")
    own, output = tmp_path / "own", tmp_path / "jvm"
    expected = summary(archive(own, *options, tmp_path / "own-state"))
    with _spark(jars, tmp_path, sys.executable) as url:
        said = summary(archive(output, *options, tmp_path / "jvm-state", "--spark", url))
        (source.parent / "rows.parquet").rename(source / "d.parquet")
        archive(tmp_path / "all", "--format", "jsonl", "--spark", url)
    print(
        f"{said['documents']:,} documents: {said['seconds']} s, on the embedded engine "
        f"{expected['seconds']} s"
    )
    assert {**said, "seconds": 0} == {**expected, "seconds": 0} and said["documents"] > DOCUMENTS
    assert files(output) == files(own)
    assert known_in(tmp_path / "jvm-state") == known_in(tmp_path / "own-state")
    wanted = told(dedup(tmp_path))
    print(f"{len(wanted):,} verdicts compared with those of dedup")
    assert told(verdicts(tmp_path / "all")) == wanted
    assert {answer["verdict"] for answer in wanted} == {
        "new",
        "duplicate",
        "skipped",
        "dead-letter",
    }


def test_the_sample_crawl_has_one_result_three_ways(
    jars: tuple[Path, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    By `dedup`, by the embedded engine, and in legs by four executors of Spark: ARCHIVE_CRAWL
    documents, whose verdicts and kept documents are compared byte for byte.
    """
    _write_crawl(tmp_path, CRAWLED)
    monkeypatch.setattr(time, "time_ns", lambda: 1_790_000_000_000_000_000)
    options = ("--format", "jsonl", "--keep", "new", "--duplicates", "--json")
    own, output = tmp_path / "own", tmp_path / "jvm"
    said = [summary(archive(own, *options))]
    (tmp_path / "sitecustomize.py").write_text(SMALL_LEGS.format(rows=CRAWLED // 5))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(planner, "LEG_ROWS_MAX", CRAWLED // 5)
    with _spark(jars, tmp_path, sys.executable, "local-cluster[4,1,1024]") as url:
        said.append(summary(archive(output, *options, "--task-memory", "1G", "--spark", url)))
    asked = len([*(output / "done").glob("ask-*.json")])
    judged = len([*(output / "done").glob("judge-*.json")])
    assert asked > judged > 3
    assert files(output) == files(own)
    check_against_dedup(output)
    kept = tmp_path / "kept.warc.gz"
    inputs = sorted((tmp_path / "in").resolve().iterdir())
    run("dedup", *inputs, "--keep", "new", "--output", kept, "--threads", "1")
    parts = sorted((output / "kept").iterdir())
    expected = gzip.decompress(kept.read_bytes())
    assert b"".join(gzip.decompress(part.read_bytes()) for part in parts) == expected
    print(
        f"{len(expected):,} bytes of kept documents compared; {judged} legs, {asked} tasks asked; "
        f"embedded {said[0]['seconds']} s, Spark {said[1]['seconds']} s"
    )


def _write_crawl(folder: Path, documents: int) -> None:
    """Write a sample crawl, cut into files between its records."""
    whole = folder / "whole.warc.gz"
    write_sample_crawl(whole, documents, seed=11)
    data = whole.read_bytes()
    begins = [found.start() for found in MEMBER.finditer(data)]
    assert len(begins) > documents  # a member for each, and one about the file
    edges = [begins[len(begins) * number // FILES] for number in range(FILES)]
    (folder / "in").mkdir()
    for number, (begin, stop) in enumerate(pairwise([*edges, len(data)])):
        (folder / "in" / f"{number}.warc.gz").write_bytes(data[begin:stop])


def test_executors_without_neardup_or_with_another_are_refused(
    jars: tuple[Path, ...], tmp_path: Path
) -> None:
    """By a task that a Python of its own answers: one with all other packages."""
    source = tmp_path / "in"
    source.mkdir()
    (source / "a.jsonl").write_text("")
    bare = tmp_path / "bare"
    bounded.run("venv", 120, sys.executable, "-m", "venv", "--without-pip", bare)
    [there] = bare.glob("lib/python*/site-packages")
    for path in Path(pytest.__file__).parents[1].iterdir():
        if "neardup" not in path.name:
            (there / path.name).symlink_to(path)
    with _spark(jars, tmp_path, bare / "bin" / "python") as url:
        assert "Spark's executors have no neardup, this is" in archive(
            tmp_path / "out", "--spark", url, code=1
        )
        (there / "neardup-9.9.dist-info").mkdir()
        (there / "neardup-9.9.dist-info" / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: neardup\nVersion: 9.9\n"
        )
        assert "Spark's executors have neardup 9.9, this is" in archive(
            tmp_path / "out", "--spark", url, code=1
        )
    assert not [*(tmp_path / "out").glob("rows/*")]


@pytest.mark.parametrize(
    ("master", "name", "logged"),
    [
        ("local[2,4]", "pyspark.daemon", "Python worker exited unexpectedly"),
        ("local-cluster[2,1,1024]", EXECUTOR, "Lost executor"),
    ],
)
def test_many_documents_while_a_process_is_killed(
    jars: tuple[Path, ...], tmp_path: Path, master: str, name: str, logged: str
) -> None:
    """
    Python of a task, or an executor, ends by kill -9 while rows are made; every verdict is still
    that of dedup.
    """
    write_documents(tmp_path / "in", MANY, 7)
    output = tmp_path / "jvm"
    with _spark(jars, tmp_path, sys.executable, master) as url, ThreadPoolExecutor(1) as pool:
        killed = pool.submit(_kill, name, output)
        said = summary(archive(output, "--format", "jsonl", "--json", "--spark", url))
    assert logged in (tmp_path / "spark.log").read_text(), killed.result()
    print(f"{said['documents']:,} documents: {said['seconds']} s")
    check_against_dedup(output)


def _kill(name: str, output: Path) -> int:
    """
    Wait until rows are written, kill one of the processes of this name that do it, and return its
    number.
    """
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        if [*(output / "rows").glob("*")]:
            for one in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    above = one.parents()
                    if "pyspark.daemon" in above[0].cmdline():  # it runs a task
                        chosen = next(each for each in (one, *above) if name in each.cmdline())
                        chosen.kill()
                        return int(chosen.pid)
        time.sleep(0.05)
    raise AssertionError(f"no process of Spark makes rows after {WAIT_S:.0f} s")
