"""The permuted index under any sequence of calls, against a linear scan."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.conftest import run_machine
from worker.core.index import PermutedIndex
from worker.core.search import NO_MATCH
from worker.core.tables import content

MASKS = (2**64 - 1, 0xFFFF, 0xFFFF_0000_0000_00FF, 0xFFFFF)  # skewed: few live bits, shared prefixes
SIZES = st.one_of(st.integers(0, 40), st.integers(0, 700))


class IndexMachine(RuleBasedStateMachine):
    """Batches of any size come, match and go; after each step the index holds what a plain list holds."""

    k: int

    @initialize(
        flat_below=st.sampled_from([0, 50, 300]), hot=st.sampled_from([4, 64]),
        seed=st.integers(0), documents=st.sampled_from([0, 10, 3_000_000]),
    )  # fmt: skip
    def start(self, flat_below: int, hot: int, seed: int, documents: int) -> None:
        """Begin empty, sized for few or for millions."""
        self.hot = content.HOT_MIN
        content.HOT_MIN = hot
        self.index = PermutedIndex(self.k, documents_expected=documents)
        self.index.tables.flat_below = flat_below
        self.generator = np.random.default_rng(seed)
        self.fingerprints = np.empty(0, np.uint64)
        self.rows = np.empty(0, np.uint32)
        self.next_row = 0

    def teardown(self) -> None:
        """Leave the module as it was."""
        if hasattr(self, "hot"):
            content.HOT_MIN = self.hot

    def draw(self, size: int, mask: int) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
        """Fingerprints: new ones, equal ones, near ones."""
        drawn = self.generator.integers(0, 2**64, size, dtype=np.uint64) & np.uint64(mask)
        if len(self.rows):
            chosen = self.fingerprints[self.generator.integers(0, len(self.rows), size)]
            for _ in range(int(self.generator.integers(0, self.k + 3))):
                chosen = chosen ^ (np.uint64(1) << self.generator.integers(0, 64, size).astype(np.uint64))
            drawn = np.where(self.generator.random(size) < 0.5, chosen, drawn)
        return drawn

    def best(self, fingerprint: np.uint64) -> tuple[int, int]:
        """The oracle."""
        if not len(self.rows):
            return -1, NO_MATCH
        distances = np.bitwise_count(self.fingerprints ^ fingerprint)
        smallest = int(distances.min())
        return (int(self.rows[distances == smallest].min()), smallest) if smallest <= self.k else (-1, NO_MATCH)

    def hold(self, fingerprint: np.uint64) -> None:
        """Index one in the plain list."""
        self.fingerprints = np.append(self.fingerprints, fingerprint)
        self.rows = np.append(self.rows, np.uint32(self.next_row))
        self.next_row += 1

    @rule(size=SIZES, mask=st.sampled_from(MASKS), everything=st.booleans())
    def judge(self, size: int, mask: int, everything: bool) -> None:
        """Judge a batch, or query and insert it all."""
        batch = self.draw(min(size, 300), mask)
        take = self.index.query_then_insert if everything else self.index.judge
        judgement = take(batch, self.next_row)
        for position, fingerprint in enumerate(batch):
            expected = self.best(fingerprint)
            assert (judgement.rows[position], judgement.distances[position]) == expected
            if everything or expected[0] < 0:
                self.hold(fingerprint)
        assert judgement.new == np.count_nonzero(judgement.rows < 0)

    @rule(size=SIZES, mask=st.sampled_from(MASKS), backwards=st.booleans())
    def insert(self, size: int, mask: int, backwards: bool) -> None:
        """Index a batch as it is."""
        batch = self.draw(size, mask)
        for fingerprint in batch:
            self.hold(fingerprint)
        added = self.rows[len(self.rows) - len(batch) :]
        step = -1 if backwards else 1
        self.index.insert(batch[::step], added[::step])

    @rule(share=st.floats(0, 1))
    def delete(self, share: float) -> None:
        """Take a share of all rows out, and fail to take them out again."""
        gone = self.generator.permutation(len(self.rows))[: int(share * len(self.rows))]
        assert self.index.delete_many(self.fingerprints[gone], self.rows[gone]).all()
        assert not self.index.delete_many(self.fingerprints[gone], self.rows[gone]).any()
        self.fingerprints = np.delete(self.fingerprints, gone)
        self.rows = np.delete(self.rows, gone)

    @rule()
    def restore(self) -> None:
        """Go on with an index made from the arrays."""
        flat_below = self.index.tables.flat_below
        self.index = PermutedIndex.from_arrays(self.index.arrays(), self.k)
        self.index.tables.flat_below = flat_below

    @rule(mask=st.sampled_from(MASKS))
    def rank(self, mask: int) -> None:
        """All matches, in their order."""
        for fingerprint in self.draw(5, mask):
            distances = np.bitwise_count(self.fingerprints ^ fingerprint)
            order = np.lexsort((self.rows, distances))
            ranked = list(zip(self.rows[order].tolist(), distances[order].tolist(), strict=True))
            assert self.index.query_all(int(fingerprint)) == [match for match in ranked if match[1] <= self.k]

    @invariant()
    def holds_what_it_should(self) -> None:
        """Nothing is lost, nothing is left."""
        if hasattr(self, "index"):
            assert len(self.index) == len(self.rows)
            self.index.check()


@pytest.mark.timeout(580)
@pytest.mark.parametrize("max_distance", range(8))
def test_any_calls_in_any_order_are_exact(max_distance: int) -> None:
    """For every distance up to 7."""

    class Machine(IndexMachine):
        k = max_distance

    run_machine(Machine, steps=20)
