"""
How many near-duplicates are found, and how many pairs are taken for such, beside the peers: `make bench-accuracy`.

Two truths: the labelled corpus (skipped where it is absent) and a generated crawl. Ours are the defaults, exact
searches, and the defaults of before; texts of pages are extracted by us for everybody. Peers run in an environment of
their own; one that is absent is told as such. Written to tests/benchmarks/results: accuracy.json, .md, .png.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks.accuracy.contenders import CONTENDERS
from tests.benchmarks.accuracy.pairs import Sample, corpus_samples, crawl_samples
from tests.benchmarks.accuracy.report import plot, table
from tests.benchmarks.machine import RESULTS, machine
from tests.conftest import REPOSITORY
from worker.core.evaluation import Scores, groups, judge, measure, score
from worker.core.fingerprint import Fingerprinter
from worker.core.parameters import Parameters
from worker.core.search import SearchRules
from worker.settings import Settings

__all__ = ["main", "ours"]

BEFORE = "log, k = 3 (before)"
OURS = {
    "defaults": (Parameters(), SearchRules()),
    "exact, k = 3": (Parameters(), SearchRules("exact", 3)),
    "exact, k = 6": (Parameters(), SearchRules("exact", 6)),
    BEFORE: (Parameters(term_frequency="log"), SearchRules("exact", 3)),
}
TRIAL_S_MAX = 900.0


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=3_000, help="of the generated crawl")
    parser.add_argument("--seed", type=int, default=1, help="of the generated crawl")
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that has the peers")
    parser.add_argument("--no-save", action="store_true", help="leave the kept results as they are")
    options = parser.parse_args()
    found: dict[str, dict[str, Scores]] = {}
    for same_corpus in _samples(options.documents, options.seed):
        for sample, methods in _judged(same_corpus, options.peers_python):
            of_group = groups(sample.pairs, len(sample.corpus.doc_ids))
            found[sample.name] = {name: score(one, sample.pairs.same, of_group) for name, one in methods.items()}
    text = table(found)
    print(f"\n{text}")
    if options.no_save:
        return
    where = machine()
    RESULTS.mkdir(exist_ok=True)
    kept = {"machine": where, "options": {"documents": options.documents, "seed": options.seed}, "scores": found}
    (RESULTS / "accuracy.json").write_text(json.dumps(kept, ensure_ascii=False) + "\n")
    told = ", ".join(f"{name} {value}" for name, value in where.items())
    (RESULTS / "accuracy.md").write_text(f"Pairs found. {told}.\n\n{text}")
    plot(found, RESULTS / "accuracy.png")


def ours(sample: Sample) -> dict[str, Any]:
    """What each of OURS says of the pairs."""
    found = {}
    for name, (parameters, rules) in OURS.items():
        batch = Fingerprinter(parameters).batch(sample.corpus.texts, sample.corpus.languages)
        found[f"neardup, {name}"] = judge(measure(batch, sample.pairs, rules), rules).found
    return found


def _judged(samples: list[Sample], peers_python: str) -> Iterator[tuple[Sample, dict[str, Any]]]:
    """Each sample with what everybody says of its pairs; all are of one corpus, whose peers are asked once."""
    whole = samples[0]
    methods = ours(whole)
    pairs = np.stack([whole.pairs.first, whole.pairs.second], axis=1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "pairs.json"
        path.write_text(json.dumps({"texts": whole.corpus.texts, "pairs": pairs.tolist()}), encoding="utf-8")
        for name in CONTENDERS:
            told = _ask(name, peers_python, path)
            print(f"{whole.name:28} {name:12} {told.get('left_out') or told['version']}", flush=True)
            methods |= {method: np.array(found, np.bool_) for method, found in told.get("found", {}).items()}
    place = {tuple(pair): row for row, pair in enumerate(pairs.tolist())}
    for sample in samples:
        rows = [place[pair] for pair in zip(sample.pairs.first.tolist(), sample.pairs.second.tolist(), strict=True)]
        yield sample, {name: found[rows] for name, found in methods.items()}


def _ask(name: str, python: str, path: Path) -> dict[str, Any]:
    command = [python, "-m", "tests.benchmarks.accuracy.contenders", name, str(path)]
    try:
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=TRIAL_S_MAX, check=False)
    except (subprocess.TimeoutExpired, FileNotFoundError) as error:
        return {"left_out": f"absent: {error}"}
    if done.returncode != 0 or not done.stdout:
        return {"left_out": f"failed: {(done.stderr.splitlines() or ['without a word'])[-1][:120]}"}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _samples(documents: int, seed: int) -> Iterator[list[Sample]]:
    settings = Settings()
    folder = Path(os.environ.get("NEARDUP_CORPORA", REPOSITORY.parent / "shared" / "corpora"))
    if (folder / "pairs.tsv").is_file():
        yield list(corpus_samples(folder, settings))
    else:
        print(f"no labelled corpus at {folder} (set NEARDUP_CORPORA): the generated crawl alone")
    yield list(crawl_samples(documents, seed, settings))


if __name__ == "__main__":
    main()
