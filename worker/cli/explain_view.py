"""An explanation on the terminal: the verdict, the search with its bars, the bits, and the texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from worker.cli.columns import printable, terminal_width
from worker.cli.compare_view import condition_of, drawn_bits, show_texts
from worker.core.search import SearchRules, block_of, patterns
from worker.core.verdict import Verdict

if TYPE_CHECKING:
    from worker.core.compare import Comparison
    from worker.report.explanation import Explanation
    from worker.shell.messages import DeadLetter

SHINGLES = 8  # of each kind


def show(explanation: Explanation, compared: Comparison | None, search: SearchRules) -> None:
    """Write everything to the terminal; without colours into a pipe."""
    console = Console(highlight=False, soft_wrap=False, width=terminal_width())
    last = explanation.last
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in _facts(explanation):
        table.add_row(name, Text(printable(value)))
    console.print(table)
    console.print(Text(f"\n{printable(why(explanation, search))}\n"))
    other = explanation.other
    if not isinstance(last, Verdict) or last.fingerprint is None or other is None or other.fingerprint is None:
        return
    console.print(Text(f"A  {printable(other.url or other.doc_id)}\nB  {printable(last.url or last.doc_id)}\n"))
    values = other.fingerprint, last.fingerprint
    doubts = None
    if compared is not None:
        doubts = compared.fingerprints[0].doubts, compared.fingerprints[1].doubts
    for line in drawn_bits(values, 64, console.width, doubts):
        console.print(line)
    console.print()
    if compared is None:
        console.print(Text("--documents shows doubts, shingles and the diff: the texts of both were not found."))
        return
    if tuple(made.value for made in compared.fingerprints) != values:
        console.print(Text("The texts at hand have other fingerprints: other parameters, or another version.\n"))
    else:
        console.print(Text(f"{_search(compared, search)}\n"))
    show_texts(console, compared, SHINGLES)


def _facts(explanation: Explanation) -> list[tuple[str, str]]:
    from worker.report.explanation import when  # noqa: PLC0415

    last = explanation.last
    if not isinstance(last, Verdict):
        return [("doc_id", last.doc_id or ""), ("dead letter", last.code), ("source", _source(last))]
    facts = [("doc_id", last.doc_id)]
    facts += [("url", last.url)] if last.url is not None else []
    facts += [("captured", when(last.fetched_at_ms))] if last.fetched_at_ms is not None else []
    told = f"{last.outcome.value}, {last.reason}" if last.reason else last.outcome.value
    facts.append(("verdict", f"{told}, decided at {when(last.decided_at_ms)}"))
    if last.duplicate_of is not None:
        original = last.duplicate_of.original
        facts.append(("original", f"{original.doc_id}, captured {when(original.fetched_at_ms)}"))
        facts.append(("its url", f"{original.url}{' (the same)' if last.duplicate_of.same_url else ''}"))
    if last.former_version is not None:
        former = last.former_version
        facts.append(("former version", f"{former.original.doc_id}, changed: {former.changed.value}"))
    record = f"record {last.log_offset:,}, with {last.index_documents:,} originals in the index"
    if explanation.other is not None:
        record += f"; {'the original' if last.duplicate_of else 'the nearest'} is in {explanation.other.log_offset:,}"
    facts += [("log", record), ("source", _source(last))]
    if len(explanation.answers) > 1:
        facts.append(("answers", f"{len(explanation.answers):,}; the last is explained"))
    return facts


def _source(answer: Verdict | DeadLetter) -> str:
    return f"{answer.source_topic}[{answer.source_partition}] at {answer.source_offset:,}"


def why(explanation: Explanation, search: SearchRules) -> str:
    """Say in a sentence or two why the verdict is what it is."""
    last = explanation.last
    if not isinstance(last, Verdict):
        return f"It could not be judged: {last.text}"
    if last.duplicate_of is not None:
        return _why_duplicate(last, search)
    if last.fingerprint is None:
        return {
            "skipped": f"There is nothing in it to compare: {last.reason}.",
            "deleted": f"A null value came for its doc_id: {last.reason}.",
        }[last.outcome.value]
    if last.reason == "redelivered":
        return "The same document came again: it is the original that it was."
    other = explanation.other
    if other is None or other.fingerprint is None:
        return "No original was before it."
    distance = (last.fingerprint ^ other.fingerprint).bit_count()
    return (
        f"Nothing before it is near enough ({search.text}). The nearest of {explanation.originals:,} originals differs "
        f"in {distance} of 64 bits."
    )


def _why_duplicate(last: Verdict, search: SearchRules) -> str:
    match = last.duplicate_of
    assert match is not None
    if match.found_by.value == "text":
        return "Both have so few tokens that only equal texts match, and these are equal."
    told = f"Both have the same tokens in the same order; {match.distance} of 64 bits differ."
    if match.kind.value == "near":
        told = f"{match.distance} of 64 bits differ (at most {search.max_distance})."
    return f"{told} Similarity {match.similarity:.3f}, {search.similarity_min / 1_000:.3f} wanted."


def found_in(search: SearchRules, fingerprint: int, doubts: int, original: int) -> list[tuple[int, int]]:
    """
    Return by which look-ups a directed search comes to an original: block, and how many bits were turned for it.

    >>> found_in(SearchRules(), 0b11, 0b01, 0b10)
    [(0, 1), (1, 0), (2, 0), (3, 0)]
    """
    found = []
    for number, runs in enumerate(search.runs):
        turned = block_of(fingerprint, runs) ^ block_of(original, runs)
        if turned in patterns(block_of(doubts, runs), sum(width for _, width in runs), search.patterns):
            found.append((number, turned.bit_count()))
    return found


def _search(compared: Comparison, search: SearchRules) -> str:
    """Say how the search comes from B to A, or which condition fails."""
    original, own = compared.fingerprints
    told = condition_of(compared, search)
    if search.mode == "exact":
        return told
    ways = found_in(search, own.value, own.doubts, original.value)
    parts = [f"block {number + 1}" + (f", {bits} of its bits turned" if bits else " as it is") for number, bits in ways]
    return (
        f"{told}\nOf {len(search.runs)} blocks (the first is the lowest) {len(ways)} lead from B to A"
        f"{': ' if parts else ''}{'; '.join(parts)}. {(original.doubts | own.doubts).bit_count()} bits are doubtful in "
        f"one or both."
    )
