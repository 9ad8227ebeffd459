"""
The frontier of directed search: `make bench-rules`.

For rules of several shapes: what a document costs and an original takes by the number of originals,
and how many copies are found. Costs are processor time of one thread, new documents with random
fingerprints, each judged and indexed: many a call, as an archive, a start from the log and a worker
that is behind have them, and as few as a record has. Then as many, half of which are exact copies,
as in a crawl: these are found before the search. With each stands the machine's load, since a busy
neighbour costs a judge that waits for memory up to half. Copies are the labelled corpus, words
replaced in parts of it, and articles that differ in blocks; the search is applied to each pair
alone, so that the size of an index does not matter. The sizes of `planner.SIZES` come from here.
Written to tests/benchmarks/results: rules.json, rules.md.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import NamedTuple

import numpy as np

from tests.benchmarks import accuracy_samples, common
from tests.benchmarks.common import CORPORA, Figures, labelled_corpus, table
from tests.benchmarks.index_data import random_signs
from tests.benchmarks.kept import keep, kept_results, machine
from worker.core.evaluation import finds, measure
from worker.core.fingerprint import Fingerprinter
from worker.core.index import SearchIndex
from worker.core.planner import TOGETHER_ROWS, size_of
from worker.core.search import SearchRules
from worker.core.sketch import SKETCH
from worker.settings import Settings

MILLION = 1_000_000
SIZES = (MILLION, 10 * MILLION, 30 * MILLION)
SHAPES = common.names(
    "4x16x32,4x16x64,3x18x96,3x19x128,3x20x128,3x21x128,6x20x64,10x20x24,10x26x32,10x26x64"
)
RECORD = 1_000  # rows of a call
LOADED_AT_ONCE = MILLION


class Trial(NamedTuple):
    """Calls of one kind."""

    rows: int  # of a call
    copies: float  # the share of them that are copies
    calls: int


NEW = Trial(TOGETHER_ROWS, 0.0, 5)
OF_A_RECORD = Trial(RECORD, 0.0, 20)
MIXED = Trial(TOGETHER_ROWS, 0.5, 5)
TRIALS = OF_A_RECORD, NEW, MIXED
ADDED = sum(trial.rows * trial.calls for trial in TRIALS)


class Cost(NamedTuple):
    """What rules cost at one number of originals."""

    rules: str
    originals: int
    us: float  # median of the calls of TOGETHER_ROWS
    least_us: float  # of the quickest of them
    record_us: float  # median of those of RECORD rows
    mixed_us: float  # median of those of TOGETHER_ROWS, half of them copies
    bytes_each: float
    load: float  # of the machine meanwhile

    @property
    def place(self) -> tuple[int, str]:
        """Where it stands in the table."""
        return self.originals, self.rules


class Found(NamedTuple):
    """What rules find: the share of the labelled copies, and the numbers of edited ones."""

    rules: str
    labelled: float
    edited: int
    in_blocks: int


class SameSketches:
    """
    A column of so many empty sketches, which share the memory of a million. Copies have empty
    sketches, too, so they are equal.
    """

    bits = 20
    first = 0
    step = SKETCH.itemsize

    def __init__(self, count: int) -> None:
        self._chunk = np.zeros((1 << self.bits, SKETCH.shape[0]), np.uint64)
        self.addresses = np.full((count >> self.bits) + 1, self._chunk.ctypes.data, np.int64)
        self._count = count

    def __len__(self) -> int:
        return self._count


def rules_of(text: str) -> SearchRules:
    """
    Read blocks, their bits, and patterns.

    >>> rules_of("6x20x48").patterns
    48
    """
    blocks, bits, patterns = map(int, text.split("x"))
    return SearchRules(blocks=blocks, block_bits=bits, patterns=patterns)


def text_of(rules: SearchRules) -> str:
    """
    Return the name of rules in the tables: what `rules_of` reads.

    >>> text_of(rules_of("6x20x48"))
    '6x20x48'
    """
    return f"{rules.blocks}x{rules.block_bits}x{rules.patterns}"


def cost(text: str, originals: int) -> Cost:
    """Load so many originals, then judge and index new ones, few and many a call."""
    rules = rules_of(text)
    index = SearchIndex(rules, originals, SameSketches(originals + ADDED))
    index.warm_up()
    for begin in range(0, originals, LOADED_AT_ONCE):
        count = min(LOADED_AT_ONCE, originals - begin)
        rows = np.arange(begin, begin + count, dtype=np.uint32)
        index.insert(*random_signs(count, begin + 7), rows)
    spent: dict[Trial, list[float]] = {}
    known = random_signs(min(LOADED_AT_ONCE, originals), 7)  # the first that were loaded
    for trial in TRIALS:
        size = trial.rows
        sketches = np.random.default_rng(1).integers(0, 2**64, (size, 8), dtype=np.uint64)
        copies = np.flatnonzero(np.random.default_rng(2).random(size) < trial.copies)
        sketches[copies] = 0
        spent[trial] = []
        for call in range(trial.calls):
            fingerprints, doubts = random_signs(size, len(index) + 3)
            chosen = (np.arange(len(copies)) + call * len(copies)) % len(known[0])
            fingerprints[copies] = known[0][chosen]
            doubts[copies] = known[1][chosen]
            before = time.thread_time()
            found = index.match_or_insert(fingerprints, doubts, sketches, len(index))
            spent[trial].append((time.thread_time() - before) / size * 1e6)
            assert found.new == size - len(copies)
    return Cost(
        rules=text,
        originals=originals,
        us=round(float(np.median(spent[NEW])), 2),
        least_us=round(min(spent[NEW]), 2),
        record_us=round(float(np.median(spent[OF_A_RECORD])), 2),
        mixed_us=round(float(np.median(spent[MIXED])), 2),
        bytes_each=round(index.nbytes / len(index), 1),
        load=round(os.getloadavg()[0], 1),
    )


def found_by(shapes: Sequence[str]) -> Iterator[Found]:
    """Yield what rules of each shape find."""
    settings = Settings()
    samples = [
        next(accuracy_samples.corpus_samples(CORPORA, settings)),
        accuracy_samples.edits(CORPORA, settings),
        accuracy_samples.blocks(CORPORA, settings),
    ]
    batches = [
        Fingerprinter().batch(sample.corpus.texts, sample.corpus.languages) for sample in samples
    ]
    # The patterns of a block are ordered alike for all numbers of them: each shape is measured once.
    for _, same_blocks in groupby(sorted(shapes), lambda text: text.rpartition("x")[0]):
        texts = list(same_blocks)
        measured = [
            measure(batch, sample.pairs, rules_of(texts[0]))
            for batch, sample in zip(batches, samples, strict=True)
        ]
        for text in texts:
            labelled, edited, in_blocks = (finds(one, rules_of(text)) for one in measured)
            share = float(labelled[samples[0].pairs.same].mean())
            yield Found(text, round(share, 4), int(edited.sum()), int(in_blocks.sum()))


def tables(costs: Sequence[Cost], found: Sequence[Found]) -> list[str]:
    """A table of what is found, and one of what it costs."""
    lines = ["### What is found", ""]
    lines += table(
        ("blocks x bits x patterns", "size", "labelled copies", "words replaced", "in blocks"),
        map(_found_cells, sorted(found, key=lambda one: -one.labelled)),
    )
    lines += ["### What a document costs", ""]
    return lines + table(
        (
            "originals",
            "rules",
            f"µs, {TOGETHER_ROWS:,} rows a call",
            "quickest call, µs",
            f"µs, {RECORD:,} rows a call",
            f"µs, {TOGETHER_ROWS:,} rows, half of them copies",
            "bytes each",
            "load",
        ),
        map(_cost_cells, costs),
    )


def _found_cells(found: Found) -> list[str]:
    size = size_of(rules_of(found.rules))
    name = size.name if size else ""
    return [
        found.rules,
        name,
        f"{found.labelled:.4f}",
        f"{found.edited:,}",
        str(found.in_blocks),
    ]


def _cost_cells(measured: Cost) -> list[str]:
    figures = (
        measured.us,
        measured.least_us,
        measured.record_us,
        measured.mixed_us,
    )
    return [
        f"{measured.originals:,}",
        measured.rules,
        *(f"{figure:.1f}" for figure in figures),
        f"{measured.bytes_each:.0f}",
        f"{measured.load:.1f}",
    ]


def main() -> None:
    """Measure, print, keep what there is after each trial."""
    parser = common.options(__doc__, "two shapes with 100,000 originals")
    parser.add_argument("--sizes", type=common.numbers, default=SIZES, help="100000000 takes 15 GB")
    parser.add_argument("--shapes", type=common.names, default=SHAPES)
    parser.add_argument("--add", action="store_true", help="to the trials that are kept")
    chosen = parser.parse_args()
    sizes = [100_000] if chosen.quick else chosen.sizes
    shapes = chosen.shapes[: 2 if chosen.quick else None]
    kept = kept_results("rules") if chosen.add else {}
    costs = {one.place: one for one in costs_of(kept)}
    found = {fields["rules"]: Found(**fields) for fields in kept.get("found", [])}
    if labelled_corpus("only costs are measured"):
        found |= {one.rules: one for one in found_by(shapes)}
    where = machine()
    for originals in sizes or [0]:
        for text in shapes if originals else []:
            costs[originals, text] = cost(text, originals)
            print(costs[originals, text], flush=True)
        ordered = [costs[place] for place in sorted(costs)]
        lines = tables(ordered, list(found.values()))
        figures: Figures = {
            "machine": where,
            "costs": [one._asdict() for one in ordered],
            "found": [one._asdict() for one in found.values()],
        }
        keep(chosen, "rules", figures, lines)
    print("", *lines, sep="\n")


def costs_of(kept: Figures) -> list[Cost]:
    """Return the costs that a run has kept."""
    return [Cost(**fields) for fields in kept.get("costs", [])]


if __name__ == "__main__":
    main()
