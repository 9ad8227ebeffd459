"""Blocks and permutations: what the drawing says, and that no layout misses a match."""

from __future__ import annotations

import random
import re
from itertools import combinations
from math import comb

import pytest

from worker.core import permutation
from worker.core.permutation import BITS, Layout, nested, permuted, probed, split_bits

LAYOUTS = [
    *(permuted(k, m) for m in range(1, 9) for k in range(m)),
    *(probed(k, m) for k in range(8) for m in range(2, 7)),
    nested(3, 4, 4),
    nested(1, 2, 3),
]


def test_the_drawing_in_the_head_comment_is_right() -> None:
    """The blocks and each table that the module's first lines draw are those of the layout that they name."""
    text = permutation.__doc__ or ""
    layout = permuted(3, 6)
    everything = "".join(label * width for label, width in zip("ABCDEF", split_bits(6), strict=True))
    assert f"\n    {everything}\n" in text
    drawn = re.findall(r"^    ([A-F]+\|[A-F]+)  ([A-F.]{64})$", text, re.MULTILINE)
    assert len(drawn) == 3
    label = dict(zip(sorted(layout.permutations[0].blocks, reverse=True), "ABCDEF", strict=True))
    masks = {"".join(label[block] for block in table.blocks): table.mask for table in layout.permutations}
    for name, line in drawn:
        assert masks[name.replace("|", "")] == int("".join(str(int(bit != ".")) for bit in line), 2)
        assert name.index("|") == len({*line} - {"."})


def covers(layout: Layout, difference: int) -> bool:
    """Whether two fingerprints whose xor is `difference` meet in a probed prefix of some table."""
    return any((difference & table.mask).bit_count() <= table.radius for table in layout.permutations)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: f"{layout.name}, k={layout.max_distance}")
def test_no_layout_misses_a_difference_within_its_distance(layout: Layout) -> None:
    """
    All differences of up to 2 bits, and many of up to k bits, spread and clustered, meet in some table.

    The blocks of each are all bits, and what it flips are different sets of the leading ones.
    """
    for table in layout.permutations:
        assert sum(block.mask for block in table.blocks) == 2**64 - 1
        assert len(table.flips()) == table.probes == len(set(table.flips()))
        assert all(flip & ~table.mask == 0 for flip in table.flips())
    generator = random.Random(1)
    for bits in range(min(layout.max_distance, 2) + 1):
        for chosen in combinations(range(BITS), bits):
            assert covers(layout, sum(1 << bit for bit in chosen))
    for _ in range(2_000):
        spread = generator.sample(range(BITS), layout.max_distance)
        start = generator.randrange(BITS)
        clustered = {(start + generator.randrange(20)) % BITS for _ in range(layout.max_distance)}
        assert covers(layout, sum(1 << bit for bit in spread))
        assert covers(layout, sum(1 << bit for bit in clustered))


def test_the_layouts_of_the_paper() -> None:
    """Tables and prefix bits as Manku, Jain and Das Sarma list them; radius 2 over 16 bits is 137 prefixes."""
    assert probed(11, 4).probes == 4 * (1 + 16 + comb(16, 2))
    figures = {
        layout: (len(layout.permutations), {table.prefix_bits for table in layout.permutations})
        for layout in (permuted(3, 4), permuted(3, 5), permuted(3, 6), nested(3, 4, 4), permuted(6, 8))
    }
    assert list(figures.values()) == [
        (4, {16}),
        (10, {25, 26}),
        (20, {31, 32, 33}),
        (16, {28}),
        (28, {16}),
    ]


def test_layouts_that_cannot_be_are_refused() -> None:
    """The error names both values and the reason."""
    with pytest.raises(ValueError, match="got blocks=3, max_distance=3: no block would be left to match on"):
        permuted(3, 3)
    with pytest.raises(ValueError, match="need 3003 tables"):
        permuted(5, 15)
    with pytest.raises(ValueError, match="blocks must be 1 to 64, got 65"):
        split_bits(65)
