"""
Two documents side by side, as `neardup explain` and `neardup compare` show them.

It is one page: how much of each is compared, both fingerprints as bits with their doubts, whether B
is a duplicate if A is an original and by which blocks the search gets from B to A, measures,
shingles, and a diff. As JSON it is one object.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.cli.shared import printable
from worker.core.definition import Kind
from worker.core.search import (
    SearchedDocument,
    SearchedOriginal,
    SearchRules,
    best,
    block_of,
    condition,
    patterns,
)

if TYPE_CHECKING:
    from worker.core.compare import Comparison, Step
    from worker.core.pages import PageAccount

BLOCK_BITS = 16
CONTEXT_TOKENS = 6  # shown on either side of a change
STEPS_SHOWN_MAX = 400  # a longer diff is no longer read
# What is said of a text that is not compared by its shingles.
_OF_KINDS = {
    Kind.FULL: "",
    Kind.SHORT: "; short: only an equal text matches",
    Kind.EMPTY: "; empty",
}

ShinglesOption = Annotated[
    int, typer.Option(help="How many shingles of each kind to show, the heaviest first.", min=0)
]
SHINGLES_DEFAULT = 8


class Compared(NamedTuple):
    """Two documents side by side, and what was left out of each; None for what is no page."""

    texts: Comparison
    accounts: tuple[PageAccount | None, PageAccount | None]
    # `marks.page_mark` of each; 0 where no URL is known.
    marks: tuple[int, int] = (0, 0)
    # Of the originals that the search compares with B, in thousandths, the greatest first; none
    # where only the two are looked at.
    similarities: tuple[int, ...] = ()

    @property
    def fingerprints(self) -> tuple[int, int]:
        """Those of the two texts."""
        original, own = self.texts.fingerprints
        return original.value, own.value


def _account_fields(account: PageAccount | None) -> dict[str, Any] | None:
    if account is None:
        return None
    return {name: getattr(account, name) for name in ("region", "kept", "left_out")}


def comparison_fields(compared: Compared) -> dict[str, Any]:
    found = compared.texts
    digits = found.bits // 4
    spread = found.spread
    documents = [
        {
            "fingerprint": f"{made.value:0{digits}x}",
            "kind": made.kind.name.lower(),
            "features": made.features,
            "tokens": tokens,
            "page": _account_fields(account),
            "only": [
                {
                    name: getattr(one, name)
                    for name in ("shingle", "weight", "anchored", "occurrences")
                }
                for one in only
            ],
        }
        for made, tokens, only, account in zip(
            found.fingerprints, found.tokens, found.only, compared.accounts, strict=True
        )
    ]
    measures = (
        "distance",
        "similarity",
        "jaccard_words",
        "jaccard_shingles",
        "subsequence",
        "subsequence_tokens",
    )
    return {
        "documents": documents,
        "differing_bits": [bit for bit in range(found.bits) if found.differing >> bit & 1],
        **{name: getattr(found, name) for name in measures},
        "spread": {
            "kind": spread.kind,
            "text": spread.text,
            "shared": spread.shared,
            "passages": [place._asdict() for place in spread.passages],
            "scattered": len(spread.scattered),
        },
        "shared": [
            {"shingle": one.shingle, "weights": [one.weight, other.weight]}
            for one, other in found.shared
        ],
        "steps": [{"kind": step.kind, "tokens": step.tokens} for step in found.steps],
    }


def show_side_by_side(
    console: Console, compared: Compared, names: tuple[str, str], search: SearchRules, shingles: int
) -> None:
    """Write the page of two documents, A and B, with so many shingles of each kind."""
    found = compared.texts
    for label, name, made, count in zip("AB", names, found.fingerprints, found.tokens, strict=True):
        told = f"{count:,} tokens, {made.features:,} shingles{_OF_KINDS[made.kind]}"
        console.print(Text(printable(f"{label}  {name}: {told}")))
    for label, account in zip("AB", compared.accounts, strict=True):
        if account is not None:
            console.print(Text(f"{label}  {account.text}"))
    console.print()
    original, own = found.fingerprints
    show_bits(console, compared.fingerprints, found.bits, (original.doubts, own.doubts))
    console.print(
        Text(f"{found.distance} of {found.bits} bits differ: {_condition(compared, search)}")
    )
    console.print(Text(f"Rules: {search.text}"))
    if search.mode != "exact" and original.kind is own.kind is Kind.FULL:
        console.print(Text(_ways(compared, search)))
    console.print()
    _show_texts(console, found, shingles)


def show_bits(
    console: Console,
    values: tuple[int, int],
    bits: int,
    doubts: tuple[int, int] | None = None,
) -> None:
    """Write the drawing of two fingerprints, and a blank line below it."""
    for line in _drawn_bits(values, bits, console.width, doubts):
        console.print(line)
    console.print()


def _show_texts(console: Console, found: Comparison, shingles: int) -> None:
    """
    Write how two texts differ: in words, by their measures, by shingles of each kind (the heaviest
    first), and as a diff.
    """
    spread = found.spread
    if spread.kind != "equal":  # the diff says that they are equal
        console.print(Text(f"B {spread.text}\n"))
    seen = found.subsequence_tokens
    tokens = found.tokens
    table = Table("measure", "value", box=None, pad_edge=False)
    table.add_row("similarity, estimated from the sketches", f"{found.similarity:.3f}")
    table.add_row("Jaccard of words", f"{found.jaccard_words:.3f}")
    table.add_row("Jaccard of shingles", f"{found.jaccard_shingles:.3f}")
    bound = "" if seen == tokens else "at least "
    table.add_row("longest common subsequence / longer text", f"{bound}{found.subsequence:.3f}")
    console.print(table)
    if shingles:
        console.print(_shingles(found, shingles))
    console.print(Text(" ").join(_diff(found)))
    if seen != tokens:
        console.print(
            Text(
                f"the diff saw {seen[0]:,} of {tokens[0]:,} and {seen[1]:,} of {tokens[1]:,} tokens"
            )
        )


def _condition(compared: Compared, search: SearchRules) -> str:
    """
    Say whether B is a duplicate if A is an original, and if not, which condition fails.
    """
    found = compared.texts
    kinds = {made.kind for made in found.fingerprints}
    if Kind.EMPTY in kinds:
        return "a worker skips what has nothing to compare"
    if Kind.SHORT in kinds:
        return "so few tokens match only their equals" + (", as here" if found.similarity else "")
    original, copy = found.fingerprints
    first, second = compared.marks
    one = SearchedDocument(copy.value, copy.doubts, copy.sketch, second)
    other = SearchedOriginal(0, original.value, original.doubts, original.sketch, first)
    told = "no duplicate" if best(search, one, [other]) is None else "a duplicate"
    return f"{told}, {condition(search, one, other)}"


def _ways(compared: Compared, search: SearchRules) -> str:
    """Say by which blocks the search gets from B to A, and how many bits are doubtful."""
    original, own = compared.texts.fingerprints
    ways = []
    for number, runs in enumerate(search.runs, start=1):
        turned = block_of(own.value, runs) ^ block_of(original.value, runs)
        if turned in patterns(
            block_of(own.doubts, runs), sum(width for _, width in runs), search.patterns
        ):
            bits = turned.bit_count()
            ways.append(
                f"block {number} "
                + (f"with {bits} bit{'s' * (bits > 1)} flipped" if bits else "as it is")
            )
    found = (
        f"The search gets from B to A through {len(ways) or 'none'} of {len(search.runs)} blocks"
    )
    if ways:
        found += f" (block 1 has the lowest bits): {'; '.join(ways)}"
    doubtful = (original.doubts | own.doubts).bit_count()
    return f"{found}. {doubtful} bits are doubtful in one or both."


def _drawn_bits(
    values: tuple[int, int], bits: int, width: int, doubts: tuple[int, int] | None = None
) -> list[Text]:
    """
    Draw two fingerprints in blocks, the highest bit first.

    Bits that differ are marked, and doubtful ones have a "?" below.
    """
    rows = [f"{value:0{bits}b}" for value in values]
    lines = [("A", rows[0]), ("B", rows[1])]
    if doubts is not None:
        marks = [f"{value:0{bits}b}".translate({48: ".", 49: "?"}) for value in doubts]
        lines = [lines[0], ("doubts", marks[0]), lines[1], ("doubts", marks[1])]
    lines.append(
        ("differ", "".join(".x"[left != right] for left, right in zip(*rows, strict=True)))
    )
    blocks = max(1, (width - 7) // (BLOCK_BITS + 1))  # in a line
    starts = range(0, bits, BLOCK_BITS)
    styles = {"differ": "bold red", "doubts": "dim"}
    return [
        Text(
            f"{label:8}"
            + " ".join(row[at : at + BLOCK_BITS] for at in starts[begin : begin + blocks]),
            style=styles.get(label, ""),
        )
        for begin in range(0, len(starts), blocks)
        for label, row in lines
    ]


def _shingles(found: Comparison, count: int) -> Table:
    table = Table(
        "shared", "only A", "only B", title="shingles (weights)", title_justify="left", box=None
    )
    columns = [
        [f"{one.shingle} ({one.weight}, {other.weight})" for one, other in found.shared[:count]]
    ]
    columns += [[f"{one.shingle} ({one.weight})" for one in only[:count]] for only in found.only]
    for column, total in zip(columns, (len(found.shared), *map(len, found.only)), strict=True):
        if total > count:
            column.append(f"… {total - count:,} more")
    for row in zip_longest(*columns, fillvalue=""):
        table.add_row(*map(Text, row))
    return table


def _diff(found: Comparison) -> Iterator[Text]:
    if all(step.kind == "equal" for step in found.steps):
        yield Text("token for token the same", style="green")
        return
    yield from shown_steps(found.steps, CONTEXT_TOKENS)


def shown_steps(steps: Sequence[Step], context: int) -> Iterator[Text]:
    """
    Strike out in red what A has alone, show in green what B has alone, and of long equal runs only
    so many tokens on either side of a change.
    """
    last = len(steps) - 1
    for number, step in enumerate(steps):
        kind = step.kind
        tokens = step.tokens
        if number == STEPS_SHOWN_MAX:
            yield Text(f"… and {len(steps) - number:,} runs more", style="dim")
            return
        if kind == "removed":
            yield Text(f"[-{' '.join(tokens)}-]", style="red strike")
        elif kind == "added":
            yield Text("{+" + " ".join(tokens) + "+}", style="green")
        else:
            head = tokens[:context] if number else []
            tail = tokens[-context:] if number != last else []
            whole = len(tokens) <= len(head) + len(tail)
            yield Text(" ".join(tokens if whole else [*head, "…", *tail]), style="dim")
