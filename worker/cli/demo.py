"""`neardup demo`: the main job on a real broker, with verdicts live."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from worker.cli.broker import prepare_with_progress
from worker.cli.options import await_cluster
from worker.cli.shared import printable
from worker.cli.verdicts import cells
from worker.core.document import Verdict
from worker.devkit.broker import EmbeddedKafka
from worker.devkit.demo import Demo, Truth, workers_running
from worker.devkit.sample.crawl import truth_path, write_sample_crawl
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.files.crawl import CrawlFiles
from worker.shell.kafka.admin import Admin, create_topics

PARTITIONS_MIN = 6
OUTCOMES = "new", "exact duplicates", "near duplicates", "skipped", "dead letters"
COLOURS = {"new": "green", "duplicate": "yellow", "skipped": "dim", "deleted": "red"}


def demo(
    input_file: Annotated[
        Path | None,
        typer.Option("--input", help="Crawler output to take in place of a sample crawl."),
    ] = None,
    documents: Annotated[
        int, typer.Option(help="Documents of the sample crawl.", min=10, max=1_000_000)
    ] = 3_000,
    seed: Annotated[int, typer.Option(help="Seed of the sample crawl.", min=0)] = 1,
    workers: Annotated[int, typer.Option(help="Workers in the group.", min=1, max=16)] = 3,
    nodes: Annotated[int, typer.Option(help="Nodes of the broker: 1 or 3.", min=1, max=3)] = 1,
    rate: Annotated[
        float, typer.Option(help="Documents fed a second at the most; 0 is no limit.", min=0)
    ] = 200,
    keep: Annotated[
        Path | None, typer.Option(help="Keep crawl, truth, logs and broker data in this folder.")
    ] = None,
) -> None:
    """
    Run everything: a sample crawl, a broker, workers, verdicts, a summary.

    With $NEARDUP_BOOTSTRAP the demo runs on that cluster, under topics of its own. Exit code 0 only
    if every document was answered exactly once; else everything is kept in a folder that is named.
    Ctrl-C leaves no process, no port and no file behind.
    """
    console = Console()
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(keep))
        crawl_file, truth_file = _crawl(console, folder, input_file, documents, seed)
        settings = _settings(stack, console, folder, nodes)
        crawl = CrawlFiles([str(crawl_file)], fetched_at_default="2026-01-01T00:00:00Z")
        run = Demo(settings, crawl, Truth(truth_file), rate)
        create_topics(Admin(settings), settings)  # before any worker asks for them
        ids = [f"worker-{number}" for number in range(1, workers + 1)]
        running = stack.enter_context(workers_running(settings, ids, folder))
        with console.status(
            f"waiting for {workers} workers to share the partitions (a first start compiles)"
        ):
            run.wait_for(running)
        console.print(
            f"{workers} workers run, feeding at {f'{rate:g}/s' if rate else 'full speed'}"
        )
        with Live(console=console, refresh_per_second=8) as live:
            for _ in run.run():
                live.update(table(run))
        console.print()
        is_whole = show_summary(console, run)
        show_examples(console, run.examples())
        made = None if input_file else f"neardup sample-crawl --documents {documents} --seed {seed}"
        show_next(
            console,
            crawl_file if input_file or keep else Path("crawl.warc.gz"),
            None if keep else made,
            run,
        )
        if not is_whole:
            raise typer.Exit(1)


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Return the folder of one run; one of our own goes at the end, but not after a failure."""
    if keep is not None:
        keep.mkdir(parents=True, exist_ok=True)
        if any(keep.iterdir()):
            raise StopError(
                f"--keep needs an empty folder, {keep} holds something: a broker's old data would "
                f"be served"
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
    crawl_file = folder / "crawl.warc.gz"
    with console.status(f"writing a sample crawl of {documents:,} documents (seed {seed})"):
        write_sample_crawl(crawl_file, documents, seed)
    console.print(
        f"sample crawl: {documents:,} documents, {crawl_file.stat().st_size / 1e6:.1f} MB"
    )
    return crawl_file, truth_path(crawl_file)


def _settings(stack: ExitStack, console: Console, folder: Path, nodes: int) -> Settings:
    """
    Return settings for a cluster: the one that the environment names, with topics of its own, or an
    embedded one.
    """
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
    runtime = prepare_with_progress(None)
    with console.status(f"starting Apache Kafka, {nodes} node{'s' if nodes > 1 else ''}"):
        kafka = stack.enter_context(EmbeddedKafka(nodes, data=folder / "kafka", runtime=runtime))
    console.print(f"Apache Kafka serves at {kafka.bootstrap}")
    return Settings(
        bootstrap=kafka.bootstrap, partitions=PARTITIONS_MIN, replication_factor=nodes, threads=1
    )


def table(run: Demo) -> Group:
    rows = Table(expand=True, box=None, pad_edge=False)
    for name, width in (("verdict", 10), ("bits", 5), ("url", None), ("duplicate of", None)):
        rows.add_column(
            name, width=width, no_wrap=True, overflow="ellipsis", ratio=None if width else 1
        )
    for verdict in run.latest:
        outcome, *rest = cells(verdict)
        rows.add_row(Text(outcome, style=COLOURS[outcome]), *map(Text, rest))
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(run.outcomes.items()))
    rate = len(run.answers) / run.seconds
    return Group(
        rows,
        Text(f"{len(run.sent_ms):,} fed, {len(run.answers):,} answered, {rate:,.0f}/s: {counts}"),
    )


def show_summary(console: Console, run: Demo) -> bool:
    """Print what came of it; return whether every document was answered exactly once."""
    across, pairs = run.pairs_across_workers()
    rows = [
        ("documents", f"{len(run.sent_ms):,}"),
        *((name, f"{run.outcomes[name]:,}") for name in OUTCOMES),
        ("damaged records in the crawl", f"{run.crawl.tally.damaged:,}"),
        ("unanswered", f"{run.unanswered:,}"),
        ("answered twice", f"{run.repeated:,}"),
        ("duplicates found across workers", f"{across:,} of {pairs:,}"),
    ]
    if run.truth:
        found, missed, false = run.found_missed_false()
        share = found / max(found + missed, 1)
        rows.append(
            (
                "against the truth",
                f"{found:,} found, {missed:,} missed ({share:.1%}), {false:,} false",
            )
        )
        rotated, rotating = run.rotating_found()
        rows.append(
            ("copies with other advertisements, plain text", f"{rotated:,} of {rotating:,}")
        )
        kinds = (
            f"{kind} {merged:,} of {pages:,}"
            for kind, (merged, pages) in run.templates_merged().items()
        )
        rows.append(("pages of a template merged", ", ".join(kinds)))
    rows.append(
        ("latency p50, p99", f"{run.percentile_ms(0.5):,} ms, {run.percentile_ms(0.99):,} ms")
    )
    rows.append(("documents/s", f"{len(run.answers) / run.seconds:,.0f}"))
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="bold")
    facts.add_column()
    for row in rows:
        facts.add_row(*row)
    console.print(facts)
    return run.unanswered == 0 and run.repeated == 0 and bool(run.sent_ms)


def show_examples(console: Console, examples: Mapping[str, Verdict]) -> None:
    for name, verdict in examples.items():
        match = verdict.duplicate_of
        assert match is not None
        bits = (
            "1 bit of 64 differs" if match.distance == 1 else f"{match.distance} bits of 64 differ"
        )
        console.print(Text(f"\n{name}: {bits}, similarity {match.similarity:.3f}", style="bold"))
        console.print(Text(f"  {printable(match.original.url)}\n  {printable(verdict.url or '')}"))


def show_next(console: Console, crawl: Path, made: str | None, run: Demo) -> None:
    """
    Print commands that work as they stand, in this order; `made` makes the crawl, if it is not
    kept.
    """
    file = shlex.quote(str(crawl))
    near = next((one.doc_id for one in run.examples().values()), "DOC_ID")
    commands = (
        []
        if shutil.which("neardup")
        else [f". {shlex.quote(os.path.relpath(f'{sys.prefix}/bin/activate'))}"]
    )
    commands += [f"{made} {file}"] if made else []
    commands += [
        f"neardup dedup {file} --output verdicts.jsonl",
        f"neardup report verdicts.jsonl --documents {file}",
        f"neardup explain {shlex.quote(near)} verdicts.jsonl --documents {file}",
    ]
    console.print(Text("\nNext", style="bold"))
    for command in commands:
        console.print(Text(f"  {printable(command)}"), soft_wrap=True)
