"""Recall and false positives by distance, for one way of making fingerprints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tests.benchmarks.accuracy.pairs import Sample
from worker.core.fingerprint import FingerprintBatch, Fingerprinter, Kind
from worker.core.parameters import Parameters

__all__ = ["DISTANCES_MAX", "Curve", "Variant", "curves", "unrelated_by_language", "variants"]

DISTANCES_MAX = 16

Anchors = Literal["elected", "union", "named"]
ANCHORS: tuple[Anchors, ...] = ("elected", "union", "named")


@dataclass(frozen=True)
class Variant:
    """One way of making fingerprints."""

    name: str
    parameters: Parameters
    anchors: Anchors


@dataclass(frozen=True)
class Curve:
    """Of one variant on one sample: index k is what is found within a Hamming distance of k."""

    variant: str
    sample: str
    recall: list[float]  # share of the pairs that are the same
    false_positives: list[float]  # share of the pairs that are not
    distances_same: list[int]  # pairs by distance, 0 to 64, and 65 for those with an empty text
    distances_other: list[int]


def variants() -> list[Variant]:
    """One of each kind of change to the defaults (w=2, anchored 3 : 1, log), and the defaults themselves first."""
    return [
        *(_variant(f"w=2, 3:1, log, {anchors}", anchors) for anchors in ANCHORS),
        _variant("w=2, all equal, log", anchored_weight=1),
        _variant("w=2, 2:1, log", anchored_weight=2),
        _variant("w=2, 6:1, log", anchored_weight=6),
        _variant("w=2, anchored only, log", unanchored_weight=0),
        _variant("w=2, anchored only, tf", unanchored_weight=0, term_frequency="tf"),
        _variant("w=2, 3:1, one", term_frequency="one"),
        _variant("w=2, 3:1, tf", term_frequency="tf"),
        _variant("w=1, 3:1, log", widths=(1,)),
        _variant("w=3, 3:1, log", widths=(3,)),
        _variant("w=3, anchored only, log", widths=(3,), unanchored_weight=0),
        _variant("w=1+2, 3:1, log", widths=(1, 2)),
        _variant("w=2+3, 3:1, log", widths=(2, 3)),
    ]


def curves(variant: Variant, samples: Sequence[Sample]) -> Iterator[Curve]:
    """Fingerprint the texts of the samples, those that they share once, and count."""
    made: dict[int, FingerprintBatch] = {}
    fingerprinter = Fingerprinter(variant.parameters)
    for sample in samples:
        of = sample.of
        if id(of) not in made:
            languages = {"elected": of.elected, "named": of.labelled, "union": None}[variant.anchors]
            made[id(of)] = fingerprinter.batch(of.texts, languages)
        same = _by_distance(made[id(of)], sample.same)
        other = _by_distance(made[id(of)], sample.other)
        yield Curve(variant.name, sample.name, _within(same), _within(other), same.tolist(), other.tolist())


def unrelated_by_language(variant: Variant, sample: Sample) -> dict[str, list[int]]:
    """Pairs of unrelated texts of one language, by distance: where features are poor they come nearer."""
    of = sample.of
    made = Fingerprinter(variant.parameters).batch(of.texts, of.elected)
    pairs: dict[str, list[tuple[int, int]]] = {}
    for left, right in sample.other:
        pairs.setdefault(str(of.labelled[left]), []).append((left, right))
    return {language: _by_distance(made, pairs[language]).tolist() for language in sorted(pairs)}


def _variant(name: str, anchors: Anchors = "elected", **changed: Any) -> Variant:
    named: Literal["union", "named"] = "union" if anchors == "union" else "named"
    return Variant(name, Parameters(anchors=named, **changed), anchors)


def _by_distance(made: FingerprintBatch, of: list[tuple[int, int]]) -> NDArray[np.int64]:
    """Pairs by distance; those with an empty text match nothing and are in the last place, 65."""
    pairs = np.array(of, np.int64).reshape(-1, 2)
    distances = np.bitwise_count(made.fingerprints[pairs[:, 0]] ^ made.fingerprints[pairs[:, 1]]).astype(np.int64)
    distances[(made.kinds[pairs] == Kind.EMPTY).any(axis=1)] = 65
    return np.bincount(distances, minlength=66)


def _within(by_distance: NDArray[np.int64]) -> list[float]:
    shares = np.cumsum(by_distance)[: DISTANCES_MAX + 1] / max(1, by_distance.sum())
    return [float(share) for share in shares]
