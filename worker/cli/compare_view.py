"""A comparison on the terminal: the bits as labelled blocks, measures, shingles, and a coloured diff."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.cli.columns import printable, terminal_width
from worker.core.definition import Kind
from worker.core.search import Document, Original, SearchRules, best, condition

if TYPE_CHECKING:
    from worker.core.compare import Comparison

BLOCK_BITS = 16
CONTEXT_TOKENS = 6  # shown on either side of a change
STEPS_SHOWN_MAX = 400  # a longer diff is no longer read


def show(found: Comparison, names: tuple[str, str], shingles: int, search: SearchRules) -> None:
    """Write everything to the terminal; without colours into a pipe."""
    console = Console(highlight=False, soft_wrap=False, width=terminal_width())
    for label, name, made, count in zip("AB", names, found.fingerprints, found.tokens, strict=True):
        told = f"{count:,} tokens, {made.features:,} shingles, {made.kind.name}"
        console.print(Text(printable(f"{label}  {name}: {told}")))
    console.print()
    values = found.fingerprints[0].value, found.fingerprints[1].value
    for line in drawn_bits(values, found.bits, console.width):
        console.print(line)
    console.print(Text(f"\n{found.distance} of {found.bits} bits differ: {condition_of(found, search)}"))
    console.print(Text(f"{search.text}\n"))
    show_texts(console, found, shingles)


def show_texts(console: Console, found: Comparison, shingles: int) -> None:
    """Write what two texts share: measures, shingles of each kind, the heaviest first, and the diff."""
    console.print(_measures(found))
    if shingles:
        console.print(_shingles(found, shingles))
    console.print(_diff(found))
    seen, tokens = found.subsequence_tokens, found.tokens
    if seen != tokens:
        console.print(Text(f"the diff saw {seen[0]:,} of {tokens[0]:,} and {seen[1]:,} of {tokens[1]:,} tokens"))


def condition_of(found: Comparison, search: SearchRules) -> str:
    """Say what a worker makes of B when A is an original, and which condition fails where one does."""
    kinds = {made.kind for made in found.fingerprints}
    if Kind.EMPTY in kinds:
        return "a worker skips what has nothing to compare"
    if Kind.SHORT in kinds:
        return "so few tokens match only their equals" + (", as here" if found.similarity else "")
    original, copy = found.fingerprints
    one = Document(copy.value, copy.doubts, copy.sketch)
    other = Original(0, original.value, original.doubts, original.sketch)
    told = "no duplicate" if best(search, one, [other]) is None else "a duplicate"
    return f"{told}, {condition(search, one, other)}"


def drawn_bits(values: tuple[int, int], bits: int, width: int, doubts: tuple[int, int] | None = None) -> list[Text]:
    """
    Draw two fingerprints in blocks, the highest bit first, and mark what differs; more lines if narrow.

    Args:
        doubts: the doubtful bits of each; a line of question marks below it, if they are known.
    """
    rows = [f"{value:0{bits}b}" for value in values]
    lines = [("A", rows[0]), ("B", rows[1])]
    if doubts is not None:
        marks = [f"{value:0{bits}b}".translate({48: ".", 49: "?"}) for value in doubts]
        lines = [lines[0], ("doubts", marks[0]), lines[1], ("doubts", marks[1])]
    lines.append(("differ", "".join(".x"[left != right] for left, right in zip(*rows, strict=True))))
    blocks = max(1, (width - 7) // (BLOCK_BITS + 1))  # in a line
    starts = range(0, bits, BLOCK_BITS)
    styles = {"differ": "bold red", "doubts": "dim"}
    return [
        Text(
            f"{label:8}" + " ".join(row[at : at + BLOCK_BITS] for at in starts[begin : begin + blocks]),
            style=styles.get(label, ""),
        )
        for begin in range(0, len(starts), blocks)
        for label, row in lines
    ]


def _measures(found: Comparison) -> Table:
    table = Table("measure", "value", box=None, pad_edge=False)
    for name, value in (
        ("similarity, estimated from the sketches", found.similarity),
        ("Jaccard of words", found.jaccard_words),
        ("Jaccard of shingles", found.jaccard_shingles),
    ):
        table.add_row(name, f"{value:.3f}")
    bound = "" if found.subsequence_tokens == found.tokens else "at least "
    table.add_row("longest common subsequence / longer text", f"{bound}{found.subsequence:.3f}")
    return table


def _shingles(found: Comparison, count: int) -> Table:
    table = Table("shared", "only A", "only B", title="shingles (weights)", title_justify="left", box=None)
    columns = [[f"{one.shingle} ({one.weights[0]}, {one.weights[1]})" for one in found.shared[:count]]]
    columns += [[f"{one.shingle} ({one.weight})" for one in only[:count]] for only in found.only]
    for column, total in zip(columns, (len(found.shared), *map(len, found.only)), strict=True):
        if total > count:
            column.append(f"… {total - count:,} more")
    for row in range(max(map(len, columns))):
        table.add_row(*(Text(column[row]) if row < len(column) else Text() for column in columns))
    return table


def _diff(found: Comparison) -> Text:
    """Strike out in red what A has alone, show in green what B has alone, and shorten long equal runs."""
    if all(step.kind == "equal" for step in found.steps):
        return Text("token for token the same", style="green")
    return Text(" ").join(_pieces(found))


def _pieces(found: Comparison) -> Iterator[Text]:
    last = len(found.steps) - 1
    for number, (kind, tokens) in enumerate(found.steps):
        if number == STEPS_SHOWN_MAX:
            yield Text(f"… and {len(found.steps) - number:,} runs more", style="dim")
            return
        if kind == "removed":
            yield Text(f"[-{' '.join(tokens)}-]", style="red strike")
        elif kind == "added":
            yield Text("{+" + " ".join(tokens) + "+}", style="green")
        else:
            head = tokens[:CONTEXT_TOKENS] if number else []
            tail = tokens[-CONTEXT_TOKENS:] if number != last else []
            whole = len(tokens) <= len(head) + len(tail)
            yield Text(" ".join(tokens if whole else [*head, "…", *tail]), style="dim")
