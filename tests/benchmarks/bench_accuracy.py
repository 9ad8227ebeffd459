"""
How many near-duplicates are found, and how many pairs are taken for such, beside the peers: `make bench-accuracy`.

Two truths: the labelled corpus (skipped where it is absent) and a generated crawl. Then what is hard: pairs that look
alike and are no copies, streams of templates' pages, and what is found of parts with words replaced, by likeness and
length. Ours are the defaults, other thresholds, exact searches, and the defaults of before; texts of pages are
extracted by us for everybody. Peers run in an environment of their own; one that is absent is told as such. Written to
tests/benchmarks/results: accuracy.json, .md, .png, accuracy_parts.png.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.accuracy.contenders import CONTENDERS
from tests.benchmarks.accuracy.hard import edits, merged, others, templates
from tests.benchmarks.accuracy.pairs import Sample, corpus_samples, crawl_samples, plain_sample
from tests.benchmarks.accuracy.report import edits_table, hard_table, plot, plot_edits, table
from tests.benchmarks.machine import RESULTS, machine
from tests.conftest import REPOSITORY
from worker.core.evaluation import Scores, finds, groups, leaders, measure, score
from worker.core.fingerprint import Fingerprinter
from worker.core.search import SearchRules
from worker.settings import Settings

OURS = {
    "defaults": SearchRules(),
    "similarity ≥ .65": SearchRules(similarity_min=650),
    "similarity ≥ .50": SearchRules(similarity_min=500),
    "unconfirmed (before)": SearchRules(max_distance=12, patterns=16, look_min=800, similarity_min=0),
    "exact, k = 3": SearchRules("exact", 3),
    "exact, k = 6": SearchRules("exact", 6),
}
TRIAL_S_MAX = 900.0
Found = dict[str, NDArray[np.bool_]]  # by method


def main() -> None:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--documents", type=int, default=3_000, help="of the generated crawl")
    parser.add_argument("--seed", type=int, default=1, help="of the generated crawl")
    parser.add_argument("--peers-python", default=sys.executable, help="interpreter that has the peers")
    parser.add_argument("--no-save", action="store_true", help="leave the kept results as they are")
    options = parser.parse_args()
    found: dict[str, dict[str, Scores]] = {}
    folder = _corpora()
    for same_corpus in _samples(folder, options.documents, options.seed):
        for sample, methods in _judged(same_corpus, options.peers_python):
            of_group = groups(sample.pairs, len(sample.corpus.doc_ids))
            found[sample.name] = {name: score(one, sample.pairs.same, of_group) for name, one in methods.items()}
    hard, parts = _hard(folder, options.peers_python)
    text = "\n".join([table(found), hard_table(hard), edits_table(parts) if parts else ""])
    print(f"\n{text}")
    if options.no_save:
        return
    where = machine()
    RESULTS.mkdir(exist_ok=True)
    kept = {"machine": where, "options": {"documents": options.documents, "seed": options.seed}, "scores": found}
    kept |= {"hard": hard, "parts": parts}
    (RESULTS / "accuracy.json").write_text(json.dumps(kept, ensure_ascii=False) + "\n")
    told = ", ".join(f"{name} {value}" for name, value in where.items())
    (RESULTS / "accuracy.md").write_text(f"Pairs found. {told}.\n\n{text}")
    plot(found, RESULTS / "accuracy.png")
    if parts:
        plot_edits(parts, RESULTS / "accuracy_parts.png")


def ours(sample: Sample, streams: bool = False) -> Found:
    """What each of OURS says of the pairs; of a stream, which documents it calls duplicates."""
    found: Found = {}
    batch = Fingerprinter().batch(sample.corpus.texts, sample.corpus.languages)
    for name, rules in OURS.items():
        found[f"neardup, {name}"] = (
            leaders(batch, rules) >= 0 if streams else finds(measure(batch, sample.pairs, rules), rules)
        )
    return found


def _hard(folder: Path | None, peers_python: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Shares found of what is hard: kind -> (number, method -> share); of parts, by method and "length point"."""
    stream = templates()
    peers = _peers(stream, peers_python).items()
    told = ours(stream, streams=True)
    told |= {name: merged(stream.pairs, found, len(stream.corpus.texts)) for name, found in peers}
    kind_of = dict(zip(stream.pairs.second.tolist(), stream.pairs.kinds, strict=True))  # all but a stream's first page
    hard = _shares([kind_of.get(page, "") for page in range(len(stream.corpus.texts))], told)
    if folder is None:
        return hard, {}
    pairs, parts = others(folder, Settings()), edits(folder, Settings())
    hard = _shares(pairs.pairs.kinds, ours(pairs) | _peers(pairs, peers_python)) | hard
    return hard, _shares(parts.pairs.kinds, ours(parts) | _peers(parts, peers_python))


def _shares(kinds: Sequence[str], told: Found) -> dict[str, Any]:
    """Return for each kind that has a name how many there are, and the share of them that each method found."""
    rows = {kind: np.array([one == kind for one in kinds], np.bool_) for kind in dict.fromkeys(kinds) if kind}
    return {
        kind: (int(mine.sum()), {name: float(found[mine].mean()) for name, found in told.items()})
        for kind, mine in rows.items()
    }


def _judged(samples: list[Sample], peers_python: str) -> Iterator[tuple[Sample, Found]]:
    """Each sample with what everybody says of its pairs; all are of one corpus, whose peers are asked once."""
    whole = samples[0]
    methods = ours(whole) | _peers(whole, peers_python)
    pairs = zip(whole.pairs.first.tolist(), whole.pairs.second.tolist(), strict=True)
    place = {pair: row for row, pair in enumerate(pairs)}
    for sample in samples:
        rows = [place[pair] for pair in zip(sample.pairs.first.tolist(), sample.pairs.second.tolist(), strict=True)]
        yield sample, {name: found[rows] for name, found in methods.items()}


def _peers(sample: Sample, python: str) -> Found:
    """What each peer says of the pairs, by method."""
    methods: Found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "texts.json").write_text(json.dumps(sample.corpus.texts), encoding="utf-8")
        np.save(folder / "pairs.npy", np.stack([sample.pairs.first, sample.pairs.second], axis=1))
        for peer in CONTENDERS:
            told = _ask(peer, python, folder)
            print(f"{sample.name:28} {peer:12} {told.get('left_out') or told['version']}", flush=True)
            if "methods" in told:
                methods |= zip(told["methods"], np.load(folder / "found.npy"), strict=True)
    return methods


def _ask(name: str, python: str, folder: Path) -> dict[str, Any]:
    command = [python, "-m", "tests.benchmarks.accuracy.contenders", name, str(folder)]
    try:
        done = subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=TRIAL_S_MAX, check=False)
    except (subprocess.TimeoutExpired, FileNotFoundError) as error:
        return {"left_out": f"absent: {error}"}
    if done.returncode != 0 or not done.stdout:
        return {"left_out": f"failed: {(done.stderr.splitlines() or ['without a word'])[-1][:120]}"}
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def _samples(folder: Path | None, documents: int, seed: int) -> Iterator[list[Sample]]:
    settings = Settings()
    if folder is not None:
        yield list(corpus_samples(folder, settings))
        yield [plain_sample(folder, settings)]
    yield list(crawl_samples(documents, seed, settings))


def _corpora() -> Path | None:
    folder = Path(os.environ.get("NEARDUP_CORPORA", REPOSITORY.parent / "shared" / "corpora"))
    if (folder / "pairs.tsv").is_file():
        return folder
    print(f"no labelled corpus at {folder} (set NEARDUP_CORPORA): what is generated alone")
    return None


if __name__ == "__main__":
    main()
