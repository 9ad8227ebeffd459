"""
How far a group scales: `make bench-scale`.

A group of N workers is calculated, not run (`worker/core/group.py` says how): N workers on N
machines from the measured parts of one, for texts of 5 KB. Prepare, apply and answer are measured
here, in processor time, without Kafka, and so are the fingerprints of the same texts alone. A
search is that of `bench-rules`, with the rules that `neardup plan` chooses for so many originals;
on a worker's idle cores it takes as many threads. The client's share is that of a profile of a
worker on Kafka. Brokers are left out: a row of the log takes 233 bytes, so 200,000 documents/s
write 47 MB/s to its one partition.

Written to tests/benchmarks/results: scale.json, scale.md, scale.png. The README's limit of a group
is this plot's.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path

import orjson

from tests.benchmarks import common
from tests.benchmarks.bench_rules import Cost, SameSketches, costs_of, rules_of
from tests.benchmarks.bench_stream import text_documents
from tests.benchmarks.common import Figures, reached, table
from tests.benchmarks.kept import finish, machine, results_of
from worker.core.group import Parts, documents_per_s
from worker.core.index import SearchIndex
from worker.core.planner import rules_for
from worker.log.record import Rows
from worker.log.replica import Replica
from worker.settings import Settings
from worker.shell.files.engine import FileEngine, source_message
from worker.shell.messages import encode_answers
from worker.shell.pipeline.prepare import JOB_BYTES_MAX, JOB_DOCUMENTS_MAX, Preparer
from worker.shell.pipeline.stage import cut

WORKERS = (1, 2, 4, 8, 16, 32, 64)
CORES = (2, 8)  # of a worker's machine
ORIGINALS = (1_000_000, 10_000_000, 100_000_000)
LARGEST = "3x21x128"  # measured with 100 M
RECORD = 1_000
FINGERPRINTS_MAX = 1.5  # preparing a text takes at most so many times its fingerprint
CLIENT_US = 16.0  # librdkafka's threads, of a text of 5 KB: consumed, and its verdict produced
COLORS = ("#1a7f37", common.OURS_COLOR, "#cf222e")


def measured_parts(documents: int) -> tuple[Parts, float]:
    """
    Measure them over texts, a thousand a record, of which few are copies.

    Also returns what the fingerprints of these texts take alone, in µs of each.
    """
    settings = Settings(threads=1)
    with Preparer(settings) as preparer:
        messages = [
            source_message(number, *message, settings.document_bytes_max)
            for number, message in enumerate(islice(text_documents(documents + RECORD), documents))
        ]
        jobs = list(cut(messages, JOB_DOCUMENTS_MAX, JOB_BYTES_MAX))
        texts = [[orjson.loads(message.value or b"")["text"] for message in job] for job in jobs]
        preparer.rows(jobs[0])
        before = time.thread_time()
        parts = [preparer.rows(job) for job in jobs]
        prepared = time.thread_time()
        for job_texts in texts:
            preparer.fingerprinter.batch(job_texts)
        alone = time.thread_time() - prepared
        prepare = prepared - before
        rows = Rows.joined(parts)
        answered = _judged_s(preparer, settings, rows, answers=True)
        applied = _judged_s(preparer, settings, rows, answers=False)
    search = _searched_s(rows)
    us = 1e6 / documents
    measured = Parts(
        prepare=prepare * us,
        apply=max(0.0, applied - search) * us,
        answer=max(0.0, answered - applied) * us,
        client=CLIENT_US,
    )
    return measured, alone * us


def _judged_s(preparer: Preparer, settings: Settings, rows: Rows, *, answers: bool) -> float:
    """Judge rows by a new replica; return the processor time."""
    replica = Replica(settings.rules)
    replica.warm_up()
    engine = FileEngine(replica, preparer, settings)
    before = time.thread_time()
    for at in range(0, len(rows), RECORD):
        part = rows.between(at, min(at + RECORD, len(rows)))
        if answers:
            engine.judge_rows(part, encode_answers)
        else:
            engine.judge_rows(part, lambda judged, *_: judged.offsets())
    return time.thread_time() - before


def _searched_s(rows: Rows) -> float:
    """Search for the same rows alone; return the processor time."""
    index = SearchIndex(Settings().search, 0, SameSketches(len(rows)))
    index.warm_up()
    before = time.thread_time()
    for at in range(0, len(rows), RECORD):
        part = slice(at, at + RECORD)
        index.match_or_insert(
            rows.fingerprints[part], rows.doubts[part], rows.sketches[part], len(index)
        )
    return time.thread_time() - before


def searches(kept: Figures) -> dict[int, Cost]:
    """
    Return what `bench-rules` has kept of the rules for each number of originals; of LARGEST where
    these were not measured.
    """
    costs = costs_of(kept)
    chosen = {}
    for originals in ORIGINALS:
        rules = rules_for(originals)
        of_rules = {one.rules: one for one in costs if one.originals == originals}
        chosen[originals] = next(
            (one for text, one in of_rules.items() if rules_of(text) == rules), of_rules[LARGEST]
        )
    return chosen


Rates = dict[tuple[int, int], list[float]]  # by originals and cores: of each number of workers


def tables(parts: Parts, alone_us: float, found: dict[int, Cost], rates: Rates) -> list[str]:
    """The parts, how the first stands to the fingerprint alone, and a row a group."""
    names = ("prepare", "apply, without the search", "answer", "client")
    ratio = parts.prepare / alone_us
    lines = table(
        ("part", "µs per document", f"bar: {FINGERPRINTS_MAX} times the fingerprint alone"),
        [(name, f"{value:.1f}", "") for name, value in zip(names, parts, strict=True)]
        + [
            ("prepare: of it the fingerprint alone", f"{alone_us:.1f}",
             f"{ratio:.2f} times, {reached(ratio <= FINGERPRINTS_MAX)}"),
        ],
    )  # fmt: skip
    head = ("originals", "rules", "search, µs", "cores of a worker", *(f"{n} ×" for n in WORKERS))
    rows = []
    for (originals, cores), row in rates.items():
        cost = found[originals]
        cells = (f"{originals:,}", cost.rules, f"{cost.us:.1f}", str(cores))
        rows.append((*cells, *(f"{rate:,.0f}" for rate in row)))
    return lines + table(head, rows)


def plot(rates: Rates, path: Path) -> None:
    """Documents a second of a group by its workers."""
    figure, axis = common.drawing(7, 4.4)
    for (originals, cores), row in rates.items():
        axis.plot(
            WORKERS,
            row,
            "o-" if cores == CORES[0] else "s--",
            color=COLORS[ORIGINALS.index(originals)],
            label=f"{originals // 1_000_000} M originals, {cores} cores each",
        )
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(WORKERS, [str(count) for count in WORKERS])
    title = "documents a second of a group, texts of 5 KB, calculated from the parts of a worker"
    common.titled(axis, title, "workers of the group")
    figure.legend(fontsize=8, frameon=False, loc="outside lower center", ncols=3)
    common.saved(figure, path)


def rates_of(parts: Parts, search_us: dict[int, float], cores: Sequence[int] = CORES) -> Rates:
    """Return the rates of all groups."""
    return {
        (originals, count): [documents_per_s(parts, us, workers, count) for workers in WORKERS]
        for originals, us in search_us.items()
        for count in cores
    }


def main() -> None:
    """Measure the parts, calculate the groups."""
    parser = common.options(__doc__, "few texts")
    parser.add_argument("--documents", type=int, default=20_000)
    chosen = parser.parse_args()
    where = machine()
    found = searches(results_of("rules"))
    parts, alone_us = measured_parts(2_000 if chosen.quick else chosen.documents)
    rates = rates_of(parts, {originals: cost.us for originals, cost in found.items()})
    groups = [
        {"originals": originals, "cores": cores, "workers": WORKERS, "documents_per_s": row}
        for (originals, cores), row in rates.items()
    ]
    figures = {
        "machine": where, "parts": parts._asdict(), "fingerprint_us": alone_us, "groups": groups
    }  # fmt: skip
    plots = {"scale.png": partial(plot, rates)}
    finish(chosen, "scale", figures, tables(parts, alone_us, found, rates), plots)


if __name__ == "__main__":
    main()
