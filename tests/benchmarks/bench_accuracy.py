"""
How many near-duplicates are found, and how many pairs are taken for such, beside the peers: `make
bench-accuracy`, BENCH=--quick for a trial run of three minutes.

Two truths: the labelled corpus (skipped where it is absent) and a generated crawl. Then what is
hard: pairs that look alike and are no copies, streams of templates' pages, and what is found of
parts with words replaced, by likeness and length; and pairs of pages of one host, with and without
titles, by our defaults alone. Ours are the defaults, other thresholds, exact searches, and the
defaults of before; texts of pages are extracted by us for everybody. Peers run in an environment of
their own; one that is absent is told as such. Written to tests/benchmarks/results: accuracy.json,
.md, accuracy_parts.png.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks import accuracy_samples
from tests.benchmarks.accuracy_samples import LENGTHS, PAIRS, POINTS, Sample
from tests.benchmarks.common import (
    ask_contender,
    drawing,
    labelled_corpus,
    options,
    saved,
    table,
    titled,
)
from tests.benchmarks.contenders import OF_PAIRS
from tests.benchmarks.kept import finish, machine
from tests.benchmarks.site_samples import DRAWS, OTHERS, site_shares
from worker.core.evaluation import Scores, finds, groups, leaders, measure, score
from worker.core.fingerprint import Fingerprinter
from worker.core.search import SearchRules
from worker.devkit.sample.crawl import PAGES_MAX
from worker.settings import Settings

OURS = {
    "defaults": SearchRules(),
    "similarity ≥ .70": SearchRules(similarity_min=0.7),
    "similarity ≥ .50": SearchRules(similarity_min=0.5),
    "unconfirmed (before)": SearchRules(
        max_distance=12, patterns=16, look_min=800, similarity_min=0
    ),
    "exact, k = 3": SearchRules("exact", 3),
    "exact, k = 6": SearchRules("exact", 6),
}
DEFAULTS = "neardup, defaults"
TRIAL_S_MAX = 900.0
QUICK_DOCUMENTS = 600  # of the generated crawl
QUICK_PAGES = 40  # of a template
QUICK_PAIRS = 30  # of a kind of edited parts, and of blocks
Found = dict[str, NDArray[np.bool_]]  # by method
SiteShares = Mapping[str, Mapping[str, tuple[float, float]]]  # untitled, titled
Shares = Mapping[str, tuple[int, Mapping[str, float]]]  # kind -> number, method -> share found


def main() -> None:
    parser = options(__doc__, "fewer pages of templates, edited parts and blocks", has_peers=True)
    parser.add_argument("--documents", type=int, help="of the generated crawl; 3,000")
    parser.add_argument("--seed", type=int, default=1, help="of the generated crawl")
    chosen = parser.parse_args()
    documents = chosen.documents or (QUICK_DOCUMENTS if chosen.quick else 3_000)
    pages = QUICK_PAGES if chosen.quick else PAGES_MAX
    pairs_each = QUICK_PAIRS if chosen.quick else PAIRS
    where = machine()
    found: dict[str, dict[str, Scores]] = {}
    folder = labelled_corpus("what is generated alone")
    for same_corpus in _samples(folder, documents, chosen.seed):
        for sample, methods in _judged(same_corpus, chosen.peers_python):
            of_group = groups(sample.pairs, len(sample.corpus.doc_ids))
            found[sample.name] = {
                name: score(one, sample.pairs.same, of_group) for name, one in methods.items()
            }
    hard, parts = _hard(folder, chosen.peers_python, pages, pairs_each)
    blocks: dict[str, Any] = {}
    if folder:
        sample = accuracy_samples.blocks(folder, Settings(), pairs_each)
        blocks = _shares_of(sample, chosen.peers_python)
    sites = site_shares(draws=2 if chosen.quick else DRAWS)
    lines = [
        *tables(found),
        *hard_table(hard),
        *(blocks_table(blocks) if blocks else []),
        *sites_table(sites),
        *(edits_tables(parts) if parts else []),
    ]
    where |= {"documents": documents, "seed": chosen.seed}
    figures = {
        "machine": where,
        "scores": found,
        "hard": hard,
        "blocks": blocks,
        "sites": sites,
        "parts": parts,
    }
    plots = {"accuracy_parts.png": partial(plot_edits, parts)} if parts else {}
    finish(chosen, "accuracy", figures, lines, plots)


def ours(sample: Sample, streams: bool = False) -> Found:
    """What each of OURS says of the pairs; of a stream, which documents it calls duplicates."""
    found: Found = {}
    batch = Fingerprinter().batch(sample.corpus.texts, sample.corpus.languages)
    for name, rules in OURS.items():
        found[f"neardup, {name}"] = (
            leaders(batch, rules) >= 0
            if streams
            else finds(measure(batch, sample.pairs, rules), rules)
        )
    return found


def _hard(
    folder: Path | None, peers_python: str, pages: int, pairs_each: int
) -> tuple[dict[str, Any], dict[str, Any]]:
    """
    Shares found of what is hard: kind -> (number, method -> share); of parts, by method and "length
    point".
    """
    stream = accuracy_samples.templates(pages)
    peers = _peers(stream, peers_python).items()
    told = ours(stream, streams=True)
    told |= {
        name: accuracy_samples.merged(stream.pairs, found, len(stream.corpus.texts))
        for name, found in peers
    }
    # All but a stream's first page.
    kind_of = dict(zip(stream.pairs.second.tolist(), stream.pairs.kinds, strict=True))
    hard = _shares([kind_of.get(page, "") for page in range(len(stream.corpus.texts))], told)
    if folder is None:
        return hard, {}
    pairs = accuracy_samples.others(folder, Settings())
    parts = accuracy_samples.edits(folder, Settings(), pairs_each)
    hard = _shares_of(pairs, peers_python) | hard
    return hard, _shares_of(parts, peers_python)


def _shares_of(sample: Sample, peers_python: str) -> dict[str, Any]:
    """Shares found of the pairs of a sample, by kind."""
    return _shares(sample.pairs.kinds, ours(sample) | _peers(sample, peers_python))


def _shares(kinds: Sequence[str], told: Found) -> dict[str, Any]:
    """
    Return for each kind that has a name how many there are, and the share of them that each method
    found.
    """
    rows = {
        kind: np.array([one == kind for one in kinds], np.bool_)
        for kind in dict.fromkeys(kinds)
        if kind
    }
    return {
        kind: (int(mine.sum()), {name: float(found[mine].mean()) for name, found in told.items()})
        for kind, mine in rows.items()
    }


def _judged(samples: list[Sample], peers_python: str) -> Iterator[tuple[Sample, Found]]:
    """
    Each sample with what everybody says of its pairs; all are of one corpus, whose peers are asked
    once.
    """
    whole = samples[0]
    methods = ours(whole) | _peers(whole, peers_python)
    pairs = zip(whole.pairs.first.tolist(), whole.pairs.second.tolist(), strict=True)
    place = {pair: row for row, pair in enumerate(pairs)}
    for sample in samples:
        rows = [
            place[pair]
            for pair in zip(sample.pairs.first.tolist(), sample.pairs.second.tolist(), strict=True)
        ]
        yield sample, {name: found[rows] for name, found in methods.items()}


def _peers(sample: Sample, python: str) -> Found:
    """What each peer says of the pairs, by method."""
    methods: Found = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "texts.json").write_text(json.dumps(sample.corpus.texts), encoding="utf-8")
        np.save(folder / "pairs.npy", np.stack([sample.pairs.first, sample.pairs.second], axis=1))
        for peer in OF_PAIRS:
            told = ask_contender(
                "pairs", peer, folder, peers_python=python, seconds_max=TRIAL_S_MAX
            )
            print(
                f"{sample.name:28} {peer:12} {told.get('left_out') or told['version']}", flush=True
            )
            if "methods" in told:
                methods |= zip(told["methods"], np.load(folder / "found.npy"), strict=True)
    return methods


def _samples(folder: Path | None, documents: int, seed: int) -> Iterator[list[Sample]]:
    settings = Settings()
    if folder is not None:
        yield list(accuracy_samples.corpus_samples(folder, settings))
        yield [accuracy_samples.plain_sample(folder, settings)]
    yield list(accuracy_samples.crawl_samples(documents, seed, settings))


def tables(found: Mapping[str, Mapping[str, Scores]]) -> list[str]:
    """
    For each sample a table: a line a method, with 95 % intervals (resampled by group of documents).
    """
    lines: list[str] = []
    for sample, methods in found.items():
        any_one = next(iter(methods.values()))
        rows = []
        for name, one in methods.items():
            recall = f"{one.recall.value:.3f} ({one.recall.low:.3f} to {one.recall.high:.3f})"
            false = (
                f"{one.false_positives.value:.5f} (to {one.false_positives.high:.5f})"
                if one.other
                else ""
            )
            rows.append((name, recall, false, f"{one.f1.value:.3f}"))
        lines += [
            f"### {sample}: {any_one.same:,} pairs that are the same, {any_one.other:,} that are "
            f"not",
            "",
        ]
        lines += table(("", "recall", "false positives", "F1"), rows)
    return lines


def by_kind(title: str, found: Shares, digits: Mapping[str, int], *remarks: str) -> list[str]:
    """A line a method, a column a kind: the share that is found, with so many digits."""
    rows = [
        (name, *(f"{shares[name]:.{digits[kind]}f}" for kind, (_, shares) in found.items()))
        for name in _methods(found)
    ]
    head = ("", *(f"{kind} ({number:,})" for kind, (number, _) in found.items()))
    return [f"### {title}", "", *table(head, rows), *remarks, ""]


def hard_table(hard: Shares) -> list[str]:
    """The share of pairs found, and of a template's pages called duplicates."""
    return by_kind(
        "Hard negatives: pairs of other things that are found; pages of a template that a stream "
        "calls duplicates",
        hard,
        {kind: 5 if number > 50_000 else 3 for kind, (number, _) in hard.items()},
        "Legal notices share three quarters of their text: a person may go either way.",
    )


def blocks_table(blocks: Shares) -> list[str]:
    """The share of pairs found."""
    return by_kind(
        "Blocks and scattered words: articles in plain text, and the share of pairs that is found",
        blocks,
        dict.fromkeys(blocks, 2),
        "Scattered words are one in twelve, as another page of a template has them; another "
        "article has the same",
        "advertisements, 100 % of its words. Neither is a copy; all others are.",
    )


def sites_table(sites: SiteShares) -> list[str]:
    """A line a kind, two columns a length: the share of pairs that our defaults call copies."""
    lengths = list(next(iter(sites.values())))
    heads = [f"{length}, {titles}" for length in lengths for titles in ("untitled", "titled")]
    rows = [
        (kind, *(f"{share:.2f}" for length in lengths for share in shares[length]))
        for kind, shares in sites.items()
    ]
    return [
        "### Two pages of one host: the share of pairs that is called copies, without titles and "
        "with them",
        "",
        *table(("", *heads), rows),
        f"The last {len(OTHERS)} kinds are no copies; their own text is none, a tenth or a quarter of "
        "what both show.",
        "",
    ]


def edits_tables(parts: Shares) -> list[str]:
    """
    What is found around each likeness: by method, of all lengths; and by length, of the defaults.
    """
    points = [f"{point:g}" for point in POINTS]
    lines = ["### Parts with words replaced: found, by Jaccard index of 3-shingles (± .03)", ""]
    for head, rows in (
        (
            f"mean of {', '.join(map(str, LENGTHS))} words",
            [(name, name, LENGTHS) for name in _methods(parts)],
        ),
        (f"{DEFAULTS}, of", [(f"{length} words", DEFAULTS, (length,)) for length in LENGTHS]),
    ):
        lines += table(
            (head, *points),
            [
                (label, *(f"{one:.3f}" for one in _curve(parts, name, lengths)))
                for label, name, lengths in rows
            ],
        )
    return lines


def plot_edits(parts: Shares, path: Path) -> None:
    """Two panels of what is found by likeness: each method; the defaults by length."""
    figure, (left, right) = drawing(13, 4.6, columns=2, sharey=True)
    for number, name in enumerate(_methods(parts)):
        style = {"color": f"C{number % 10}", "linewidth": 2.5 if name == DEFAULTS else 1.2}
        # There are ten colors: what is drawn in one of them for a second time has other dashes.
        dashes = "-" if name.startswith("neardup") else "--" if number < 16 else ":"
        left.plot(POINTS, _curve(parts, name, LENGTHS), linestyle=dashes, label=name, **style)
    for length in LENGTHS:
        right.plot(
            POINTS,
            _curve(parts, DEFAULTS, (length,)),
            marker="o",
            markersize=3,
            label=f"{length} words",
        )
    for axis, title in ((left, "found, each method"), (right, f"found, {DEFAULTS}, by length")):
        titled(axis, title, "Jaccard index of 3-shingles")
        axis.set_ylim(0, 1.02)
    figure.legend(handles=left.lines, frameon=False, fontsize=7, loc="outside left upper")
    figure.legend(handles=right.lines, frameon=False, fontsize=7, loc="outside right upper")
    saved(figure, path)


def _methods(parts: Shares) -> list[str]:
    return list(next(iter(parts.values()))[1])


def _curve(parts: Shares, name: str, lengths: Sequence[int]) -> list[float]:
    """Return the share found around each point, of all parts of these lengths."""
    found = []
    for point in POINTS:
        cells = [parts[f"{length} {point}"] for length in lengths if f"{length} {point}" in parts]
        number = sum(number for number, _ in cells)
        found.append(sum(number * shares[name] for number, shares in cells) / max(1, number))
    return found


if __name__ == "__main__":
    main()
