"""
Chance that is the same on every machine: everything is drawn from `Random.random`, whose sequence Python guarantees
for a seed across versions; `choice`, `shuffle` and `sample` are not guaranteed.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """
    Draws from a seed.

    >>> dice = Dice(7)
    >>> dice.number(1, 6), dice.pick("abc"), dice.several("abcdef", 3)
    (2, 'a', ['d', 'a', 'c'])
    """

    def __init__(self, seed: int) -> None:
        self.random = Random(seed).random  # noqa: S311  # test data, not secrets

    def number(self, first: int, last: int) -> int:
        """Return a number from first to last, both included."""
        return first + int(self.random() * (last - first + 1))

    def pick(self, items: Sequence[T]) -> T:
        """Return one of the items."""
        return items[int(self.random() * len(items))]

    def several(self, items: Sequence[T], count: int) -> list[T]:
        """Return `count` different items (all, when there are fewer) in random order."""
        rest = list(items)
        chosen = []
        for _ in range(min(count, len(rest))):
            at = int(self.random() * len(rest))
            chosen.append(rest[at])
            rest[at] = rest[-1]
            rest.pop()
        return chosen

    def chance(self, probability: float) -> bool:
        """Say yes with a probability."""
        return self.random() < probability
