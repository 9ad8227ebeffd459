"""
The longest common subsequence of two token lists, a machine word of them at a time.

One row of the classical table is one whole number: bit i of it is 0 where the length grows at token i of the first
list. The next row takes an addition and three logical operations (Crochemore et al., 2001; Hyyrö, 2004). Going back
through the rows gives the steps from one list to the other.

    first   a b c        row of ""  1 1 1
    second  b c          row of b   1 0 1      "b" is found at token 1
                         row of bc  0 0 1      and "c" at token 2 (bit 2, on the left): length 2
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple


class Step(NamedTuple):
    """A run of tokens: in both lists, in the first alone (removed), or in the second alone (added)."""

    kind: Literal["equal", "removed", "added"]
    tokens: list[str]


def common_length(first: Sequence[str], second: Sequence[str]) -> int:
    """
    Return the length of the longest common subsequence.

    Cost: O(n · m / 64) time, O(n²) bits of memory for n tokens without their common beginning and end.

    >>> common_length("the cat sat on the mat".split(), "the dog sat on a mat".split())
    4
    """
    head, tail = _ends(first, second)
    middle = first[head : len(first) - tail], second[head : len(second) - tail]
    row = (1 << len(middle[0])) - 1
    for row in _rows(*middle):  # noqa: B007  # the last one counts
        pass
    return head + tail + len(middle[0]) - row.bit_count()


def steps(first: Sequence[str], second: Sequence[str]) -> Iterator[Step]:
    """
    Yield the runs that take one list to the other; the equal ones together are a longest common subsequence.

    Cost: as `common_length`, and n · m bits.

    >>> [(step.kind, " ".join(step.tokens)) for step in steps("a b c".split(), "b c d".split())]
    [('removed', 'a'), ('equal', 'b c'), ('added', 'd')]
    """
    head, tail = _ends(first, second)
    equal, removed, added = list(first[:head]), list[str](), list[str]()
    for kind, token in reversed(_backwards(first[head : len(first) - tail], second[head : len(second) - tail])):
        if kind == "equal":
            if removed or added:
                yield from _runs(equal, removed, added)
                equal, removed, added = [], [], []
            equal.append(token)
        else:
            (removed if kind == "removed" else added).append(token)
    if removed or added:
        yield from _runs(equal, removed, added)
        equal = []
    yield from _runs(equal + list(first[len(first) - tail :]), [], [])


def _runs(equal: list[str], removed: list[str], added: list[str]) -> Iterator[Step]:
    """Yield the steps that are not empty, what is removed before what is added."""
    yield from (one for one in (Step("equal", equal), Step("removed", removed), Step("added", added)) if one.tokens)


def _ends(first: Sequence[str], second: Sequence[str]) -> tuple[int, int]:
    """Return how many tokens are equal at the beginning, and of the rest at the end."""
    shorter = min(len(first), len(second))
    head = 0
    while head < shorter and first[head] == second[head]:
        head += 1
    tail = 0
    while tail < shorter - head and first[-1 - tail] == second[-1 - tail]:
        tail += 1
    return head, tail


def _rows(first: Sequence[str], second: Sequence[str]) -> Iterator[int]:
    """Yield the row after each token of the second list."""
    places: dict[str, int] = {}
    for position, token in enumerate(first):
        places[token] = places.get(token, 0) | 1 << position
    every = (1 << len(first)) - 1
    row = every
    for token in second:
        met = row & places.get(token, 0)
        row = (row + met | row - met) & every
        yield row


def _backwards(first: Sequence[str], second: Sequence[str]) -> list[tuple[Literal["equal", "removed", "added"], str]]:
    """Return the steps from the end to the beginning, a token each."""
    rows = list(_rows(first, second))
    found: list[tuple[Literal["equal", "removed", "added"], str]] = []
    i, j = len(first), len(second)
    while i and j:
        if rows[j - 1] >> i - 1 & 1:  # the length does not grow at this token
            i -= 1
            found.append(("removed", first[i]))
        elif j > 1 and not rows[j - 2] >> i - 1 & 1:  # it has grown there before the second list's token came
            j -= 1
            found.append(("added", second[j]))
        else:
            i, j = i - 1, j - 1
            found.append(("equal", first[i]))
    found += [("removed", token) for token in reversed(first[:i])]
    found += [("added", token) for token in reversed(second[:j])]
    return found
