"""
How many near-duplicates are found, and how many pairs are taken for such, by Hamming distance: `make bench-accuracy`.

Two truths: the labelled corpus (skipped where it is absent) and a generated crawl. The parameters are the defaults and
variants of width, weights, term frequency and of whose function words anchor. Written to tests/benchmarks/results:
accuracy.json, accuracy.md, accuracy.png.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.benchmarks.accuracy.measure import Curve, curves, unrelated_by_language, variants
from tests.benchmarks.accuracy.pairs import Sample, corpus_samples, crawl_samples
from tests.benchmarks.accuracy.report import languages_table, plot, table
from tests.benchmarks.machine import RESULTS, machine
from tests.conftest import REPOSITORY

__all__ = ["main"]

PLOTTED = (
    "w=2, 3:1, log, elected",
    "w=2, 3:1, log, union",
    "w=2, all equal, log",
    "w=2, anchored only, tf",
    "w=3, 3:1, log",
)


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=6_000, help="of the generated crawl")
    parser.add_argument("--seed", type=int, default=1, help="of the generated crawl")
    parser.add_argument("--no-save", action="store_true", help="leave the kept results as they are")
    options = parser.parse_args()
    samples = _samples(options.documents, options.seed)
    found: list[Curve] = []
    for variant in variants():
        begun = time.perf_counter()
        found += curves(variant, samples)
        print(f"{variant.name:32} {time.perf_counter() - begun:6.1f} s", flush=True)
    unrelated = unrelated_by_language(variants()[0], samples[-1])
    text = f"{table(found)}\n{languages_table(unrelated)}"
    print(f"\n{text}")
    if options.no_save:
        return
    where = machine()
    RESULTS.mkdir(exist_ok=True)
    kept: dict[str, Any] = {"machine": where, "options": {"documents": options.documents, "seed": options.seed}}
    kept |= {"curves": [asdict(curve) for curve in found], "unrelated_by_language": unrelated}
    (RESULTS / "accuracy.json").write_text(json.dumps(kept) + "\n")
    told = ", ".join(f"{name} {value}" for name, value in where.items())
    (RESULTS / "accuracy.md").write_text(f"Recall / false positives within distance k. {told}.\n\n{text}")
    plot(found, PLOTTED, RESULTS / "accuracy.png")


def _samples(documents: int, seed: int) -> list[Sample]:
    folder = Path(os.environ.get("NEARDUP_CORPORA", REPOSITORY.parent / "shared" / "corpora"))
    samples: list[Sample] = []
    if (folder / "pairs.tsv").is_file():
        samples += corpus_samples(folder)
    else:
        print(f"no labelled corpus at {folder} (set NEARDUP_CORPORA): the generated crawl alone")
    samples += crawl_samples(documents, seed)
    for sample in samples:
        print(f"{sample.name:32} {len(sample.of.texts):7,} texts {len(sample.same):7,} same {len(sample.other):9,} not")
    return samples


if __name__ == "__main__":
    main()
