"""`neardup plan`: which search fits a number of documents, and what it costs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from math import ceil, inf
from typing import Annotated, Any, NamedTuple

import typer

from worker.cli.shared import TableColumn, TableColumns, option
from worker.core import group, planner
from worker.core.permutation import Layout
from worker.core.search import SearchRules
from worker.shell.times import duration_s

COSTS = (
    "documents",
    "bytes_per_document",
    "memory_bytes",
    "scanned",
    "query_insert_ns",
)
CORES = 2  # of the machines on which all was measured
YEAR_S = 365.25 * 86_400
YEARS_MAX = 100  # what comes later is not told
RETENTION_S_MAX = 3_650 * 86_400
POWERS: dict[str, int] = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
# Of a plan by columns: what each shows.
SIZES: dict[TableColumn, Callable[[Any], str]] = {
    TableColumn("bytes each", 10, True, rank=1): lambda one: f"{one.bytes_per_document:,.0f}",
    TableColumn("memory", 8, True): lambda one: in_bytes(one.memory_bytes),
}
LAYOUTS: dict[TableColumn, Callable[[Any], str]] = {
    TableColumn("layout", 28): lambda one: one.search.name,
    TableColumn("tables", 6, True): lambda one: str(len(one.search.permutations)),
    TableColumn("prefix bits", 11, True, rank=4): lambda one: _prefix_bits(one.search),
    TableColumn("probes", 6, True, rank=3): lambda one: f"{one.search.probes:,}",
    **SIZES,
    TableColumn("filters read", 12, True, rank=6): lambda one: f"{one.scanned:,.0f}",
    TableColumn("candidates", 11, True, rank=5): lambda one: _rounded(
        planner.candidates(one.search, one.documents)
    ),
    TableColumn("µs", 6, True): lambda one: f"{one.query_insert_ns / 1e3:,.2f}",
}
RULES: dict[TableColumn, Callable[[Any], str]] = {
    TableColumn("blocks", 7): lambda one: f"{one.search.blocks} x {one.search.block_bits}",
    TableColumn("patterns", 8, True): lambda one: f"{one.search.patterns}",
    TableColumn("size", 5): lambda one: _size_name(one.search),
    **SIZES,
    TableColumn("entries read", 12, True, rank=3): lambda one: f"{one.scanned:,.0f}",
    TableColumn("µs", 6, True): lambda one: f"{one.query_insert_ns / 1e3:,.1f}",
}
# Batch deduplication. The planner says what judging a row and holding an original take; the rest
# was measured by `make bench-archive`, processor time on 4,439 sample pages of a WARC file.
ROW_US = 182.0  # texts take less
VERDICT_US = 20.0
# Besides searching, the judge reads, confirms and answers each row. That took 8 to 11 µs with 1 M
# rows. It takes longer the more originals there are, because they are read from ever more pages of
# memory and disk. In a run of 100 M rows on an Intel Xeon of 2023, a row took 47 µs, some 16 of
# them for the search of that time, so each million originals adds 0.4. Nothing was measured beyond
# the 51 M originals of that run. A tenth of its rows shared a prefix and a twentieth came again at
# once, so a crawl should take less.
JUDGE_ROW_US = 10.0
JUDGE_ROW_US_PER_MILLION = 0.4
JUDGE_MILLIONS_MAX = 51.3
SLICE_FILE_BYTES = 96.0  # of an original outside
SLICED_US = 1.5  # of an original, in an index that a task makes to ask it for rows
ROW_BYTES = 105.0
# Of a document, in the files of answers and of verdicts (as .jsonl.zst). Measured on a sample crawl
# of 20,000 pages. Longer URLs take more.
ANSWER_BYTES = 110.0
VERDICT_BYTES = 58.0
ID_BYTES = 22.0  # of a document: the hash of its doc_id and what the step `ids` compares
SNAPSHOTS = 2  # are kept
JUDGE_HOURS_MAX = 24
STEPS = (
    TableColumn("step", 8), TableColumn("tasks", 8), TableColumn("core hours", 10, True),
    TableColumn("hours", 8, True), TableColumn("memory of each", 14, True),
    TableColumn("disk", 8, True),
)  # fmt: skip


class ArchiveStep(NamedTuple):
    """The cost of a step of `neardup archive`."""

    step: str
    tasks: int | None  # None: one for each file
    core_hours: float
    memory_bytes: float  # of a task
    disk_bytes: float

    def hours(self, cores: int) -> float:
        """Return the hours that it takes on so many cores, with a task on each."""
        return self.core_hours / min(cores, self.tasks or cores)


TaskMemoryOption = Annotated[
    str | None,
    option("With --archive: memory of a task, like 32G. [default: one task judges]", "BYTES"),
]


def plan(  # noqa: PLR0917  # each is an option
    documents: Annotated[
        str | None,
        option(
            "Number of originals to be indexed, like 10M or 2^34. With --archive: "
            "number of all documents.",
            "COUNT",
        ),
    ] = None,
    per_month: Annotated[
        str | None,
        option("Plan a group of workers for so many documents a month, like 300M.", "COUNT"),
    ] = None,
    retention: Annotated[
        str | None,
        option(
            "With --per-month: how long originals are kept, like 30d. [default: for ever]",
            "DURATION",
        ),
    ] = None,
    cores: Annotated[
        int | None,
        typer.Option(
            help="Cores of a worker, or of all tasks of --archive. [default: 2]", min=1, max=10_000
        ),
    ] = None,
    distance: Annotated[
        int | None,
        typer.Option(
            help="Exact search: bits that may differ. [default: directed search]", min=0, max=16
        ),
    ] = None,
    memory: Annotated[
        str | None,
        option(
            "Memory that one machine has for the index, or with --per-month for a worker, "
            "like 8G. [default: no limit]",
            "BYTES",
        ),
    ] = None,
    archive: Annotated[
        bool, typer.Option("--archive", help="Print the cost of `neardup archive`, step by step.")
    ] = False,
    task_memory: TaskMemoryOption = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print JSON Lines, the chosen plan first.")
    ] = False,
) -> None:
    """
    Plan an index, an archive or a group of workers, with what each costs.

    A layout of an index is a number of blocks (directed search) or of tables (exact search). The
    plan assumes random fingerprints; real ones collide 2 to 2.5 times as often. More documents than
    planned cost time, but change no verdict. Plans of an archive and of a group assume that half of
    their documents are copies, and use the search that fits the other half.
    """
    _check(documents, per_month, retention, cores, distance, task_memory, archive=archive)
    limit = bytes_of(memory, "--memory")
    try:
        if per_month:
            kept_s = _retention_s(retention) if retention else None
            _group(number(per_month, "--per-month"), kept_s, limit, cores or CORES, as_json)
            return
        count = number(documents or "", "--documents")
        if archive:
            _archive(count, limit, task_memory, cores or CORES, as_json)
        else:
            _search(count, distance, limit, as_json)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _check(
    documents: str | None,
    per_month: str | None,
    retention: str | None,
    cores: int | None,
    distance: int | None,
    task_memory: str | None,
    *,
    archive: bool,
) -> None:
    """Refuse options that do not go together."""
    if task_memory and not archive:
        raise typer.BadParameter("--task-memory belongs to --archive")
    if (documents is None) == (per_month is None):
        raise typer.BadParameter("give either --documents or --per-month")
    if (archive or per_month) and distance is not None:
        raise typer.BadParameter(
            "--archive and --per-month are planned by directed search: leave --distance out"
        )
    if archive and per_month:
        raise typer.BadParameter("--archive is planned for a number of --documents")
    if retention and not per_month:
        raise typer.BadParameter("--retention belongs to --per-month")
    if cores is not None and not (per_month or archive):
        raise typer.BadParameter("--cores belongs to --per-month and --archive")


def _search(count: int, distance: int | None, limit: int | None, as_json: bool) -> None:
    """Write a line per plan; the first is the chosen one."""
    plans: Sequence[planner.Plan[Any]]
    if distance is None:
        plans = planner.plan_directed(count, limit)
        shown = RULES
        searched = "directed search"
        chosen = f"{plans[0].search.text};"
    else:
        plans = planner.plan(count, distance, limit)
        shown = LAYOUTS
        searched = f"exact search at distance {distance}"
        chosen = f"{plans[0].search.name},"
    _tell_of_too_many(count)
    if as_json:
        for one in plans:
            typer.echo(
                json.dumps(_fields(one.search) | {name: getattr(one, name) for name in COSTS})
            )
        return
    columns = TableColumns(TableColumn("", 1), *shown)
    typer.echo(
        f"{count:,} documents, {searched}; a query and its insertion, on one core:\n\n"
        f"{columns.head()}"
    )
    for one in plans:
        mark = "*" if one is plans[0] else "-" if limit and one.memory_bytes > limit else ""
        typer.echo(columns.line([mark, *(cell(one) for cell in shown.values())]))
    typer.echo(f"\n* chosen: {chosen} {in_bytes(plans[0].memory_bytes)}")
    if limit and plans[-1].memory_bytes > limit:
        typer.echo(f"- does not fit: a machine gives {in_bytes(limit)}")
    if isinstance(plans[0].search, SearchRules):
        typer.echo(f"  {planner.line_of(plans[0].search)}\n{_measured(plans[0])}")


def _tell_of_too_many(originals: int) -> None:
    """Say that there are more originals than one index can hold, whatever its memory."""
    if originals > group.ORIGINALS_MAX:
        typer.echo(
            f"{originals:,} originals are more than the {group.ORIGINALS_MAX:,} that one index can "
            "hold: divide the documents",
            err=True,
        )


def _group(
    per_month: int, retention_s: float | None, limit: int | None, cores: int, as_json: bool
) -> None:
    """Write what a group takes, a line each, then what grows first."""
    planned = group.plan_group(per_month, retention_s=retention_s, memory_bytes=limit, cores=cores)
    if as_json:
        fields = planned._asdict()
        del fields["search"]
        typer.echo(json.dumps(_fields(planned.search.search) | fields))
        return
    kept = "for a year" if retention_s is None else f"for {retention_s / 86_400:,.3g} days"
    search = planned.search
    typer.echo(
        f"{per_month:,} documents a month, {planned.average_per_s:,.1f} a second on average, half "
        f"of them copies.\n{planned.originals:,} originals are kept {kept}. Texts of 5 KB; pages "
        "of 56 KB take eight times the preparing.\n"
    )
    workers = planned.workers or group.WORKERS_MAX
    rows = (
        ("search", f"{search.search.blocks} x {search.search.block_bits}",
         f"{planner.line_of(search.search)}; {search.query_insert_ns / 1e3:,.1f} µs"),
        ("workers", f"{workers}",
         f"of {cores} cores; together they judge {planned.group_per_s:,.0f} documents a second"),
        ("memory", in_bytes(planned.memory_bytes),
         f"of each worker, {in_bytes(search.memory_bytes)} of it for the index"),
        ("disk", in_bytes(planned.disk_bytes), "of each worker, with three snapshots"),
        ("snapshots", in_bytes(planned.snapshot_bytes_per_day), "written a day by each worker"),
        ("log", in_bytes(planned.log_bytes_per_month), "a month on each broker that holds it"),
        ("start", _in_time(planned.start_s), "from a snapshot"),
        ("", _in_time(planned.start_from_log_s), "from the log of a month"),
    )  # fmt: skip
    columns = TableColumns(TableColumn("", 9), TableColumn("", 9, True), TableColumn(""))
    for row in rows:
        typer.echo(columns.line(list(row)))
    typer.echo("\n" + "\n".join(_limits(planned, retention_s)))


def _limits(planned: group.GroupPlan, retention_s: float | None) -> Iterator[str]:
    """Yield what grows first, and what was not measured."""
    search = planned.search
    if not planned.workers:
        yield (
            f"No number of workers judges {group.HEADROOM:.0f} times the average, because each of "
            "them judges all documents: keep originals for a shorter time, or split the crawl."
        )
    size = planner.size_of(search.search)
    is_served = size is not None and planned.originals <= size.documents_max
    served = "" if size is None else _served(size, planned)
    if served and not is_served:
        yield (
            f"{served}. Among {planned.originals:,}, a document takes "
            f"{search.query_insert_ns / 1e3:,.0f} µs. Rules for more take more memory."
        )
    yield from _extrapolated(search)
    if retention_s is None:
        grown = f" {served}." if is_served else ""
        yield f"Originals grow without end: --retention plans expire_after_s.{grown}"
    yield (
        "The log grows without end. Keep snapshots (state_dir): from the log alone, a start takes "
        f"{_in_time(12 * planned.start_from_log_s)} after a year. `neardup log renew` begins a new "
        "log, and the old one can go."
    )


def _served(size: planner.Size, planned: group.GroupPlan) -> str:
    """Say how many originals rules serve, and when so many have come."""
    seconds = size.documents_max / (planned.average_per_s * (1 - group.COPIES))
    when = (
        f"so many have come after {_in_time(seconds)}"
        if seconds <= YEARS_MAX * YEAR_S
        else f"so many do not come in the next {YEARS_MAX} years"
    )
    return f'"{size.name}" serves {size.documents_max:,} originals, and {when}'


def _in_time(seconds: float) -> str:
    """
    Return a time with the unit that reads best.

    >>> _in_time(4.46), _in_time(141), _in_time(8_562), _in_time(300_000), _in_time(6e7)
    ('4.5 s', '2.4 min', '2.4 h', '3.5 days', '1.9 years')
    """
    for size, unit in ((YEAR_S, "years"), (86_400, "days"), (3_600, "h"), (60, "min")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:,.1f} {unit}"
    return f"{seconds:.1f} s"


def _retention_s(text: str) -> float:
    """Read how long originals are kept, such as 30d."""
    seconds = duration_s(text.lower()) or 0.0
    if not 60 <= seconds <= RETENTION_S_MAX:
        raise typer.BadParameter(
            "--retention must be a time like 30d, 12h or 6w, "
            f"a minute to ten years, got {text[:40]!r}"
        )
    return seconds


def _size_name(rules: SearchRules) -> str:
    size = planner.size_of(rules)
    return size.name if size else ""


def _size(search: planner.Plan[SearchRules]) -> planner.Size:
    """Return what was measured of a search that is planned."""
    size = planner.measured(search.search)
    assert size is not None, "only a search that was measured is planned"
    return size


def _extrapolated(search: planner.Plan[SearchRules]) -> Iterator[str]:
    """Yield a line if a plan is for more originals than its search was measured with."""
    measured_max = _size(search).measured_max
    if search.documents > measured_max:
        yield f"Extrapolated: this search was measured with up to {measured_max:,} originals."


def _measured(search: planner.Plan[SearchRules]) -> str:
    """Say what was measured of a search, and whether its plan extrapolates."""
    size = _size(search)
    figures = ", ".join(
        f"{microseconds:.1f} µs with {originals:,}" for originals, microseconds in size.measured_us
    )
    serves = f'"{size.name}" serves {size.documents_max:,} originals. ' if size.name else ""
    finds = f"It finds {size.recall:.4f} of the labelled copies"
    if size is not planner.SIZES[0]:
        finds += f', "{planner.SIZES[0].name}" {planner.SIZES[0].recall:.4f}'
    lines = [
        f"{serves}{finds}.",
        f"Measured on {planner.MEASURED_ON}: {figures}. An Intel Xeon of 2023 took twice as long.",
    ]
    return "\n".join([*lines, *_extrapolated(search)])


def _fields(search: Layout | SearchRules) -> dict[str, Any]:
    if isinstance(search, Layout):
        return {"layout": search.name, "tables": len(search.permutations), "probes": search.probes}
    return planner.settings_of(search)


def _prefix_bits(layout: Layout) -> str:
    bits = sorted({table.prefix_bits for table in layout.permutations})
    return str(bits[0]) if len(bits) == 1 else f"{bits[0]}-{bits[-1]}"


def _rounded(count: float) -> str:
    return f"{count:,.3g}" if count < 100 else f"{count:,.0f}"


def archive_search(documents: int) -> planner.Plan[SearchRules]:
    """Return the search that `plan` chooses for an archive with this many documents."""
    return planner.plan_directed(planner.archive_originals(documents))[0]


def archive_default(documents: int) -> planner.Plan[SearchRules]:
    """Return the cost of the default search for such an archive."""
    return planner.estimate_directed(SearchRules(), planner.archive_originals(documents))


def judge_row_us(originals: int) -> float:
    """Return the microseconds that the judge takes for a row besides searching."""
    return JUDGE_ROW_US + JUDGE_ROW_US_PER_MILLION * min(originals / 1e6, JUDGE_MILLIONS_MAX)


def archive_steps(
    documents: int, search: planner.Plan[SearchRules], task_bytes: int | None = None
) -> list[ArchiveStep]:
    """
    Return the costs of the steps of an archive run whose judge searches by this plan.

    Every row is judged at the cost of the last one, when all originals are held.

    Args:
        task_bytes: `--task-memory`; the judge takes what it needs, if left out.
    """
    hours = documents / 3.6e9  # of a microsecond for each document
    row_us = judge_row_us(search.documents)
    disk = documents * ANSWER_BYTES
    disk += search.documents * (group.FILE_BYTES + SNAPSHOTS * group.SNAPSHOT_BYTES)
    verdict_bytes = documents * (VERDICT_BYTES + ID_BYTES)
    held = planner.TASK_BYTES + search.documents * group.HELD_BYTES
    judge_us = row_us + search.query_insert_ns / 1e3
    judge = [ArchiveStep("judge", 1, hours * judge_us, held + search.memory_bytes, disk)]
    if task_bytes is not None:
        judge = _in_legs(documents, search, task_bytes, row_us, disk)
    return [
        ArchiveStep("rows", None, hours * ROW_US, planner.TASK_BYTES, documents * ROW_BYTES),
        *judge,
        ArchiveStep("verdicts", None, hours * VERDICT_US, planner.TASK_BYTES, verdict_bytes),
    ]


def _in_legs(
    documents: int,
    search: planner.Plan[SearchRules],
    task_bytes: int,
    row_us: float,
    disk: float,
) -> list[ArchiveStep]:
    """
    Return the costs of a judge whose earlier originals other tasks search: `shell/archive/legs.py`.

    Args:
        row_us: of a row, without its search.
        disk: bytes of its files.
    """
    rules = search.search
    asked_us = judged_us = ask_bytes = judge_bytes = leg_bytes = 0.0
    for leg in planner.planned_legs(rules, task_bytes, documents, search.documents):
        stop = leg.begin + leg.rows
        originals = max(1, search.documents * stop // documents - leg.outside)
        index = planner.estimate_directed(rules, originals)
        judged_us += leg.rows * (row_us + index.query_insert_ns / 1e3)
        judge_bytes = max(judge_bytes, planner.judge_bytes(rules, leg.outside, originals))
        if leg.slices:
            each = ceil(leg.outside / leg.slices)
            searched = planner.estimate_directed(rules, each)
            # A task makes the index of its slice for as many rows as that has room for.
            asked_us += leg.rows * leg.slices * searched.query_insert_ns / 1e3
            asked_us += leg.outside * SLICED_US
            ask_bytes = max(ask_bytes, planner.slice_bytes(rules, each))
            leg_bytes = leg.outside * SLICE_FILE_BYTES
    return [
        ArchiveStep("ask", None, asked_us / 3.6e9, ask_bytes, leg_bytes),
        ArchiveStep("judge", 1, judged_us / 3.6e9, judge_bytes, disk),
    ]


def _archive(
    count: int, limit: int | None, task_memory: str | None, cores: int, as_json: bool
) -> None:
    """Write a line per step, and warn of a judge that is too large or too slow."""
    task_bytes = bytes_of(task_memory, "--task-memory")
    search = archive_search(count)
    steps = archive_steps(count, search, task_bytes)
    if as_json:
        for step in steps:
            typer.echo(json.dumps(step._asdict() | {"hours": step.hours(cores)}))
    else:
        _show_steps(count, steps, cores)
        typer.echo(_searched(count, search))
        if search.documents > JUDGE_MILLIONS_MAX * 1e6:
            measured_max = _size(search).measured_max // 10**6
            typer.echo(
                f"Extrapolated: the judge was measured with up to {JUDGE_MILLIONS_MAX:.0f} M "
                f"originals, its search alone with up to {measured_max} M."
            )
    _tell_of_too_many(search.documents)
    judge = steps[-2]
    if limit is not None and judge.memory_bytes > limit:
        needed = f"{in_bytes(judge.memory_bytes)} of memory, one machine gives {in_bytes(limit)}"
        remedy = "use a larger one, or archive fewer"
        if task_bytes is None:
            remedy = "use a larger one, archive fewer, or set --task-memory"
        typer.echo(f"the judge is one task and takes {needed}: {remedy}", err=True)
    if judge.core_hours > JUDGE_HOURS_MAX:
        needed = f"{judge.core_hours:,.0f} hours, a day has {JUDGE_HOURS_MAX}"
        typer.echo(
            f"the judge is one task and takes {needed}: archive fewer, or wait for it", err=True
        )


def _show_steps(count: int, steps: Sequence[ArchiveStep], cores: int) -> None:
    columns = TableColumns(*STEPS)
    on = "one core" if cores == 1 else f"{cores:,} cores"
    typer.echo(f"{count:,} documents in files, half of them copies, on {on}:\n\n{columns.head()}")
    for step in steps:
        cells = [
            step.step,
            "one" if step.tasks else "many" if step.step == "ask" else "a file's",
            f"{step.core_hours:,.1f}",
            f"{step.hours(cores):,.1f}",
            in_bytes(step.memory_bytes),
            in_bytes(step.disk_bytes),
        ]
        typer.echo(columns.line(cells))
    whole = sum(step.hours(cores) for step in steps)
    typer.echo(
        f"\n{whole:,.1f} hours in all: the judge is one task, whatever the cores. Of pages; texts "
        f"take less.\nThe judge's hours are right within a factor of two where they were measured."
        "\nWith --keep, the kept documents take disk in addition."
    )


def _searched(count: int, search: planner.Plan[SearchRules]) -> str:
    """Say by which search the judge was planned, and what the default would take instead."""
    default = archive_default(count)
    if search.search == default.search:
        return f"The judge has the default search, {_cost(search)}."
    judge = archive_steps(count, default)[1]
    return (
        f"The judge has {planner.line_of(search.search)}: {_cost(search)}.\n"
        f"With the default search: {_cost(default)}, "
        f"so {judge.core_hours:,.1f} hours and {in_bytes(judge.memory_bytes)}."
    )


def _cost(search: planner.Plan[SearchRules]) -> str:
    search_us = search.query_insert_ns / 1e3
    return f"{search_us:,.1f} µs a search, {search.bytes_per_document:,.0f} bytes an original"


def number(text: str, option: str, bits: int = 40, *, is_bytes: bool = False) -> int:
    """
    Read a count from 1 to 2^bits: 250000, 10M, 8G, 1e9, 2^34.

    A B at the end stands for bytes, as in 64GB. It is refused where documents are counted, because
    whoever writes 10B there means ten billion.

    >>> number("10M", "documents", 40)
    10000000
    >>> number("2^34", "documents", 40)
    17179869184
    >>> number("64GB", "memory", 63, is_bytes=True)
    64000000000
    """
    power = re.fullmatch(r"(\d{1,4})\^(\d{1,2})", text)
    scaled = re.fullmatch(
        r"(\d{1,19}(?:\.\d+)?(?:e\d{1,2})?)([kmgt]?)(b?)", text.replace(",", "").lower()
    )
    if scaled and scaled[3] and not is_bytes:
        meant = text[:40].rstrip("bB")
        raise typer.BadParameter(
            f"{option} counts documents, and B stands for bytes: write "
            f"{meant if scaled[2] else f'{meant}G for billions'}, got {text[:40]!r}"
        )
    count = (
        int(power[1]) ** int(power[2])
        if power
        else float(scaled[1]) * 1e3 ** POWERS[scaled[2]]
        if scaled
        else inf
    )
    if not 1 <= count <= 2**bits:
        raise typer.BadParameter(
            f"{option} must be a count like 250000, 10M or 2^34, 1 to 2^{bits}, got {text[:40]!r}"
        )
    return int(count)


def bytes_of(text: str | None, option: str) -> int | None:
    """Read a number of bytes as `number` does, also with a B at the end (64GB); None stays None."""
    return None if text is None else number(text, option, 63, is_bytes=True)


def in_bytes(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if count < 1_000 or unit == "TB":
            return f"{count:.3g} {unit}"
        count /= 1_000
    raise AssertionError
