"""The directed index under any sequence of calls, against its definition in plain Python."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.conftest import run_machine
from tests.core.test_directed_index import RULES, columns, crawl, said
from worker.core.directed_index import DirectedIndex
from worker.core.search import Document, Original, SearchRules, best
from worker.core.sketch import SKETCH
from worker.log.originals import Column

LIVE = (2**64 - 1, 0xFFFF, 0xFFFF_0000_0000_00FF, 0xFFFFF)  # skewed: few live bits, shared prefixes
QUERIES = 6  # of a batch that are compared with the definition


class DirectedMachine(RuleBasedStateMachine):
    """Batches of any size come, match and go; after each step the index holds what a plain list holds."""

    search: SearchRules

    @initialize(flat_below=st.sampled_from([0, 50, 300]), seed=st.integers(0))
    def start(self, flat_below: int, seed: int) -> None:
        """Begin empty."""
        self.flat_below = flat_below
        self.generator = random.Random(seed)
        self.held: list[Original] = []
        self.next_row = 0
        self.sketches: Column[np.uint64] = Column(SKETCH, 4)
        self.adopt(DirectedIndex(self.search, sketches=self.sketches))

    def adopt(self, index: DirectedIndex) -> None:
        """Go on with this index."""
        self.index = index
        self.index.tables.flat_below = min(self.flat_below, self.index.rules.prefix_max)

    def draw(self, size: int, live: int) -> list[Document]:
        """Documents: new ones, equal ones, near ones, near ones with other facts."""
        mixed = crawl(self.generator, max(1, size), live)
        for _ in range(size // 2 if self.held else 0):
            _, fingerprint, doubts, sketch = self.generator.choice(self.held)
            sketch ^= self.generator.choice([0, 0, 0xF0F0, (1 << 200) - 1])
            mixed.append(Document(fingerprint ^ self.generator.choice([0, 1, 0x30]), doubts, sketch))
        return self.generator.sample(mixed, min(size, len(mixed)))

    def hold(self, document: Document) -> None:
        """Remember a document under the next row."""
        self.held.append(Original(self.next_row, *document))
        self.sketches.append(columns([document])[2])
        self.next_row += 1

    @rule(size=st.integers(0, 40), live=st.sampled_from(LIVE), everything=st.booleans())
    def judge(self, size: int, live: int, everything: bool) -> None:
        """Judge a batch, or query and insert it all."""
        batch = self.draw(size, live)
        take = self.index.query_then_insert if everything else self.index.judge
        judgement = take(*columns(batch), self.next_row)
        for position, document in enumerate(batch):
            found = said(judgement, position)
            if position < QUERIES:
                assert found == best(self.index.rules, document, self.held)
            if everything or found is None:
                self.hold(document)

    @rule(size=st.integers(0, 700), live=st.sampled_from(LIVE), shuffled=st.booleans())
    def insert(self, size: int, live: int, shuffled: bool) -> None:
        """Index a batch as it is, in any order."""
        first = len(self.held)
        for document in self.draw(size, live):
            self.hold(document)
        added = self.held[first:]
        if shuffled:
            self.generator.shuffle(added)
        self.index.insert(*columns(added)[:2], np.array([one.row for one in added], np.uint32))

    @rule(share=st.floats(0, 1), front=st.booleans())
    def delete(self, share: float, front: bool) -> None:
        """Take a share of all rows out, the earliest or any, and fail to take them out again."""
        count = int(share * len(self.held))
        gone = self.held[:count] if front else self.generator.sample(self.held, count)
        fingerprints, _, _ = columns(gone)
        rows = np.array([one.row for one in gone], np.uint32)
        assert self.index.delete_many(fingerprints, rows).all()
        assert not self.index.delete_many(fingerprints, rows).any()
        self.held = sorted(set(self.held) - set(gone))

    @rule()
    def restore(self) -> None:
        """Go on with an index made from the arrays."""
        self.adopt(DirectedIndex.from_arrays(self.index.arrays(), self.index.rules, sketches=self.sketches))

    @rule(live=st.sampled_from(LIVE))
    def query(self, live: int) -> None:
        """Find the best of what is held."""
        batch = self.draw(QUERIES, live)
        judgement = self.index.query(*columns(batch))
        for position, document in enumerate(batch):
            assert said(judgement, position) == best(self.index.rules, document, self.held)

    @invariant()
    def holds_what_it_should(self) -> None:
        """Nothing is lost, nothing is left."""
        if hasattr(self, "index"):
            assert len(self.index) == len(self.held)
            self.index.check()


@pytest.mark.timeout(580)
@pytest.mark.parametrize("rules", RULES, ids=lambda rules: rules.text)
def test_any_calls_in_any_order_follow_the_definition(rules: SearchRules) -> None:
    """For rules of every kind."""

    class Machine(DirectedMachine):
        search = rules

    run_machine(Machine, steps=12)
