"""
Two texts side by side: their fingerprints, the shingles that they share, and the classical measures
of likeness.

    tokens ─┬─► features ─► fingerprints that differ in some bits; shingles that both have; Jaccard,
    its estimate
            └─► longest common subsequence ─► its share of the longer text; the steps from one text
            to the other
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rapidfuzz.distance import LCSseq, Postfix, Prefix

from worker.core.definition import Feature, Fingerprint, Kind, Parameters, explain, hamming_distance
from worker.core.fingerprint import Fingerprinter
from worker.core.sketch import sketch_similarity
from worker.core.tokens import tokens

# Of each text that the subsequence sees, equal beginnings and endings apart: 0.2 s, 60 MB.
TOKENS_MAX = 20_000


class Step(NamedTuple):
    """
    A run of tokens: in both lists, in the first alone (removed), or in the second alone (added).
    """

    kind: Literal["equal", "removed", "added"]
    first: list[str]  # as the first list has them; empty if they are added
    second: list[str]

    @property
    def tokens(self) -> list[str]:
        return self.first or self.second


@dataclass(frozen=True)
class Comparison:
    """What two texts have in common. Shares are 0 to 1; of two texts without tokens they are 1."""

    fingerprints: tuple[Fingerprint, Fingerprint]
    bits: int
    tokens: tuple[int, int]  # their numbers
    shared: list[tuple[Feature, Feature]]  # as each text has it, the heaviest first
    only: tuple[list[Feature], list[Feature]]  # shingles of one text alone, the heaviest first
    jaccard_words: float  # distinct tokens: shared / all
    jaccard_shingles: float  # distinct shingles that count: shared / all
    # Tokens of the longest common subsequence / of the longer text; at least, if not all were seen.
    subsequence: float
    # How many tokens of each text it saw: all, or their equal ends and TOKENS_MAX.
    subsequence_tokens: tuple[int, int]
    steps: list[Step]  # from the first text to the second, over these tokens

    @property
    def differing(self) -> int:
        """The bits in which the fingerprints differ, as a number."""
        return self.fingerprints[0].value ^ self.fingerprints[1].value

    @property
    def distance(self) -> int:
        """How many bits differ."""
        return hamming_distance(self.fingerprints[0].value, self.fingerprints[1].value)

    @property
    def similarity(self) -> float:
        """
        What a verdict calls similarity: `jaccard_shingles` as the sketches estimate it; of SHORT
        texts equality.
        """
        one, other = self.fingerprints
        if Kind.FULL in (one.kind, other.kind):
            return sketch_similarity(one.sketch, other.sketch) / 1_000
        return float(one.digest == other.digest)


def compare(
    first: str, second: str, parameters: Parameters, languages: tuple[str | None, str | None]
) -> Comparison:
    """
    Compare two texts under the same parameters.

    Args:
        languages: of each text, for parameters that go by the named language.

    Cost: about 3 µs per character for tokens and shingles (the definition, not the kernels).

    >>> found = compare("the ferry on the river", "the ferry on the lake", Parameters(tokens_min=2), (None, None))
    >>> found.subsequence, found.jaccard_words, [one.shingle for one in found.only[1]]
    (0.8, 0.6, ['the lake'])
    """
    texts = (first, second)
    words = [tokens(text, parameters.token_unit) for text in texts]
    made = tuple(Fingerprinter(parameters).batch(texts, languages).rows())
    found = (explain(text, parameters, name) for text, name in zip(texts, languages, strict=True))
    features = [{feature.hash: feature for feature in one} for one in found]
    shared = [(one, features[1][key]) for key, one in features[0].items() if key in features[1]]
    only = [
        sorted((one for key, one in mine.items() if key not in others), key=lambda one: -one.weight)
        for mine, others in (features, reversed(features))
    ]
    seen = _seen(*words)
    from_first_to_second = steps(*seen)
    common = sum(len(step.tokens) for step in from_first_to_second if step.kind == "equal")
    longer = max(len(words[0]), len(words[1]))
    return Comparison(
        fingerprints=(made[0], made[1]),
        bits=parameters.bits,
        tokens=(len(words[0]), len(words[1])),
        shared=sorted(shared, key=lambda pair: -pair[0].weight - pair[1].weight),
        only=(only[0], only[1]),
        jaccard_words=jaccard(set(words[0]), set(words[1])),
        jaccard_shingles=jaccard(set(features[0]), set(features[1])),
        subsequence=common / longer if longer else 1.0,
        subsequence_tokens=(len(seen[0]), len(seen[1])),
        steps=from_first_to_second,
    )


def jaccard(first: set[str] | set[int], second: set[str] | set[int]) -> float:
    """Return the share of what is in both sets of all that is in either; 1 for two empty sets."""
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def steps(first: Sequence[str], second: Sequence[str]) -> list[Step]:
    """
    Return the runs that take one list to the other; the equal ones together are a longest common
    subsequence.

    White space behind a token does not count.

    Cost: n * m / 64 steps and n * m bits for n and m tokens without their common beginning and end.

    >>> [(step.kind, " ".join(step.tokens)) for step in steps("a b c".split(), "b c d".split())]
    [('removed', 'a'), ('equal', 'b c'), ('added', 'd')]
    """
    numbers: dict[str, int] = {}
    numbered = (
        [numbers.setdefault(token.rstrip(), len(numbers)) for token in tokens]
        for tokens in (first, second)
    )
    found: list[Step] = []
    at = other_at = 0
    for block in LCSseq.editops(
        *numbered
    ).as_matching_blocks():  # the last one, behind both lists, is empty
        end = block.a + block.size
        found += [
            Step("removed", list(first[at : block.a]), []),
            Step("added", [], list(second[other_at : block.b])),
            Step("equal", list(first[block.a : end]), list(second[block.b : block.b + block.size])),
        ]
        at = end
        other_at = block.b + block.size
    return [step for step in found if step.tokens]


def _seen(first: list[str], second: list[str]) -> tuple[list[str], list[str]]:
    """
    The texts as the subsequence sees them: what lies between their equal ends is cut to TOKENS_MAX.
    """
    head = Prefix.similarity(first, second)
    tail = Postfix.similarity(first[head:], second[head:])
    if min(len(first), len(second)) == head + tail:
        return first, second
    return _shortened(first, head, tail), _shortened(second, head, tail)


def _shortened(words: list[str], head: int, tail: int) -> list[str]:
    behind = len(words) - tail
    return words[: min(head + TOKENS_MAX, behind)] + words[behind:]
