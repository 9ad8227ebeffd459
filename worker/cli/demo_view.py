"""What the demo shows: the latest verdicts, the summary, three pairs, and what to try next."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from worker.cli.columns import printable
from worker.cli.verdicts import cells

if TYPE_CHECKING:
    from worker.core.verdict import Verdict
    from worker.devkit.demo import Demo

COLOURS = {"new": "green", "duplicate": "yellow", "skipped": "dim", "deleted": "red"}


def table(run: Demo) -> Group:
    """Return the latest verdicts, and how far it is."""
    rows = Table(expand=True, box=None, pad_edge=False)
    for name, width in (("verdict", 10), ("bits", 5), ("url", None), ("duplicate of", None)):
        rows.add_column(name, width=width, no_wrap=True, overflow="ellipsis", ratio=None if width else 1)
    for verdict in run.latest:
        outcome, *rest = cells(verdict)
        rows.add_row(Text(outcome, style=COLOURS[outcome]), *map(Text, rest))
    counts = ", ".join(f"{count:,} {name}" for name, count in sorted(run.outcomes.items()))
    rate = len(run.answers) / run.seconds
    return Group(rows, Text(f"{len(run.sent_ms):,} fed, {len(run.answers):,} answered, {rate:,.0f}/s: {counts}"))


def show_summary(console: Console, run: Demo) -> bool:
    """Print what came of it; return whether every document was answered exactly once."""
    across, pairs = run.pairs_across_workers()
    outcomes = run.outcomes
    rows = [
        ("documents", f"{len(run.sent_ms):,}"),
        ("new", f"{outcomes['new']:,}"),
        ("exact duplicates", f"{outcomes['exact duplicates']:,}"),
        ("near duplicates", f"{outcomes['near duplicates']:,}"),
        ("skipped", f"{outcomes['skipped']:,}"),
        ("dead letters", f"{outcomes['dead letters']:,}"),
        ("damaged records in the crawl", f"{run.crawl.tally.damaged:,}"),
        ("unanswered", f"{run.unanswered:,}"),
        ("answered twice", f"{run.repeated:,}"),
        ("duplicates found across workers", f"{across:,} of {pairs:,}"),
    ]
    if run.truth:
        found, missed, false = run.found_missed_false()
        share = found / max(found + missed, 1)
        rows.append(("against the truth", f"{found:,} found, {missed:,} missed ({share:.1%}), {false:,} false"))
        kinds = (f"{kind} {merged:,} of {pages:,}" for kind, (merged, pages) in run.templates_merged().items())
        rows.append(("pages of a template merged", ", ".join(kinds)))
    rows.append(("latency p50, p99", f"{run.percentile_ms(0.5):,} ms, {run.percentile_ms(0.99):,} ms"))
    rows.append(("documents/s", f"{len(run.answers) / run.seconds:,.0f}"))
    facts = Table(box=None, show_header=False, pad_edge=False)
    facts.add_column(style="bold")
    facts.add_column(justify="left")
    for row in rows:
        facts.add_row(*row)
    console.print(facts)
    return run.unanswered == 0 and run.repeated == 0 and bool(run.sent_ms)


def show_examples(console: Console, examples: Mapping[str, Verdict]) -> None:
    """Print a pair of each kind, with its distance."""
    for name, verdict in examples.items():
        match = verdict.duplicate_of
        assert match is not None
        bits = "1 bit of 64 differs" if match.distance == 1 else f"{match.distance} bits of 64 differ"
        console.print(Text(f"\n{name}: {bits}, similarity {match.similarity:.3f}", style="bold"))
        console.print(Text(f"  {printable(match.original.url)}\n  {printable(verdict.url or '')}"))


def show_next(console: Console, crawl: Path, made: str | None, run: Demo) -> None:
    """
    Print commands that go on from here; each works as it stands, in this order.

    Args:
        made: the command that makes the crawl, if it is not kept.
    """
    file = shlex.quote(str(crawl))
    near = next((one.doc_id for one in run.examples().values()), "DOC_ID")
    commands = [] if shutil.which("neardup") else [f". {shlex.quote(os.path.relpath(f'{sys.prefix}/bin/activate'))}"]
    commands += [f"{made} {file}"] if made else []
    commands += [
        f"neardup dedup {file} --output verdicts.jsonl",
        f"neardup report verdicts.jsonl --documents {file}",
        f"neardup explain {shlex.quote(near)} verdicts.jsonl --documents {file}",
    ]
    console.print(Text("\nNext", style="bold"))
    for command in commands:
        console.print(Text(f"  {printable(command)}"), soft_wrap=True)
