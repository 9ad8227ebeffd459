"""`neardup plan`: which search serves so many documents, and what it would cost."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worker.cli import app
from worker.cli.shared import Column, Columns

if TYPE_CHECKING:
    from worker.core.planner import DirectedPlan, Plan

COSTS = ("documents", "bytes_per_document", "memory_bytes", "machines", "scanned", "query_insert_ns")
POWERS: dict[str, int] = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
LAYOUTS = (
    Column("", 1), Column("layout", 28), Column("tables", 6, True), Column("prefix bits", 11, True, rank=4),
    Column("probes", 6, True, rank=3), Column("bytes each", 10, True, rank=1), Column("memory", 8, True),
    Column("machines", 8, True, rank=2), Column("filters read", 12, True, rank=6),
    Column("candidates", 11, True, rank=5), Column("µs", 6, True),
)  # fmt: skip
RULES = (
    Column("", 1), Column("blocks", 7), Column("patterns", 8, True), Column("bytes each", 10, True, rank=1),
    Column("memory", 8, True), Column("machines", 8, True, rank=2), Column("entries read", 12, True, rank=3),
    Column("µs", 6, True),
)  # fmt: skip


@app.command()
def plan(
    documents: Annotated[str, typer.Option(help="Originals that will be indexed, like 10M or 2^34.")],
    distance: Annotated[
        int | None, typer.Option(help="Exact search: bits that may differ. [default: directed search]", min=0, max=16)
    ] = None,
    memory: Annotated[
        str | None, typer.Option(help="What one machine may give to the index, like 8G. [default: no limit]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="JSON Lines, the chosen one first.")] = False,
) -> None:
    """
    Print how so many documents can be searched, and what each way costs.

    For directed search those are blocks, for exact search layouts of the index. Random fingerprints are assumed: real
    ones collide 2 to 2.5 times as often. More documents than planned cost time, never a verdict. What one machine
    cannot hold is dealt to several, on paper. A narrow terminal shows fewer columns.
    """
    count = number(documents, "--documents")
    limit = None if memory is None else number(memory, "--memory", 63)
    try:
        if as_json:
            _write_json(count, distance, limit)
        elif distance is None:
            _directed(count, limit)
        else:
            _exact(count, distance, limit)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def _print(title: str, shown: Sequence[Column], plans: Iterable[list[str]]) -> None:
    """Print a line per plan; the first is the chosen one."""
    columns = Columns(*shown)
    typer.echo(f"{title}; a query and its insertion, on one core:\n\n{columns.head()}")
    for position, cells in enumerate(plans):
        typer.echo(columns.line(["*" if position == 0 else "", *cells]))


def _write_json(count: int, distance: int | None, limit: int | None) -> None:
    from worker.core.planner import plan as plan_layouts  # noqa: PLC0415
    from worker.core.planner import plan_directed  # noqa: PLC0415

    if distance is None:
        found: list[tuple[dict[str, Any], Any]] = [(one.rules.settings, one) for one in plan_directed(count, limit)]
    else:
        found = [
            ({"layout": one.layout.name, "tables": len(one.layout.permutations), "probes": one.layout.probes}, one)
            for one in plan_layouts(count, distance, limit)
        ]
    for fields, one in found:
        typer.echo(json.dumps(fields | {name: getattr(one, name) for name in COSTS}))


def _directed(count: int, limit: int | None) -> None:
    from worker.core.planner import plan_directed  # noqa: PLC0415

    plans = plan_directed(count, limit)
    _print(f"{count:,} documents, directed search", RULES, map(_directed_cells, plans))
    chosen = plans[0]
    machines = "one machine" if chosen.machines == 1 else f"{chosen.machines:,} machines, each with a share"
    typer.echo(f"\n* chosen: {chosen.rules.text}; {in_bytes(chosen.memory_bytes)} on {machines}")


def _directed_cells(one: DirectedPlan) -> list[str]:
    return [
        f"{one.rules.blocks} x {one.rules.block_bits}",
        f"{one.rules.patterns}",
        f"{one.bytes_per_document:,.0f}",
        in_bytes(one.memory_bytes),
        f"{one.machines:,}",
        f"{one.scanned:,.0f}",
        f"{one.query_insert_ns / 1e3:,.1f}",
    ]


def _exact(count: int, distance: int, limit: int | None) -> None:
    from worker.core.planner import plan as plan_layouts  # noqa: PLC0415

    plans = plan_layouts(count, distance, limit)
    _print(f"{count:,} documents, exact search at distance {distance}", LAYOUTS, map(_cells, plans))
    chosen = plans[0]
    alone = "one machine" if chosen.machines == 1 else f"{chosen.machines:,} machines, each with a range of prefixes"
    typer.echo(f"\n* chosen: {chosen.layout.name}, {in_bytes(chosen.memory_bytes)} on {alone}")


def _cells(one: Plan) -> list[str]:
    bits = sorted({table.prefix_bits for table in one.layout.permutations})
    return [
        one.layout.name,
        str(len(one.layout.permutations)),
        str(bits[0]) if len(bits) == 1 else f"{bits[0]}-{bits[-1]}",
        f"{one.layout.probes:,}",
        f"{one.bytes_per_document:,.0f}",
        in_bytes(one.memory_bytes),
        f"{one.machines:,}",
        f"{one.scanned:,.0f}",
        f"{one.candidates:,.3g}" if one.candidates < 100 else f"{one.candidates:,.0f}",
        f"{one.query_insert_ns / 1e3:,.2f}",
    ]


def number(text: str, option: str, bits: int = 40) -> int:
    """Read a count from 1 to 2^bits: 250000, 10M, 8G, 1e9, 2^34."""
    power = re.fullmatch(r"(\d{1,4})\^(\d{1,2})", text)
    scaled = re.fullmatch(r"(\d{1,19}(?:\.\d+)?(?:e\d{1,2})?)([kmgt]?)b?", text.replace(",", "").lower())
    count = int(power[1]) ** int(power[2]) if power else float(scaled[1]) * 1e3 ** POWERS[scaled[2]] if scaled else inf
    if not 1 <= count <= 2**bits:
        raise typer.BadParameter(f"{option} must be a count like 250000, 10M or 2^34, 1 to 2^{bits}, got {text[:40]!r}")
    return int(count)


def in_bytes(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if count < 1_000 or unit == "TB":
            return f"{count:.3g} {unit}"
        count /= 1_000
    raise AssertionError
