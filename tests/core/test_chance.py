"""The model of chance against simulated pairs of unrelated documents."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from numpy.typing import NDArray

from worker.core.chance import CHANCE_MAX, chance, documents_supported, rules_for
from worker.core.search import SearchRules, best

DRAWN = 20_000  # pairs at each distance


def drawn(generator: np.random.Generator, tallies: NDArray[np.float64]) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """Doubts of documents with these tallies, as numbers and as flags."""
    flags = np.abs(tallies) < 0.35 * np.sqrt((tallies**2).mean(1, keepdims=True))
    return np.packbits(flags, axis=1, bitorder="little").view(np.uint64)[:, 0], flags


def looks(flips: NDArray[np.bool_], doubts: NDArray[np.bool_], others: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The second looks of pairs that differ in `flips`."""
    one, other = np.where(doubts, 1.0, 6.0), np.where(others, 1.0, 6.0)
    product = (one * other * np.where(flips, -1, 1)).sum(1)
    found: NDArray[np.float64] = 1_000 * product / np.sqrt((one**2).sum(1) * (other**2).sum(1))
    return found


@pytest.mark.parametrize(
    "rules",
    [
        SearchRules(look_min=700),
        SearchRules(blocks=10, block_bits=26, patterns=32, look_min=700, max_distance=10),
    ],
    ids=lambda rules: rules.text,
)
def test_the_model_of_chance_holds_for_simulated_documents(rules: SearchRules) -> None:
    """Normal tallies, each distance drawn often and weighed by how rare it is: within a third of the model."""
    generator = np.random.default_rng(7)
    total = 0.0
    for distance in range(4, rules.max_distance + 1):
        (doubts, flags), (others, other_flags) = (
            drawn(generator, generator.standard_normal((DRAWN, 64))) for _ in "ab"
        )
        flips = np.argsort(generator.random((DRAWN, 64)), axis=1) < distance
        differences = np.packbits(flips, axis=1, bitorder="little").view(np.uint64)[:, 0]
        seen = np.flatnonzero(looks(flips, flags, other_flags) >= rules.look_min)
        asked = seen[:500]  # the definition is slow
        found = sum(
            best(rules, int(differences[i]), int(doubts[i]), [(0, 0, int(others[i]))])[0] == 0 for i in asked.tolist()
        )
        total += comb(64, distance) / 2**64 * len(seen) / DRAWN * found / max(1, len(asked))
    assert 0.67 < total / chance(rules) < 1.33


def test_rules_are_chosen_so_that_chance_stays_rare() -> None:
    """The more originals, the stricter the second look; beyond the defaults' reach there are more blocks."""
    chosen = [rules_for(documents) for documents in (10_000, 20_000_000, 100_000_000, 300_000_000)]
    assert chosen[0] == chosen[1] == SearchRules()
    assert [rules.blocks for rules in chosen[2:]] == [10, 10]
    assert chosen[2].look_min < chosen[3].look_min
    assert chance(chosen[3]) * 3e8 <= CHANCE_MAX


def test_documents_supported_is_where_chance_reaches_its_bound() -> None:
    """One query in 100,000; exact rules by counting."""
    assert chance(SearchRules("exact", 0)) == 2**-64
    for rules in (SearchRules(), SearchRules("exact", 8)):
        assert documents_supported(rules) * chance(rules) == pytest.approx(CHANCE_MAX, rel=1e-3)
    assert documents_supported(SearchRules(look_min=700)) < documents_supported(SearchRules())
