"""`neardup demo`: the main job from end to end, on a real broker, with the verdicts live."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live

from worker.cli import app
from worker.cli.broker import prepare_with_progress
from worker.cli.cluster import await_cluster
from worker.cli.demo_view import show_examples, show_next, show_summary, table
from worker.errors import StopError
from worker.settings import Settings

if TYPE_CHECKING:
    from worker.shell.files.crawl import CrawlFiles

PARTITIONS_MIN = 6


@app.command()
def demo(
    input_file: Annotated[
        Path | None, typer.Option("--input", help="Crawler output to take in place of a sample crawl.")
    ] = None,
    documents: Annotated[int, typer.Option(help="Documents of the sample crawl.", min=10, max=1_000_000)] = 3_000,
    seed: Annotated[int, typer.Option(help="Seed of the sample crawl.", min=0)] = 1,
    workers: Annotated[int, typer.Option(help="Workers in the group.", min=1, max=16)] = 3,
    nodes: Annotated[int, typer.Option(help="Nodes of the broker: 1 or 3.", min=1, max=3)] = 1,
    rate: Annotated[float, typer.Option(help="Documents fed a second at the most; 0 is no limit.", min=0)] = 200,
    keep: Annotated[Path | None, typer.Option(help="Keep crawl, truth, logs and broker data in this folder.")] = None,
) -> None:
    """
    Run everything: a sample crawl, a broker, workers, verdicts, a summary.

    With $NEARDUP_BOOTSTRAP the demo runs on that cluster, under topics of its own. Exit code 0 only if every document
    was answered exactly once; else everything is kept in a folder that is named. Ctrl-C leaves no process, no port and
    no file behind.
    """
    from worker.devkit.demo import Demo, Truth, workers_running  # noqa: PLC0415

    console = Console()
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: through every clean-up
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(keep))
        crawl_file, truth_file = _crawl(console, folder, input_file, documents, seed)
        settings = _settings(stack, console, folder, nodes)
        run = Demo(settings, _files(crawl_file), Truth(truth_file), rate)
        run.prepare()
        ids = [f"worker-{number}" for number in range(1, workers + 1)]
        running = stack.enter_context(workers_running(settings, ids, folder))
        with console.status(f"waiting for {workers} workers to share the partitions (a first start compiles)"):
            run.wait_for(running)
        console.print(f"{workers} workers run, feeding at {f'{rate:g}/s' if rate else 'full speed'}")
        with Live(console=console, refresh_per_second=8) as live:
            for _ in run.run():
                live.update(table(run))
        console.print()
        is_whole = show_summary(console, run)
        show_examples(console, run.examples())
        made = None if input_file else f"neardup sample-crawl --documents {documents} --seed {seed}"
        show_next(console, crawl_file if input_file or keep else Path("crawl.warc.gz"), None if keep else made, run)
        if not is_whole:
            raise typer.Exit(1)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Return the folder of one run; one of our own goes at the end, but not after a failure."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise StopError(
                f"--keep needs an empty folder, {keep} holds something: a broker's old data would be served"
            )
        yield keep
        return
    folder = Path(tempfile.mkdtemp(prefix="neardup-demo-"))
    try:
        yield folder
    except Exception:  # Ctrl-C is none
        typer.echo(f"crawl, logs and broker data are kept in {folder}", err=True)
        raise
    except BaseException:
        shutil.rmtree(folder)
        raise
    shutil.rmtree(folder)


def _crawl(
    console: Console, folder: Path, input_file: Path | None, documents: int, seed: int
) -> tuple[Path, Path | None]:
    if input_file is not None:
        return input_file, None
    from worker.devkit.sample_crawl import truth_path, write_sample_crawl  # noqa: PLC0415

    crawl_file = folder / "crawl.warc.gz"
    with console.status(f"writing a sample crawl of {documents:,} documents (seed {seed})"):
        write_sample_crawl(crawl_file, documents, seed)
    console.print(f"sample crawl: {documents:,} documents, {crawl_file.stat().st_size / 1e6:.1f} MB")
    return crawl_file, truth_path(crawl_file)


def _files(crawl_file: Path) -> CrawlFiles:
    from worker.shell.files.crawl import CrawlFiles  # noqa: PLC0415

    return CrawlFiles([str(crawl_file)], fetched_at_default="2026-01-01T00:00:00Z")


def _settings(stack: ExitStack, console: Console, folder: Path, nodes: int) -> Settings:
    """Return settings for a cluster: the one that the environment names, with topics of its own, or an embedded one."""
    if os.environ.get("NEARDUP_BOOTSTRAP"):
        name = f"neardup-demo-{os.getpid()}"
        settings = Settings(
            threads=1,
            bootstrap=os.environ["NEARDUP_BOOTSTRAP"],
            group=name,
            topic_documents=f"{name}.documents",
            topic_fingerprints=f"{name}.fingerprints",
            topic_verdicts=f"{name}.verdicts",
            topic_dead_letter=f"{name}.dead-letter",
            topic_new=None,
        )
        await_cluster(settings)
        return settings
    from worker.devkit.broker import EmbeddedKafka  # noqa: PLC0415

    runtime = prepare_with_progress(None)
    with console.status(f"starting Apache Kafka, {nodes} node{'s' if nodes > 1 else ''}"):
        kafka = stack.enter_context(EmbeddedKafka(nodes, data=folder / "kafka", runtime=runtime))
    console.print(f"Apache Kafka serves at {kafka.bootstrap}")
    return Settings(bootstrap=kafka.bootstrap, partitions=PARTITIONS_MIN, replication_factor=nodes, threads=1)
