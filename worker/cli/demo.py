"""`neardup demo`: a sample crawl, judged by a group on a real broker, with verdicts live."""

from __future__ import annotations

import os
import secrets
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, NamedTuple

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from worker.cli.broker import NodesOption, prepare_with_progress
from worker.cli.options import await_cluster
from worker.cli.shared import console_of_terminal, printable, terminal_width
from worker.cli.side_by_side import shown_steps
from worker.cli.verdicts import cells_that_differ
from worker.core.compare import Step, steps
from worker.core.document import Verdict
from worker.core.tokens import tokens
from worker.devkit.broker import EmbeddedKafka
from worker.devkit.demo import ARTICLE, Demo, Truth, workers_running
from worker.devkit.sample.crawl import truth_path, write_sample_crawl
from worker.errors import StopError
from worker.report.answers import read_texts
from worker.settings import Settings, load_settings
from worker.shell.files.crawl import CrawlFiles
from worker.shell.files.places import is_pipe, shown_input
from worker.shell.kafka.admin import Admin
from worker.shell.kafka.topics import create_topics

PARTITIONS_MIN = 6
FETCHED_AT = "2026-01-01T00:00:00Z"  # the time of documents of --input without one
BEHIND_LATIN = "\u0250"  # Unicode's first character behind Latin letters with their accents
EXAMPLES_MAX = 80  # near-duplicates among which the example is chosen
CONTEXT_WORDS = 2  # shown on either side of a change
COLOURS = {"new": "green", "duplicate": "yellow", "skipped": "dim", "deleted": "red"}


def demo(
    input_file: Annotated[
        Path | None,
        typer.Option("--input", help="Crawler output to use instead of a sample crawl."),
    ] = None,
    documents: Annotated[
        int, typer.Option(help="Number of documents in the sample crawl.", min=10, max=1_000_000)
    ] = 3_000,
    seed: Annotated[int, typer.Option(help="Seed of the sample crawl.", min=0)] = 1,
    workers: Annotated[
        int, typer.Option(help="Number of workers in the group.", min=1, max=16)
    ] = 3,
    nodes: NodesOption = 1,
    rate: Annotated[
        float, typer.Option(help="Most documents to feed per second; 0 is no limit.", min=0)
    ] = 200,
    keep: Annotated[
        Path | None, typer.Option(help="Keep crawl, truth, logs and broker data in this folder.")
    ] = None,
) -> None:
    """
    Run everything: a sample crawl, a broker, workers, verdicts, a summary.

    With $NEARDUP_BOOTSTRAP, the demo runs on that cluster, with topics of its own. Exit code 0 only
    if every document was answered exactly once; otherwise the demo keeps all files and names their
    folder. Ctrl-C leaves no process, no port and no file behind.
    """
    console = console_of_terminal(highlight=True)
    if input_file is not None:
        _check_input(input_file)
    with ExitStack() as stack:
        folder = stack.enter_context(_folder(keep))
        crawl_file, truth_file = _crawl(console, folder, input_file, documents, seed)
        settings = _settings(stack, console, folder, nodes)
        crawl = CrawlFiles([str(crawl_file)], fetched_at_default=FETCHED_AT)
        run = Demo(settings, crawl, Truth(truth_file), rate)
        create_topics(Admin(settings), settings)  # before any worker asks for them
        ids = [f"worker-{number}" for number in range(1, workers + 1)]
        running = stack.enter_context(workers_running(settings, ids, folder))
        with console.status(
            f"waiting for {_counted(workers)} to share the partitions (a first start compiles)"
        ):
            run.wait_for(running)
        speed = f"{rate:g}/s" if rate else "full speed"
        console.print(f"{_counted(workers)} {'run' if workers > 1 else 'runs'}, feeding at {speed}")
        # The rows make room for the summary, which is to be the last screen.
        with Live(console=console, refresh_per_second=8, transient=True) as live:
            for _ in run.run():
                live.update(table(run))
        across = run.across_workers()
        facts = facts_of(run, workers, across)
        example = find_example(run, crawl_file)
        made = None
        if not (input_file or keep):
            made = f"neardup sample-crawl --documents {documents} --seed {seed}"
        file = crawl_file if made is None else Path("crawl.warc.gz")
        show_screen(console, facts, example, next_commands(file, made))
        if not run.is_whole:
            raise typer.Exit(1)


def _counted(workers: int) -> str:
    return f"{workers} worker{'s' if workers > 1 else ''}"


def _check_input(input_file: Path) -> None:
    """
    Refuse a crawl without a document, before a broker and workers are started for it.

    Raises:
        StopError: it cannot be read, or nothing in it can.
    """
    name = str(input_file)
    if is_pipe(name):  # what is looked at would be lost
        return
    crawl = CrawlFiles([name], fetched_at_default=FETCHED_AT)
    if next(iter(crawl), None) is None:
        raise StopError(
            f"{shown_input(name)} has no document that can be read: name another --input"
        )


@contextmanager
def _folder(keep: Path | None) -> Iterator[Path]:
    """Return the folder of one run; one of our own goes at the end, but not after a failure."""
    if keep is not None:
        try:
            keep.mkdir(parents=True, exist_ok=True)
            is_empty = not any(keep.iterdir())
        except OSError as error:
            reason = error.strerror or error
            raise StopError(f"--keep {keep} cannot be a folder ({reason}): name another") from error
        if not is_empty:
            raise StopError(
                f"--keep needs an empty folder, {keep} is not empty: "
                "the broker would serve old data"
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
    Return the settings of a cluster: the one that the environment names, with topics of the demo's
    own, or an embedded one.
    """
    if os.environ.get("NEARDUP_BOOTSTRAP"):
        # A process has the same number again in each container, and the topics stay.
        name = f"neardup-demo-{secrets.token_hex(4)}"
        settings = load_settings(
            {
                "threads": 1,
                "group": name,
                "topic_documents": f"{name}.documents",
                "topic_fingerprints": f"{name}.fingerprints",
                "topic_verdicts": f"{name}.verdicts",
                "topic_dead_letter": f"{name}.dead-letter",
                "topic_new": None,
            }
        ).settings
        await_cluster(settings)
        return settings
    runtime = prepare_with_progress(None)
    with console.status(f"starting Apache Kafka, {nodes} node{'s' if nodes > 1 else ''}"):
        kafka = stack.enter_context(EmbeddedKafka(nodes, data=folder / "kafka", runtime=runtime))
    console.print(f"Apache Kafka serves at {kafka.bootstrap}")
    own = {"bootstrap": kafka.bootstrap, "partitions": PARTITIONS_MIN, "replication_factor": nodes}
    return load_settings(own | {"threads": 1}).settings


_GAP = 2  # cells between two columns


def table(run: Demo) -> Group:
    rows = Table(expand=True, box=None, pad_edge=False)
    for name, width in (("verdict", 10), ("bits", 5), ("url", None), ("duplicate of", None)):
        rows.add_column(
            name, width=width, no_wrap=True, overflow="ellipsis", ratio=None if width else 1
        )
    url_width = ((terminal_width() or 80) - 10 - 5 - 3 * _GAP) // 2
    for verdict in run.latest:
        outcome, *rest = cells_that_differ(verdict, url_width)
        rows.add_row(Text(outcome, style=COLOURS[outcome]), *map(Text, rest))
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(run.outcomes.items()))
    rate = len(run.answers) / run.seconds
    return Group(
        rows,
        Text(f"{len(run.sent_ms):,} fed, {len(run.answers):,} answered, {rate:,.0f}/s: {counts}"),
    )


INTRODUCTION = (
    "neardup reads the pages of a crawl and says of each whether an earlier page told",
    "the same, even where advertisements, menus or some words are different.",
)
# Of the templates of a sample crawl.
PAGES_OF = {
    ARTICLE: "articles",
    "product": "product pages",
    "job": "job offers",
    "flat": "offers of flats",
    "weather": "weather reports",
    "figures": "pages of figures",
    "legal": "legal notices",
}


def facts_of(run: Demo, workers: int, across: int) -> list[tuple[str, str]]:
    """
    Say in one line each how many documents were fed, answered and found, and, if the truth is
    known, how many were missed and merged wrongly.

    Args:
        run: a run that has ended.
        workers: how many of them there were.
        across: duplicates whose original another worker had read.
    """
    made_up = "a made-up crawl" if run.truth else "the crawl"
    damaged = run.crawl.tally.damaged
    beside = f"; {damaged:,} more records were damaged" if damaged else ""
    p50, p99 = run.percentile_ms(0.5), run.percentile_ms(0.99)
    by = _counted(workers)
    answered = f"each once, by {by}; half within {p50:,} ms, 99 % within {p99:,} ms"
    if not run.is_whole:
        answered = f"{run.unanswered:,} pages were not answered, {run.repeated:,} more than once"
    outcomes = run.outcomes
    without = f"; {outcomes['skipped']:,} have no text" if outcomes["skipped"] else ""
    if outcomes["dead letters"]:
        without += f"; {outcomes['dead letters']:,} could not be read"
    exact, near = outcomes["exact duplicates"], outcomes["near duplicates"]
    facts = [
        ("fed", f"{len(run.sent_ms):,} pages of {made_up}{beside}"),
        ("answered", answered),
        ("new", f"{outcomes['new']:,} pages tell something new{without}"),
        ("copies", f"{exact + near:,} repeat an earlier page: {exact:,} word for word"),
        ("", f"and {near:,} with changes; {across:,} repeat a page that another worker read"),
    ]
    if run.truth:
        accuracy = run.accuracy()
        kinds = ", ".join(
            f"{count:,} {PAGES_OF[kind]}" for kind, count in accuracy.wrong.most_common()
        )
        missed = f"{accuracy.missed:,} of {accuracy.copies:,} copies were not found"
        if accuracy.missed_rotating:
            missed += f"; {accuracy.missed_rotating:,} have rotated advertisements"
        merged = f"{accuracy.wrong.total():,} of {accuracy.others:,} other pages"
        facts += [
            ("missed", missed),
            ("wrong", f"{merged} were called copies{f': {kinds}' if kinds else ''}"),
        ]
    return facts


class Example(NamedTuple):
    """A copy that was found, and how its text differs from that of the original."""

    copy: Verdict
    steps: list[Step]  # from the original to the copy

    @property
    def changed(self) -> int:
        """Words that only one of the texts has."""
        return sum(len(step.tokens) for step in self.steps if step.kind != "equal")

    @property
    def is_within(self) -> bool:
        """Whether the texts begin and end alike, so that words of both stand around each change."""
        return self.steps[0].kind == self.steps[-1].kind == "equal"


def find_example(run: Demo, crawl_file: Path) -> Example | None:
    """
    Return a near-duplicate that a reader understands at once: on another page rather than the
    same, in Latin letters, few words changed. None: none differs in a word, or the crawl came
    through a pipe, which has been read.

    Cost: the crawl is read again, and EXAMPLES_MAX near-duplicates are compared.
    """
    if is_pipe(str(crawl_file)):
        return None
    candidates = run.near_duplicates(EXAMPLES_MAX)
    original_of = {
        verdict.doc_id: verdict.duplicate_of.original.doc_id
        for verdict in candidates
        if verdict.duplicate_of is not None
    }
    wanted = {*original_of.keys(), *original_of.values()}
    crawl = CrawlFiles([str(crawl_file)], fetched_at_default=FETCHED_AT)
    texts = read_texts(crawl, wanted, run.settings, from_topics=True).texts
    examples = []
    for verdict in candidates:
        original = texts.get(original_of[verdict.doc_id])
        copy = texts.get(verdict.doc_id)
        if original is not None and copy is not None:
            found = steps(tokens(original.text), tokens(copy.text))
            examples.append(Example(verdict, found))

    def rank(example: Example) -> tuple[bool, bool, bool, int]:
        match = example.copy.duplicate_of
        assert match is not None
        words = "".join(token for step in example.steps for token in step.tokens)
        return match.same_url, max(words) >= BEHIND_LATIN, not example.is_within, example.changed

    return min((example for example in examples if example.changed), key=rank, default=None)


def next_commands(crawl: Path, made: str | None) -> list[str]:
    """
    Return commands that work as they stand, in this order; `made` makes the crawl, if it is not
    kept.
    """
    file = shlex.quote(str(crawl))
    commands = []
    if not shutil.which("neardup"):  # `make demo` leaves a shell without it
        commands.append(f". {shlex.quote(os.path.relpath(f'{sys.prefix}/bin/activate'))}")
    if made is not None:
        commands.append(f"{made} {file}")
    return [
        *commands,
        f"neardup dedup {file} --output verdicts.jsonl",
        f"neardup report verdicts.jsonl --documents {file}",
    ]


def show_screen(
    console: Console,
    facts: Sequence[tuple[str, str]],
    example: Example | None,
    commands: Sequence[str],
) -> None:
    """
    Print the last screen: what neardup does, the results of this run, an example, what to try next.

    A terminal of 24 lines shows all of it, so no line but a command may take a second one.
    """
    lines = [Text(line) for line in INTRODUCTION]
    for name, fact in facts:
        style = "bold yellow" if name in ("missed", "wrong") else "bold"
        lines.append(Text.assemble((f"{name:<10}", style), fact))
    lines.append(Text())
    if example is not None:
        lines += _example_lines(example)
    lines.append(Text("Try next", style="bold"))
    for line in lines:
        console.print(line, no_wrap=True, overflow="ellipsis", crop=True)
    for command in commands:
        console.print(Text(f"  {printable(command)}"), soft_wrap=True)


def _example_lines(example: Example) -> list[Text]:
    """Return a copy with its original and the words that differ."""
    match = example.copy.duplicate_of
    assert match is not None
    legend = "[-only in the first page-] {+only in the second+}"
    title = f"A copy, similarity {match.similarity:.2f}; {legend}:"
    return [
        Text(title, style="bold"),
        Text(f"  {printable(match.original.url)}"),
        Text(f"  {printable(example.copy.url or '')}"),
        Text("  ") + Text(" ").join(shown_steps(example.steps, CONTEXT_WORDS)),
        Text(),
    ]
