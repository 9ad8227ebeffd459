"""
The tables of figures in the READMEs, written from the results that benchmarks keep.

A page has a block for each table:

    <!-- figures: methods -->
    …
    <!-- end of figures -->

`make docs` writes what stands between, and a test asserts that it is current. Below a table stand
command, date, processor and vectors of each run, and whether the code is newer. Where a benchmark was
also run with wider vectors than are deployed, a table has a column of each build.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tests.benchmarks import bench_ask, bench_index, bench_pairs, bench_stream
from tests.benchmarks.bench_families import threshold_table
from tests.benchmarks.bench_fingerprint import BARS, ENGLISH
from tests.benchmarks.bench_rules import text_of
from tests.benchmarks.bench_stream import HTML, OF_ARCHIVE
from tests.benchmarks.common import REPOSITORY
from tests.benchmarks.index_data import DIRECTED
from tests.benchmarks.kept import BUILDS, DEPLOYED, code_digest, path_of, results_of
from worker.cli import plan
from worker.core import group, planner

_BLOCK = re.compile(r"(<!-- figures: ([\w-]+) -->\n).*?(<!-- end of figures -->)", re.DOTALL)
DASH = "–"

Lines = Iterator[str]


@cache
def results(name: str, build: str = DEPLOYED) -> Any:
    """Return what `make bench-NAME` kept of a build."""
    return results_of(name, build)


def runs_of(*names: str) -> str:
    """Return a phrase that says where results come from, once for all that share a place."""
    commands: dict[str, list[str]] = {}
    for build in builds_of(*names):
        for name in names:
            commands.setdefault(_where(name, build), []).append(f"`make bench-{name}`")
    return "; ".join(f"{', '.join(each)}, {where}" for where, each in commands.items())


def run_of(name: str) -> str:
    """Return a phrase that says where a result comes from, and whether the code is newer."""
    return f"`make bench-{name}`, {_where(name, DEPLOYED)}"


def _where(name: str, build: str) -> str:
    machine = results(name, build)["machine"]
    parts = [machine["date"], machine["cpu"]]
    if "vectors" in machine:
        parts.append(machine["vectors"])
    if machine.get("code") != code_digest(name):
        parts.append("**older than the code**")
    return ", ".join(parts)


def note(text: str) -> Lines:
    """Yield the lines below a table. A command stays on one line."""
    yield ""
    whole = re.sub(r"`[^`]+`", lambda command: command[0].replace(" ", "\0"), text)
    for line in textwrap.wrap(whole, 100, break_long_words=False, break_on_hyphens=False):
        yield line.replace("\0", " ")


def share(value: float) -> str:
    """
    Return a share with three digits, without its zero.

    >>> share(0.9969), share(0.0), share(1.0), share(0.00001)
    ('.997', '0', '1.00', '< .001')
    """
    if value == 0:
        return "0"
    if value < 0.0005:
        return "< .001"
    return "1.00" if value > 0.9995 else f"{value:.3f}".removeprefix("0")


def count(value: float) -> str:
    """
    Return a number with three digits that count.

    >>> count(98039.9), count(5024), count(2.512), count(281_234)
    ('98,000', '5,020', '2.5', '281,000')
    """
    if value < 10:
        return f"{value:.1f}"
    size = 10 ** max(len(str(round(value))) - 3, 0)
    return f"{round(value / size) * size:,}"


def rows(head: Iterable[str], cells: Iterable[Iterable[str]]) -> Lines:
    """Yield the lines of a table."""
    head = list(head)
    yield f"| {' | '.join(head)} |".replace("|  |", "| |")
    yield f"|{'---|' * len(head)}"
    for row in cells:
        yield f"| {' | '.join(row)} |"


def builds_of(*names: str) -> list[str]:
    """Return the builds of which all these benchmarks have kept a result."""
    return [build for build in BUILDS if all(path_of(name, build).is_file() for name in names)]


class Figure(NamedTuple):
    """A row of a table of figures."""

    what: str
    unit: str
    measured: str
    target: str = DASH


def by_build(what: str, names: Sequence[str], figures: Callable[[str], Iterable[Figure]]) -> Lines:
    """
    Yield a table of `figures(build)`: a column of each build of which these benchmarks have a
    result, and one of what is wanted of it. The figures of all builds are of the same things.
    """
    builds = builds_of(*names)
    columns = builds if len(builds) > 1 else ["measured"]
    yield from rows(
        (what, "unit", *chain.from_iterable((column, "target") for column in columns)),
        [
            (each[0].what, each[0].unit, *chain.from_iterable(one[2:] for one in each))
            for each in zip(*map(figures, builds), strict=True)
        ],
    )


# ---- the tables by the name of their block

METHODS = {  # as accuracy has them -> as the fingerprints' benchmark does; bytes per document
    "neardup, defaults": ("neardup", 80),
    "ClickHouse SimHash, k = 8": ("ClickHouse wordShingleSimHash", 8),
    "datasketch MinHash, ≥ 0.5": ("datasketch MinHash", 512),
    "datasketch MinHash, ≥ 0.7": ("datasketch MinHash", 512),
}


def methods() -> Lines:
    """Four methods on the same rows, with those that neardup loses."""
    found, speed = results("accuracy"), results("fingerprint")["trials"]
    labelled = found["scores"]["all labelled sets"]
    same, other = next(iter(labelled.values()))[:2]

    def row(label: str, cell: Callable[[str], str]) -> list[str]:
        return [label, *(cell(method) for method in METHODS)]

    def templates(kind: str) -> Callable[[str], str]:
        return lambda method: share(found["hard"][kind][1][method])

    def edits(kind: str) -> Callable[[str], str]:
        return lambda method: share(found["blocks"][kind][1][method])

    yield from rows(
        ("", "neardup", "ClickHouse SimHash, within 8 bits", "MinHash ≥ .5", "MinHash ≥ .7"),
        [
            row(f"labelled copies found, of {same:,}", lambda one: share(labelled[one][2][0])),
            row(
                f"labelled non-copies merged, of {other:,}", lambda one: share(labelled[one][3][0])
            ),
            row("product pages of one template merged", templates("product")),
            row("legal notices of one template merged", templates("legal")),
            row("other advertisements (20 %): found", edits("rotating 20%")),
            row("one word in twelve replaced: found", edits("scattered words")),
            row("bytes per document", lambda one: str(METHODS[one][1])),
            row(
                "English texts of 5 KB per second, one core",
                lambda one: count(speed[METHODS[one][0]]["speed"][ENGLISH]["documents_s"]),
            ),
        ],
    )
    yield from note(
        f"Found: more is better; merged: less. {run_of('accuracy')}. Speed: {run_of('fingerprint')}. "
        "MinHash is datasketch's, with 128 values."
    )


NAMES = {  # as accuracy has them -> as the page for users does
    "neardup, defaults": "**neardup, defaults**",
    "neardup, similarity ≥ .50": "neardup, `similarity_min = 0.5`",
    "neardup, exact, k = 3": 'neardup, `search_mode = "exact"`, `max_distance = 3`',
    "ClickHouse SimHash, k = 8": "ClickHouse `wordShingleSimHash…UTF8` within 8 bits",
    "simhash, k = 6": "simhash within 6 bits",
    "gaoya, k = 6": "gaoya within 6 bits",
    "datasketch MinHash, ≥ 0.5": "datasketch MinHash of 128 values, at least .5",
    "datasketch MinHash, ≥ 0.7": "datasketch MinHash of 128 values, at least .7",
}


def _bytes_each(method: str) -> str:
    if method.startswith("datasketch"):
        return "512"
    return "80" if method.startswith("neardup") and "exact" not in method else "8"


def compared() -> Lines:
    """Recall and false positives of all methods on the labelled pairs, and on edited parts."""
    found = results("accuracy")
    labelled = found["scores"]["all labelled sets"]

    def at(method: str, point: str) -> str:
        parts = [one for name, one in found["parts"].items() if name.endswith(f" {point}")]
        return share(sum(shares[method] for _, shares in parts) / len(parts))

    yield from rows(
        ("method", "bytes per document", "recall", "false positives",
         "found at Jaccard .87", "found at Jaccard .75"),
        [
            (label, _bytes_each(method), share(labelled[method][2][0]),
             share(labelled[method][3][0]), at(method, "0.87"), at(method, "0.75"))
            for method, label in NAMES.items()
        ],
    )  # fmt: skip
    yield from note(f"{run_of('accuracy')}.")


def alike() -> Lines:
    """Pages of one template that are called copies, by all methods."""
    kinds = {"products": "product", "jobs": "job", "figures": "figures", "legal notices": "legal"}
    yield from _by_method(results("accuracy")["hard"], kinds)


def edited() -> Lines:
    """Edited articles that are found, by all methods."""
    kinds = {
        "advertisements, 10 %": "rotating 10%",
        "advertisements, 20 %": "rotating 20%",
        "cut": "cut to 70%",
        "within more text": "wrapped in 30%",
        "scattered words": "scattered words",
    }
    yield from _by_method(results("accuracy")["blocks"], kinds)


def _by_method(found: dict[str, Any], kinds: dict[str, str]) -> Lines:
    """Yield a table with a row for each method: its share of each kind, whose names are given."""
    yield from rows(
        ("method", *kinds),
        [
            (label, *(share(found[kind][1][method]) for kind in kinds.values()))
            for method, label in NAMES.items()
        ],
    )


def thresholds() -> Lines:
    """What each `similarity_min` finds and merges, on labelled pairs and on streams."""
    yield from threshold_table(results("families"))[:-1]
    yield from note(f"{run_of('families')}.")


def worker() -> Lines:
    """What one worker does in a second, and how long a message waits for its verdict."""
    rate, p50 = _stream("text of 5 KB", "neardup worker"), _latency("p50")
    text = (
        f"One worker judges {count(rate['value'])} texts of 5 KB per second, on two cores with broker "
        f"and feed. At 1,000 messages per second, half of them have their verdict within "
        f"{p50['value']:.0f} ms ({run_of('stream')})."
    )
    yield from islice(note(text), 1, None)


def fingerprints() -> Lines:
    """The speed of fingerprints, in batches and one by one, next to the peers."""
    yield from by_build("text", ["fingerprint"], _fingerprints)
    yield from note(f"{runs_of('fingerprint')}.")


def _fingerprints(build: str) -> Iterator[Figure]:
    trials = results("fingerprint", build)["trials"]
    for kind, wanted in BARS[build].items():
        ours = trials["neardup"]["speed"][kind]["documents_s"]
        yield Figure(kind, "documents/s", count(ours))
        for peer, trial in trials.items():
            if not peer.startswith(("neardup", "ClickHouse …")) and "speed" in trial:
                times = count(ours / trial["speed"][kind]["documents_s"])
                bar = f"{wanted[peer]:g}" if peer in wanted else DASH
                yield Figure("the same", f"× {peer}", times, bar)
    for kind in BARS[build]:
        call_us = 1e6 / trials["neardup, one a call"]["speed"][kind]["documents_s"]
        yield Figure(f"{kind}, one `str` per call", "µs", count(call_us))


def main_text() -> Lines:
    """How well the main content of pages is found, and how fast."""
    yield from by_build("pages of 56 KB", ["pages"], _pages)
    quality = results("pages")["quality"]
    yield ""
    contenders = ("page kernel", "trafilatura", "the way before")
    yield from rows(
        ("main content, F1 on", "neardup", "trafilatura", "resiliparse", "target"),
        [
            (label, *(share(quality[one][kind]["f1"]) for one in contenders), wanted)
            for label, kind, wanted in (
                ("article-extraction-benchmark", "bodies", ".960"),
                ("strings of trafilatura's evaluation", "strings", ".930"),
            )
        ],
    )
    yield from note(f"{runs_of('pages')}.")


def _pages(build: str) -> list[Figure]:
    found = results("pages", build)
    speed = found["speed"]
    ours, whole = speed["page kernel"], speed["page kernel, bytes to fingerprint"]
    main = speed["resiliparse, main content"]
    pipeline = speed["the way before, bytes to fingerprint"]
    return [
        Figure("to main text", "pages/s", count(ours["pages_s"])),
        Figure("the same", "× resiliparse", count(ours["pages_s"] / main["pages_s"]), "8"),
        Figure("from bytes to fingerprint", "pages/s", count(whole["pages_s"])),
        Figure(
            "the same",
            "× a pipeline with resiliparse",
            count(whole["pages_s"] / pipeline["pages_s"]),
            "5",
        ),
        Figure("two threads", "× one thread", f"{found['threads']['page kernel']:.2f}", "1.7"),
    ]


SEARCHES = ("index", "rules", "pairs")


def searches() -> Lines:
    """The exact index, the judge with the default rules, and the join of all pairs."""
    yield from by_build("work", SEARCHES, _searches)
    yield from note(f"{runs_of(*SEARCHES)}.")


def _searches(build: str) -> Iterator[Figure]:
    bars = {
        (bar.size, bar.distance, bar.figure): f"{bar.wanted:,.0f}"
        for bar in bench_index.BARS
        if bar.name in (bench_index.OURS, DIRECTED)
    }
    exact = {
        trial["size"]: trial["found"]
        for trial in results("index", build)["trials"]
        if (trial["name"], trial["distance"], trial["data"]) == (bench_index.OURS, 3, "random")
    }
    for size in (10**6, 10**7):
        work = f"exact, k = 3, query and insert, {size // 10**6} M held"
        for figure, what, unit in (
            ("new_per_s", work, "per second"),
            ("bytes_each", "the same", "bytes per fingerprint"),
        ):
            bar = bars.get((size, 3, figure), DASH)
            yield Figure(what, unit, count(exact[size][figure]), bar)
    for cost in results("rules", build)["costs"]:
        size = cost["originals"]
        if cost["rules"] == "4x16x64" and size <= 10**7:
            work = f"judged with the defaults, {size // 10**6} M originals"
            bar = bars[size, bench_index.DIRECTED_DISTANCE, "new_per_s"]
            yield Figure(work, "documents/s", count(1e6 / cost["us"]), bar)
    for size, seconds in _joined(build).items():
        work = f"all pairs within 3 bits, of {size // 10**6} M"
        yield Figure(work, "s", seconds, f"{bench_pairs.SECONDS_MAX[size]:g}")


def _joined(build: str) -> dict[int, str]:
    """Return the seconds of a join, the least and the most of all kinds of data, by fingerprints."""
    found: dict[int, list[float]] = {}
    for trial in results("pairs", build)["trials"]:
        found.setdefault(trial["size"], []).append(trial["seconds"])
    return {size: f"{min(all_s):.2g} to {max(all_s):.2g}" for size, all_s in found.items()}


def sizes() -> Lines:
    """What the sizes of a directed search find: of the labelled copies, and of edited ones."""
    rules = results("rules")
    found = {one["rules"]: one for one in rules["found"]}
    default = found[text_of(planner.SIZES[0].rules)]
    bounds = [(size.name, f"{size.documents_max // 10**6} M", size.rules) for size in planner.SIZES]
    measured_max = planner.BEYOND.measured_max
    beyond = f"beyond: measured with up to {measured_max // 10**6} M", "more"
    yield from rows(
        (
            "size", "serves", "blocks x bits x patterns", "labelled copies",
            f"words replaced, of {default['edited']:,} by the default",
            f"in blocks, of {default['in_blocks']:,}",
        ),
        [
            (
                name, serves, one["rules"], f"{one['labelled']:.4f}".removeprefix("0"),
                f"{one['edited']:,}", f"{one['in_blocks']:,}",
            )
            for name, serves, search in (*bounds, (*beyond, planner.BEYOND.rules))
            for one in [found[text_of(search)]]
        ],
    )  # fmt: skip
    yield from note(f"{run_of('rules')}.")


def size_costs() -> Lines:
    """What an original takes of the memory of each size, and a document of the processor."""
    costs = results("rules")["costs"]

    def at_bound(size: planner.Size, figure: str) -> str:
        own = [cost for cost in costs if cost["rules"] == text_of(size.rules)]
        numbers = [cost["originals"] for cost in own]
        return f"{np.interp(size.documents_max, numbers, [cost[figure] for cost in own]):.0f}"

    yield from rows(
        (
            "`search_size`", "serves originals", "blocks, bits, prefixes",
            "bytes per original in the index", "µs per document at that number",
        ),
        [
            (
                size.name, f"{size.documents_max // 10**6} M", text_of(size.rules),
                at_bound(size, "bytes_each"), at_bound(size, "us"),
            )
            for size in planner.SIZES
        ],
    )  # fmt: skip
    yield from note(f"{run_of('rules')}; between two numbers that were measured, by a line.")


def starts() -> Lines:
    """What an original takes of memory and disk, and how long a start and a snapshot take."""
    found = results("replay")["figures"]

    def line(what: str, unit: str, figure: str) -> tuple[str, str, str]:
        return what, unit, count(found[figure])

    snapshot = f"{found['snapshot_mb'] * 2**20 / found['documents']:.0f}"
    each = "bytes per original"
    yield from rows(
        ("what", "unit", "measured"),
        [
            line("memory without `state_dir`", each, "replica_bytes_an_original"),
            line("memory with `state_dir`", each, "replica_on_disk_bytes_an_original"),
            line("the index, included in both", each, "index_bytes_an_original"),
            line("the table of doc_ids, included in both", each, "doc_id_table_bytes_an_original"),
            line("disk with `state_dir`, in addition to snapshots", each, "files_bytes_an_original"),
            ("a snapshot (two are kept, a third while it is written)", each, snapshot),
            line("the log, on each broker that holds it", "bytes per row", "log_bytes_a_row"),
            line("a start from the log, without `state_dir`", "s", "replay_s"),
            line("a start from the log, with `state_dir`", "s", "replay_on_disk_s"),
            line("a start from a snapshot, not in the page cache", "s", "restore_cold_s"),
            line("a start from a snapshot, in the page cache", "s", "restore_warm_s"),
            line("a snapshot: writing it, with nothing else to do", "s", "snapshot_s"),
            line("a snapshot: writing it while records are applied", "s", "snapshot_beside_replay_s"),
            line("a snapshot: the pause before it is written", "ms", "capture_ms"),
            line("longest call that applies records", "ms", "replay_longest_call_ms"),
            line("longest such call while a snapshot is written", "ms", "longest_call_beside_snapshot_ms"),
        ],
    )  # fmt: skip
    yield from note(f"{run_of('replay')}.")


def originals() -> Lines:
    """The memory and disk of a worker with one thread, and its log, by the number of originals."""
    found = results("replay")["figures"]
    snapshot = found["snapshot_mb"] * 2**20 / found["documents"]
    disk = found["files_bytes_an_original"] + group.SNAPSHOTS * snapshot
    log = found["log_bytes_a_row"] / (1 - group.COPIES)

    def memory(number: int, figure: str) -> float:
        held: float = number * found[figure]
        return group.WORKER_BYTES + group.THREAD_BYTES + held

    yield from rows(
        ("originals", "memory with `state_dir`", "without", "its disk", "the log, on each broker"),
        [
            (
                f"{number // 10**6} M",
                plan.in_bytes(memory(number, "replica_on_disk_bytes_an_original")),
                plan.in_bytes(memory(number, "replica_bytes_an_original")),
                plan.in_bytes(number * disk),
                plan.in_bytes(number * log),
            )
            for number in (10**6, 10**7, 10**8)
        ],
    )


def limits() -> Lines:
    """What bounds a group: the memory of an original, and the workers that all judge everything."""
    found = results("replay")["figures"]
    with_disk, without = (found[f"replica{where}_bytes_an_original"] for where in ("_on_disk", ""))
    rates = {
        one["originals"]: dict(zip(one["workers"], one["documents_per_s"], strict=True))
        for one in results("scale")["groups"]
        if one["cores"] == plan.CORES
    }
    text = (
        f"- Every worker holds all originals, in {count(with_disk)} bytes of memory each, or "
        f"{count(without)} without a `state_dir` on disk "
        "([Sizing](deploy/sizing.md#memory-and-disk)), and judges every document. So 64 two-core "
        f"workers reach at most {count(rates[10**6][64])} per second with 1 M originals, "
        f"{count(rates[10**7][64])} with 10 M (calculated: `make bench-scale`), more with a larger "
        "[`search_size`](deploy/sizing.md#more-originals)."
    )
    for at, line in enumerate(islice(note(text), 1, None)):
        yield f"  {line}" if at else line


WORKLOADS = {  # as the benchmark names them -> as the page does, and the part whose bar it has
    "text of 5 KB": ("texts of 5 KB", "text"),
    HTML: ("pages of 56 KB", "html"),
    OF_ARCHIVE: ("the same pages, from a WARC file", "archives"),
}


def streams() -> Lines:
    """One worker: documents per second, how long they wait, and questions meanwhile."""
    yield from by_build("a worker on two cores with the broker", ["stream", "ask"], _streams)
    yield from note(f"{runs_of('stream', 'ask')}.")


def _streams(build: str) -> Iterator[Figure]:
    bars = bench_stream.BARS[build]
    rates = {(line["workload"], line["contender"]): line["value"] for line in _lines(build)}
    for workload, (what, part) in WORKLOADS.items():
        rate = rates[workload, "neardup worker"]
        times = f"{rate / rates[workload, 'bare Kafka loop']:.2f}"
        yield Figure(what, "documents/s", count(rate))
        yield Figure("the same", "× the bare loop", times, f"{bars[part]:.2f}")
    for rank, what in {"p50": "half of", "p99": "99 % of"}.items():
        waited = f"{_latency(rank, build)['value']:.0f}"
        yield Figure(
            f"{what} the verdicts, at 1,000 documents/s", "ms after the message", waited,
            f"{bars[rank]:.0f}",
        )  # fmt: skip
    asked = bench_ask.medians(results("ask", build)["trials"])
    for load, what in {
        "1,000/s": "one per request",
        "1,000/s, 20 together": "20 per request",
    }.items():
        answered = count(asked[load].asked_per_s)
        yield Figure(f"questions, {what}, while documents wait", "answered/s", answered)
        kept = asked[load].docs_per_s / asked["none"].docs_per_s
        bar = f"{bench_ask.SHARE_BAR:.2f}"
        yield Figure("documents meanwhile", "× without questions", f"{kept:.2f}", bar)


def _lines(build: str) -> list[dict[str, Any]]:
    lines: list[dict[str, Any]] = results("stream", build)["lines"]
    return lines


def _stream(workload: str, contender: str, build: str = DEPLOYED) -> dict[str, Any]:
    return next(
        line
        for line in _lines(build)
        if (line["workload"], line["contender"]) == (workload, contender)
    )


def _latency(rank: str, build: str = DEPLOYED) -> dict[str, Any]:
    return _stream("latency at 1,000 docs/s", f"neardup worker, {rank}", build)


# Documents, and limits of memory of a task: the judge holds all originals, whatever the limit.
ARCHIVES: dict[str, tuple[int, tuple[int, ...]]] = {
    "100 M": (10**8, (5 * 10**9, 8 * 10**9)),
    "1 G": (10**9, (48 * 10**9, 64 * 10**9)),
    "8 G": (8 * 10**9, (384 * 10**9,)),
}
CLUSTER_CORES = 256


def archive_plan() -> Lines:
    """What an archive takes on one machine and on a cluster, as `plan --archive` says."""

    def cells(name: str, documents: int, limit: int | None) -> list[str]:
        search = plan.archive_search(documents)
        of = {step.step: step for step in plan.archive_steps(documents, search, limit)}
        whole = plan.archive_steps(documents, search)[1]
        judge, ask = of["judge"], of.get("ask")
        asking = 0.0 if ask is None else ask.core_hours
        hours = sum(step.hours(CLUSTER_CORES) for step in of.values())
        disk = sum(step.disk_bytes for step in of.values())
        return [
            name,
            "none" if limit is None else plan.in_bytes(limit),
            count(of["rows"].core_hours + of["verdicts"].core_hours),
            DASH if ask is None else count(asking),
            count(judge.core_hours),
            f"{(asking + judge.core_hours) / whole.core_hours:.1f}",
            DASH if ask is None else plan.in_bytes(ask.memory_bytes),
            plan.in_bytes(judge.memory_bytes),
            plan.in_bytes(disk),
            count(hours),
        ]

    yield from rows(
        (
            "documents", "`--task-memory`", "rows, verdicts: core h", "asking: core h",
            "judge: core h", "asking and judge, compared with one task", "memory of a task that asks",
            "memory of the judge", "disk", f"hours on {CLUSTER_CORES} cores",
        ),
        [
            cells(name, documents, limit)
            for name, (documents, limits) in ARCHIVES.items()
            for limit in (None, *limits)
        ],
    )  # fmt: skip
    yield from note(
        f"As `neardup plan --archive --cores {CLUSTER_CORES}` says it, within a factor of two "
        f"where it was measured. Assumed: a share of {planner.COPIES:.2f} of the documents are copies; a page takes "
        f"{plan.ROW_US:.0f} µs to read and {plan.VERDICT_US:.0f} to answer; a row takes the judge "
        f"{plan.JUDGE_ROW_US:.0f} µs besides the search, and {plan.JUDGE_ROW_US_PER_MILLION} more per "
        f"million originals, as in a run of 100 M rows; an original takes {plan.SLICED_US} µs in an "
        f"index that is made to be asked. The search was measured (`make bench-rules`) with up to "
        f"{planner.BEYOND.measured_max // 10**6} M originals, the judge with up to "
        f"{plan.JUDGE_MILLIONS_MAX:.0f} M. Everything beyond is extrapolated."
    )


def archive_costs() -> Lines:
    """What an archive takes that one task judges: with the search that is chosen, by the default."""

    def cells(name: str, documents: int) -> list[str]:
        search = plan.archive_search(documents)
        steps = plan.archive_steps(documents, search)
        default = plan.archive_steps(documents, plan.archive_default(documents))[1]
        many, judge = steps[0].core_hours + steps[2].core_hours, steps[1]
        return [
            name,
            f"{many:,.2g}" if many < 1 else count(many),
            f"{search.search.blocks} of {search.search.block_bits}",
            *(
                figure
                for one in (judge, default)
                for figure in (count(one.core_hours), plan.in_bytes(one.memory_bytes))
            ),
            plan.in_bytes(sum(step.disk_bytes for step in steps)),
        ]

    yield from rows(
        (
            "documents", "rows, verdicts: core h", "blocks of bits", "judge: h", "judge: memory",
            "default: h", "default: memory", "disk",
        ),
        [
            cells(name, documents)
            for name, documents in (
                ("10 M", 10**7), ("100 M", 10**8), ("1 G", 10**9), ("4 G", 4 * 10**9)
            )
        ],
    )  # fmt: skip


TABLES: dict[str, Callable[[], Lines]] = {
    "alike": alike,
    "archive-costs": archive_costs,
    "archive-plan": archive_plan,
    "limits": limits,
    "originals": originals,
    "starts": starts,
    "compared": compared,
    "edited": edited,
    "methods": methods,
    "thresholds": thresholds,
    "worker": worker,
    "fingerprints": fingerprints,
    "main-text": main_text,
    "searches": searches,
    "sizes": sizes,
    "size-costs": size_costs,
    "streams": streams,
}
PAGES = tuple(
    REPOSITORY / name
    for name in (
        "README.md",
        "deploy/sizing.md",
        "tests/README.md",
        "tests/benchmarks/results/archive.md",
        "worker/core/README.md",
        "worker/public/accuracy.md",
    )
)


def with_figures(text: str) -> str:
    """
    Return a page with its tables as the results have them.

    Raises:
        KeyError: a block names a table that nobody makes.
    """

    def block(match: re.Match[str]) -> str:
        lines = "\n".join(TABLES[match[2]]())
        return f"{match[1]}\n{lines}\n\n{match[3]}"

    return _BLOCK.sub(block, text)


def blocks(text: str) -> list[str]:
    """Return the names of a page's tables."""
    return [match[2] for match in _BLOCK.finditer(text)]


def write_figures(pages: Iterable[Path] = PAGES) -> None:
    """Write the tables of all pages."""
    for page in pages:
        page.write_text(with_figures(page.read_text(encoding="utf-8")), encoding="utf-8")
