"""
Batch deduplication: `neardup archive` by step, beside datatrove's MinHash pipeline on the same
documents in the same run.

    python -m tests.benchmarks.bench_archive --datatrove-python PYTHON [--quick] [--parts
    documents,rows,legs]

Of each step, in processes of its own: seconds, core seconds, peak memory of all its processes, and
bytes that it writes for the next one or for the user. Both keep what stays and, apart, what leaves;
both run as many tasks at once as there are cores. Of each side, held against what is true of the
documents: which copies leave, and what leaves that is no copy.

Then neardup alone on rows of the log, made without texts (`archive/rows.py`): families and templates as
in the sample crawl, re-crawls, redeliveries, deletions. What the judge takes stands next to what `neardup
plan --archive` says of as many documents, and the first answers are compared with those of one
replica that judges the rows in order. Last the judge in one task and in legs, on such rows
(`archive/legs.py`), and what `plan` says of larger archives. Written to tests/benchmarks/results: archive.json, archive.md.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import orjson
import psutil

from tests.benchmarks.archive import legs
from tests.benchmarks.archive.documents import SHARES, write_documents
from tests.benchmarks.archive.rows import begin_rows, check_first
from tests.benchmarks.common import REPOSITORY, Figures, command_of, options, table
from tests.benchmarks.figures import with_figures
from tests.benchmarks.kept import kept_results, machine, said, write
from worker.cli.plan import archive_steps
from worker.core import planner
from worker.core.search import SearchRules
from worker.settings import Settings
from worker.shell.archive.run import Run, begin, find_inputs
from worker.shell.archive.steps import engine, judge_all, make_all_rows
from worker.shell.archive.tasks import judge_rows
from worker.shell.files.options import FileOptions
from worker.shell.runtime import kernels

DOCUMENTS, ROWS, QUICK = 200_000, 4_000_000, 50
FILES = 8
FILE_ROWS = 1_000_000
STEPS = {"rows": ("rows",), "judge": ("judge",), "verdicts": ("verdicts", "kept", "duplicates")}
STAGES = {
    "signatures": ("signatures",),
    "buckets": ("buckets",),
    "clusters": ("clusters",),
    "filter": ("kept", "removed"),
}
STAGE = Path(__file__).parent / "archive" / "datatrove_stage.py"
WAIT_S = 0.1
# Looking at a process of 5 GB takes the kernel some 30 ms, during which the process cannot grow. So a
# longer step is looked at less often.
_LOOKS_MAX = 2_000
_COLUMNS = ("seconds", "core seconds", "µs of a core each", "peak memory", "written")


def measured(command: Sequence[object], folder: Path, written: Iterable[str]) -> Figures:
    """
    Run a command; return what it and its descendants took.

    They are looked at ten times a second, and less often when the command takes minutes.
    """
    begun = time.monotonic()
    peak, core_s = 0, dict[int, float]()
    folder.parent.mkdir(parents=True, exist_ok=True)
    log = folder.with_suffix(".log")
    with (
        log.open("w+b") as output,
        subprocess.Popen(
            [str(part) for part in command], cwd=REPOSITORY, stdout=output, stderr=output
        ) as process,
    ):
        top = psutil.Process(process.pid)
        while process.poll() is None:
            held, children = 0, list[psutil.Process]()
            with suppress(psutil.Error):  # it has ended
                children = top.children(recursive=True)
            for one in (top, *children):
                try:
                    core_s[one.pid] = sum(one.cpu_times()[:2])
                    held += _anonymous(one.pid)
                except (psutil.Error, OSError):  # it has ended
                    continue
            peak = max(peak, held)
            time.sleep(max(WAIT_S, (time.monotonic() - begun) / _LOOKS_MAX))
    if process.returncode:
        raise SystemExit(f"{command}: ended with {process.returncode}: {log.read_text()[-2_000:]}")
    size = sum(
        path.stat().st_size
        for name in written
        for path in (folder / name).rglob("*")
        if path.is_file()
    )
    return {
        "seconds": time.monotonic() - begun,
        "core_s": sum(core_s.values()),
        "peak": peak,
        "bytes": size,
    }


def _anonymous(pid: int) -> int:
    """Bytes of a process's memory that no file backs, its share of what it has with others."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("Pss_Anon"))


def begin_made(place: str, rows: int) -> None:
    """Begin a run of so many made rows, in a folder."""
    begin_rows(Path(place), rows, max(FILES, rows // FILE_ROWS), _settings_for(rows))


def run_step(place: str, step: str) -> None:
    """Run a step of the archive in a folder, as `neardup archive` does."""
    run = Run.load(Path(place) / "out")
    with engine(None, _cores()) as tasks:
        tasks.check(run)
        if step == "rows":
            make_all_rows(run, tasks, lambda *_: None)
        elif step == "judge":
            tasks.run("judge", judge_rows, run, [0], lambda: None)
        else:
            judge_all(run, tasks, lambda *_: None)


def compare_first(place: str, checked: int) -> None:
    """Compare the first answers of the run in a folder with those of one replica."""
    check_first(Run.load(Path(place) / "out"), checked)


def _own(function: str, place: Path, *given: object) -> list[str]:
    """Return the command that calls one of these functions."""
    return command_of("bench_archive", function, place, *given)


def _settings_for(rows: int) -> Settings:
    """The search that `neardup archive` chooses for so many documents."""
    rules = planner.plan_directed(planner.archive_originals(rows))[0].search
    return Settings(search_size=planner.size_text(rules))


def _cores() -> int:
    return len(os.sched_getaffinity(0))


def ours(folder: Path) -> list[int]:
    """Return for each document that for which it leaves, or itself."""
    firsts: dict[str, int] = {}
    stays: list[int] = []
    lines = (
        line for path in sorted((folder / "out" / "verdicts").iterdir()) for line in path.open("rb")
    )
    for number, verdict in enumerate(map(orjson.loads, lines)):
        own = firsts.setdefault(verdict["doc_id"], number)
        duplicate_of = verdict.get("duplicate_of")
        stays.append(firsts[duplicate_of["doc_id"]] if duplicate_of else own)
    return stays


def theirs(folder: Path, counts: Sequence[int]) -> list[int]:
    """The same of datatrove: of a cluster one stays, of which its filter need not know."""
    stays, kept = list(range(sum(counts))), dict[int, int]()
    members: list[tuple[int, int]] = []
    for file, first in enumerate(np.cumsum([0, *counts[:-1]]).tolist()):
        path = folder / "clusters" / f"{file:06}.clusters"
        if path.exists():
            removed = set(np.fromfile(path.with_suffix(".remove"), "<u4").tolist())
            for place, cluster in np.fromfile(path, "<u4").reshape(-1, 2).tolist():
                members.append((first + place, cluster))
                if place not in removed:
                    kept[cluster] = first + place
    for number, cluster in members:
        stays[number] = kept[cluster]
    return stays


def score(truth: Sequence[tuple[str, str]], stays: Sequence[int]) -> Figures:
    """
    Return how right it is which documents leave.

    A copy is a document that is not the first of its group. `recall`: of as many as are copies,
    those that leave for one of their own group; `false`: what leaves for one of another group; for
    each relation the share of copies that are with another one of their group.

    >>> made = [("a", "article"), ("a", "edited"), ("b", "article"), ("b", "edited"), ("c", "article")]
    >>> score(made, [0, 0, 2, 3, 2])
    {'copies': 2, 'recall': 0.5, 'false': 1, 'edited': 0.5}
    """
    together = Counter((group, stay) for (group, _), stay in zip(truth, stays, strict=True))
    groups: set[str] = set()
    found, copies = Counter[str](), Counter[str]()
    right = false = 0
    for number, ((group, relation), stay) in enumerate(zip(truth, stays, strict=True)):
        right += stay != number and truth[stay][0] == group
        false += truth[stay][0] != group
        if group in groups:
            copies[relation] += 1
            found[relation] += together[group, stay] > 1
        groups.add(group)
    shares = {
        relation: found[relation] / copies[relation] for relation in SHARES if copies[relation]
    }
    return {"copies": copies.total(), "recall": right / copies.total(), "false": false, **shares}


def on_documents(folder: Path, documents: int, python: str) -> Figures:
    """Both sides on the same documents."""
    write_documents(folder / "in", documents, FILES)
    truth = [orjson.loads(line)[1:] for line in (folder / "truth.jsonl").open("rb")]
    counts = [documents * (file + 1) // FILES - documents * file // FILES for file in range(FILES)]
    figures: Figures = {"documents": documents, "neardup": {}, "datatrove": {}}
    asked = FileOptions(format="jsonl", keep="new", duplicates=True)
    begin(folder / "out", find_inputs([str(folder / "in")]), asked, Settings(), None)
    for step, names in STEPS.items():
        figures["neardup"][step] = measured(_own("run_step", folder, step), folder / "out", names)
        print(f"neardup, {step}: {figures['neardup'][step]}", flush=True)
    for stage, names in STAGES.items():
        command = [python, STAGE, stage, folder, FILES, _cores()]
        figures["datatrove"][stage] = measured(command, folder, names)
        print(f"datatrove, {stage}: {figures['datatrove'][stage]}", flush=True)
    figures["bytes"] = sum(path.stat().st_size for path in (folder / "in").iterdir())
    figures["right"] = {
        "neardup": score(truth, ours(folder)),
        "datatrove": score(truth, theirs(folder, counts)),
    }
    return figures


def on_rows(folder: Path, rows: int, checked: int) -> Figures:
    """The judge and the verdicts on rows; the first answers are compared with one replica's."""
    figures: Figures = {"count": rows, "checked": checked}
    commands = {
        "rows": _own("begin_made", folder, rows),
        "judge": _own("run_step", folder, "judge"),
        "verdicts": _own("run_step", folder, "verdicts"),
        "check": _own("compare_first", folder, checked),
    }
    for step, command in commands.items():
        figures[step] = measured(command, folder / "out", STEPS.get(step, ()))
        print(f"rows, {step}: {figures[step]}", flush=True)
    run = Run.load(folder / "out")
    figures["originals"] = run.results("judge")[0]["originals"]
    rules = run.judging.rules.search
    figures["rules"] = [rules.blocks, rules.block_bits, rules.patterns]
    return figures


def on_legs(folder: Path, sizes: Sequence[int]) -> list[Figures]:
    """The judge of each number of rows in one task and in legs, and whether they say the same."""
    found = []
    for rows in sizes:
        place = folder / f"{rows}"
        size: Figures = {"count": rows}
        measured(_own("begin_made", place, rows), place / "out", ())
        for way in legs.WAYS:
            size[way] = measured(
                command_of("archive.legs", "judge", place, way, _cores()), place / way, ()
            )
            size[way] |= json.loads((place / f"{way}.json").read_bytes())
            print(f"{rows:,} rows, {way}: {size[way]}", flush=True)
        measured(command_of("archive.legs", "check", place), place / "same", ())
        size["checked"] = json.loads((place / "checked.json").read_bytes())
        found.append(size)
        shutil.rmtree(place)
    return found


def _of_legs(figures: Figures) -> list[str]:
    return legs.markdown(figures["sizes"])


def _of_documents(figures: Figures) -> list[str]:
    documents, right, sides = figures["documents"], figures["right"], ("neardup", "datatrove")
    lines = []
    for side in sides:
        steps = figures[side]
        whole = {
            name: sum(one[name] for one in steps.values())
            for name in ("seconds", "core_s", "bytes")
        }
        lines += [_cells(f"{side}, {step}", one, documents) for step, one in steps.items()]
        lines.append(
            _cells(
                f"**{side}**",
                {**whole, "peak": max(one["peak"] for one in steps.values())},
                documents,
            )
        )
    shares = [("of them leave for one of their own", "recall")]
    shares += [
        (f"{name}: with another one of their own", name)
        for name in SHARES
        if name in right["neardup"]
    ]
    return [
        *table((f"{documents:,} documents, {figures['bytes'] / 1e6:,.0f} MB", *_COLUMNS), lines),
        *table(
            ("", *sides),
            [
                ("copies", *(f"{right[side]['copies']:,}" for side in sides)),
                *((text, *(f"{right[side][name]:.4f}" for side in sides)) for text, name in shares),
                (
                    "leave for one of which they are no copy",
                    *(f"{right[side]['false']:,}" for side in sides),
                ),
            ],
        ),
    ]


def _of_rows(figures: Figures) -> list[str]:
    rows = figures["count"]
    head = (f"{rows:,} rows, {figures['originals']:,} originals", *_COLUMNS)
    steps = [step for step in ("judge", "verdicts") if step in figures]
    lines = [_cells(f"neardup, {step}", figures[step], rows) for step in steps]
    lines.insert(1, _planned(figures))
    same = (
        f"0 of the first {figures['checked']:,} answers differ from those of one replica that "
        f"judges the rows in order."
    )
    return [*table(head, lines), *figures.get("notes", []), same, ""]


def _planned(figures: Figures) -> tuple[str, ...]:
    """What `neardup plan --archive` says of the judge, by the search that judged the rows."""
    rows = figures["count"]
    blocks, block_bits, patterns = figures["rules"]
    rules = SearchRules(blocks=blocks, block_bits=block_bits, patterns=patterns)
    search = planner.estimate_directed(rules, planner.archive_originals(rows))
    judge = archive_steps(rows, search)[1]
    core_s = judge.core_hours * 3_600
    return (
        f"planned, {blocks} blocks of {block_bits} bits, {patterns} patterns",
        "",
        f"{core_s:,.1f}",
        f"{core_s / rows * 1e6:,.0f}",
        f"{judge.memory_bytes / 1e9:.2f} GB",
        f"{judge.disk_bytes / 1e6:,.1f} MB",
    )


def markdown(kept: Figures) -> str:
    """The tables of all parts, and of what is planned."""
    lines: list[str] = []
    for part, tables in (("documents", _of_documents), ("rows", _of_rows), ("legs", _of_legs)):
        if part in kept:
            lines += [
                *tables(kept[part]),
                f"Measured with `make bench-archive`: {said(kept[part]['machine'])}.",
                "",
            ]
    lines += ["<!-- figures: archive-plan -->", "<!-- end of figures -->", ""]
    return with_figures("\n".join(lines))


def _cells(name: str, one: Figures, count: int) -> tuple[str, ...]:
    times = f"{one['seconds']:,.1f}", f"{one['core_s']:,.1f}", f"{one['core_s'] / count * 1e6:,.0f}"
    return name, *times, f"{one['peak'] / 1e9:.2f} GB", f"{one['bytes'] / 1e6:,.1f} MB"


def main() -> None:
    """Measure, print, keep."""
    parser = options(__doc__, f"a part in {QUICK} of each")
    parser.add_argument(
        "--datatrove-python", default="", help="the Python of an environment that has it"
    )
    parser.add_argument("--documents", type=int, default=DOCUMENTS)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument(
        "--checked", type=int, help="answers to compare, the first ones; by default all"
    )
    parser.add_argument(
        "--legs", type=int, nargs="*", default=legs.SIZES, help="rows to judge in legs"
    )
    parser.add_argument(
        "--parts", default="documents,rows,legs", help="which; kept results of the others stay"
    )
    parser.add_argument(
        "--folder", type=Path, help="for what is made; by default one that is removed"
    )
    chosen = parser.parse_args()
    kernels.ready(Settings())  # what a first start compiles is no step's
    documents, rows = (
        (one // QUICK if chosen.quick else one) for one in (chosen.documents, chosen.rows)
    )
    found: Figures = {}
    with tempfile.TemporaryDirectory(prefix="neardup-bench-", dir=chosen.folder) as folder:
        for part in chosen.parts.split(","):
            where, place = machine(), Path(folder) / part
            if part == "documents":
                figures = on_documents(place, documents, chosen.datatrove_python)
            elif part == "rows":
                figures = on_rows(place, rows, min(chosen.checked or rows, rows))
            elif part == "legs":
                divisor = QUICK if chosen.quick else 1
                figures = {"sizes": on_legs(place, [size // divisor for size in chosen.legs])}
            else:
                parser.error(f"--parts must be of documents, rows and legs, got {part!r}")
            found[part] = {"machine": where, **figures}
    print(f"\n{markdown(found)}")
    if not (chosen.quick or chosen.no_save):
        kept = kept_results("archive") | found
        write("archive", kept, markdown(kept))


if __name__ == "__main__":
    main()
