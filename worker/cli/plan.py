"""`neardup plan`: which layout of the index serves so many documents, and what each would cost."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

import typer

from worker.cli import app

if TYPE_CHECKING:
    from worker.core.planner import Plan

POWERS: dict[str, int] = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
HEADER = (
    ("", 1), ("layout", -30), ("tables", 6), ("prefix bits", 11), ("probes", 6), ("bytes each", 10), ("memory", 8),
    ("machines", 8), ("filters read", 12), ("candidates", 11), ("µs", 8),
)  # fmt: skip


@app.command()
def plan(
    documents: Annotated[str, typer.Option(help="Originals that will be indexed, like 10M or 2^34.")],
    distance: Annotated[int, typer.Option(help="Bits that may differ.", min=0, max=16)] = 3,
    memory: Annotated[
        str | None, typer.Option(help="What one machine may give to the index, like 8G. [default: no limit]")
    ] = None,
) -> None:
    """
    Print the layouts of the index for so many documents, the chosen one first, with what each would cost.

    Random fingerprints are assumed: real ones collide 2 to 2.5 times as often. What one machine cannot hold is dealt to
    several, on paper.
    """
    from worker.core.planner import plan as plan_layouts  # noqa: PLC0415

    count = _number(documents, "--documents")
    limit = None if memory is None else _number(memory, "--memory")
    try:
        plans = plan_layouts(count, distance, limit)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    typer.echo(f"{count:,} documents, distance {distance}; a query and its insertion, on one core:\n")
    typer.echo(_line([name for name, _ in HEADER]))
    for position, one in enumerate(plans):
        typer.echo(_line(["*" if position == 0 else "", *_cells(one)]))
    chosen = plans[0]
    alone = "one machine" if chosen.machines == 1 else f"{chosen.machines:,} machines, each with a range of prefixes"
    typer.echo(f"\n* chosen: {chosen.layout.name}, {_bytes(chosen.memory_bytes)} on {alone}")


def _cells(one: Plan) -> list[str]:
    bits = sorted({table.prefix_bits for table in one.layout.permutations})
    return [
        one.layout.name,
        str(len(one.layout.permutations)),
        str(bits[0]) if len(bits) == 1 else f"{bits[0]}-{bits[-1]}",
        f"{one.layout.probes:,}",
        f"{one.bytes_per_document:,.0f}",
        _bytes(one.memory_bytes),
        f"{one.machines:,}",
        f"{one.scanned:,.0f}",
        f"{one.candidates:,.3g}" if one.candidates < 100 else f"{one.candidates:,.0f}",
        f"{one.query_insert_ns / 1e3:,.2f}",
    ]


def _line(cells: list[str]) -> str:
    """Give the cells in columns: words to the left, numbers to the right."""
    widths = [width for _, width in HEADER]
    return "  ".join(
        cell.ljust(-width) if width < 0 else cell.rjust(width) for cell, width in zip(cells, widths, strict=True)
    ).rstrip()


def _number(text: str, option: str) -> int:
    """Read a count: 250000, 10M, 8G, 1e9, 2^34."""
    power = re.fullmatch(r"(\d{1,4})\^(\d{1,3})", text)
    if power:
        return int(pow(int(power[1]), int(power[2])))
    scaled = re.fullmatch(r"(\d+(?:\.\d+)?(?:e\d{1,2})?)([kmgt]?)b?", text.replace(",", "").lower())
    if not scaled:
        raise typer.BadParameter(f"{option} must be a count like 250000, 10M, 8G or 2^34, got {text!r}")
    return int(float(scaled[1]) * 1_000.0 ** POWERS[scaled[2]])


def _bytes(count: float) -> str:
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if count < 1_000 or unit == "TB":
            return f"{count:.3g} {unit}"
        count /= 1_000
    raise AssertionError
