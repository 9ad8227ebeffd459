"""
Compares two texts: their fingerprints, the shingles they share, classical measures of likeness, and
how their difference is spread.

    tokens ─┬─► features ─► fingerprints that differ in some bits; shingles of both; Jaccard
            └─► longest common subsequence ─► steps from one text to the other ─► passages, places
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rapidfuzz.distance import LCSseq, Postfix, Prefix

from worker.core.definition import Feature, Fingerprint, Kind, Parameters, explain, hamming_distance
from worker.core.fingerprint import Fingerprinter
from worker.core.sketch import sketch_similarity
from worker.core.tokens import is_character, tokens

# Of each text that the subsequence sees, equal beginnings and endings apart: 0.2 s, 60 MB.
TOKENS_MAX = 20_000

# The rule of `spread`. It was set on pairs of labelled articles, 40 of each kind, and on templates
# of the sample crawl: of articles whose advertisements rotate 99 % or more differ in blocks, of
# those with scattered other words none, of product, job, flat and weather pages none. Pages with
# whole tables or paragraphs of their own (figures, legal notices) mostly differ in blocks.
PASSAGE_WORDS_MIN = 10
# Sketches have shingles of four words, so differences that are this close share none between them.
# Two advertisements always have a "the" or an "of the" in common, which must not divide a passage.
GAP_TOKENS_MAX = 3
CHARACTERS_PER_WORD = 3  # in scripts without spaces, as in the shingles of a sketch


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


class Place(NamedTuple):
    """
    A place where two texts differ, between tokens that both have. Counts the tokens of each text
    there.
    """

    first: int
    second: int

    @property
    def tokens(self) -> int:
        """Of the text that has more of them."""
        return max(self.first, self.second)


@dataclass(frozen=True)
class Spread:
    """
    The distribution of the differences between two texts: in blocks, or scattered.

    kind      "equal"      nothing differs
              "blocks"     at least half of the tokens that differ stand in passages
              "scattered"  fewer do
              "other"      less than two thirds of the shorter text are in the other, too
    """

    kind: Literal["equal", "blocks", "scattered", "other"]
    passages: list[Place]  # the longest first
    scattered: list[Place]  # all other places, in the order of the texts
    shared: float  # share of the shorter text's tokens that the other text has, in the same order

    @property
    def text(self) -> str:
        """
        The difference in words, with what it may mean as a question.

        >>> Spread("blocks", [Place(40, 38), Place(20, 31)], [Place(1, 1)], 0.8).text
        'differs in blocks (2 passages of 40 and 31 words, 1 scattered place): advertisements?'
        >>> Spread("scattered", [], [Place(1, 1)] * 37, 0.9).text
        'differs in 37 scattered places: other facts?'
        """
        if self.kind == "equal":
            return "token for token the same"
        if self.kind == "other":
            return f"mostly other text: shares {self.shared:.0%} of the shorter one's words"
        if self.kind == "blocks":
            return f"differs in blocks ({self._blocks}): {self._reason_of_blocks}?"
        if len(self.scattered) == 1 and not self.passages:
            length = self.scattered[0].tokens
            reason = "an edit" if length < PASSAGE_WORDS_MIN else "other facts"
            return f"differs in 1 place ({_counted(length, 'word')}): {reason}?"
        places = _counted(len(self.scattered), "scattered place")
        behind = f" and {_passages(self.passages)}" if self.passages else ""
        return f"differs in {places}{behind}: other facts?"

    @property
    def _blocks(self) -> str:
        if not self.scattered:
            return _passages(self.passages)
        return f"{_passages(self.passages)}, {_counted(len(self.scattered), 'scattered place')}"

    @property
    def _reason_of_blocks(self) -> str:
        """One text alone has passages where it goes on, or where the other was cut."""
        if not any(place.first for place in self.passages):
            return "text added to B, or cut from A"
        if not any(place.second for place in self.passages):
            return "text added to A, or cut from B"
        return "advertisements"


PASSAGES_NAMED = 3


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def _passages(passages: Sequence[Place]) -> str:
    """Name passages by their lengths, the longest ones where there are many."""
    lengths = [f"{place.tokens:,}" for place in passages]
    if len(lengths) > PASSAGES_NAMED:
        return f"{len(lengths)} passages of up to {lengths[0]} words"
    if len(lengths) == 1:
        return f"1 passage of {lengths[0]} words"
    return f"{len(lengths)} passages of {', '.join(lengths[:-1])} and {lengths[-1]} words"


@dataclass(frozen=True)
class Comparison:
    """
    The result of comparing two texts. Shares are 0 to 1; for two texts without tokens, they are 1.
    """

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
    def spread(self) -> Spread:
        """
        How the difference is spread, as far as the subsequence saw the texts.

        Cost: O(steps), at each call.
        """
        return spread(self.steps)

    @property
    def differing(self) -> int:
        """The bits in which the fingerprints differ, as a number."""
        return self.fingerprints[0].value ^ self.fingerprints[1].value

    @property
    def distance(self) -> int:
        """The Hamming distance of the fingerprints."""
        return hamming_distance(self.fingerprints[0].value, self.fingerprints[1].value)

    @property
    def similarity(self) -> float:
        """
        The similarity of a verdict: `jaccard_shingles` as the sketches estimate it. Two SHORT texts
        are equal or not.
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
        languages: the language of each text, for parameters that use the named language.

    Cost: about 3 µs per character for tokens and shingles (the definition, not the kernels).

    >>> rules = Parameters(tokens_min=2)
    >>> found = compare("the ferry on the river", "the ferry on the lake", rules, (None, None))
    >>> found.subsequence, found.jaccard_words, [one.shingle for one in found.only[1]]
    (0.8, 0.6, ['the lake'])
    """
    texts = (first, second)
    words = [tokens(text, parameters.token_unit) for text in texts]
    fingerprints = list(Fingerprinter(parameters).batch(texts, languages).rows())
    features = [
        _features_by_hash(text, parameters, name)
        for text, name in zip(texts, languages, strict=True)
    ]
    common_hashes = [key for key in features[0] if key in features[1]]
    shared = [(features[0][key], features[1][key]) for key in common_hashes]
    compared = _seen(*words)
    from_first_to_second = steps(*compared)
    common = sum(len(step.tokens) for step in from_first_to_second if step.kind == "equal")
    longer = max(len(words[0]), len(words[1]))
    return Comparison(
        fingerprints=(fingerprints[0], fingerprints[1]),
        bits=parameters.bits,
        tokens=(len(words[0]), len(words[1])),
        shared=sorted(shared, key=lambda pair: -pair[0].weight - pair[1].weight),
        only=(_only_in(features[0], features[1]), _only_in(features[1], features[0])),
        jaccard_words=jaccard(set(words[0]), set(words[1])),
        jaccard_shingles=jaccard(set(features[0]), set(features[1])),
        subsequence=common / longer if longer else 1.0,
        subsequence_tokens=(len(compared[0]), len(compared[1])),
        steps=from_first_to_second,
    )


def _features_by_hash(
    text: str, parameters: Parameters, language: str | None
) -> dict[int, Feature]:
    return {feature.hash: feature for feature in explain(text, parameters, language)}


def _only_in(features: Mapping[int, Feature], others: Mapping[int, Feature]) -> list[Feature]:
    """Return the features that the others lack, the heaviest first."""
    alone = [feature for key, feature in features.items() if key not in others]
    return sorted(alone, key=lambda feature: -feature.weight)


def jaccard(first: set[str] | set[int], second: set[str] | set[int]) -> float:
    """
    Return the number of common elements divided by the number of all elements; 1 for two empty
    sets.

    Cost: O(elements).

    >>> jaccard({"a", "b"}, {"b", "c"})
    0.3333333333333333
    """
    union = len(first | second)
    return len(first & second) / union if union else 1.0


def steps(first: Sequence[str], second: Sequence[str]) -> list[Step]:
    """
    Return the runs of an edit script from one list to the other. Its equal runs together are a
    longest common subsequence.

    White space behind a token does not count.

    Cost: n * m / 64 steps and n * m bits for n and m tokens without their common beginning and end.

    >>> [(step.kind, " ".join(step.tokens)) for step in steps("a b c".split(), "b c d".split())]
    [('removed', 'a'), ('equal', 'b c'), ('added', 'd')]
    """
    numbers: dict[str, int] = {}
    numbered = [_numbered(first, numbers), _numbered(second, numbers)]
    script: list[Step] = []
    at = other_at = 0
    # The last block, behind both lists, is empty.
    for block in LCSseq.editops(*numbered).as_matching_blocks():
        end = block.a + block.size
        script += [
            Step("removed", list(first[at : block.a]), []),
            Step("added", [], list(second[other_at : block.b])),
            Step("equal", list(first[block.a : end]), list(second[block.b : block.b + block.size])),
        ]
        at = end
        other_at = block.b + block.size
    return [step for step in script if step.tokens]


def _numbered(tokens: Sequence[str], numbers: dict[str, int]) -> list[int]:
    """Return a number for each token, and note those of new ones: equal tokens, equal numbers."""
    return [numbers.setdefault(token.rstrip(), len(numbers)) for token in tokens]


def spread(steps: Sequence[Step]) -> Spread:
    """
    Tell a difference in blocks from a scattered one.

    Tokens that differ make one place when at most GAP_TOKENS_MAX equal tokens stand between them. A
    place is a passage when it is at least PASSAGE_WORDS_MIN words long and more of it differs than
    is equal: a row of single facts, each with a word between, is long but no passage.

    Args:
        steps: from one text to the other, as `steps` returns them.

    Cost: O(tokens).

    >>> spread(steps("the ferry is late".split(), "the train is late".split())).text
    'differs in 1 place (1 word): an edit?'
    """
    passages: list[Place] = []
    scattered: list[Place] = []
    for place_steps in _places(steps):
        removed = [token for step in place_steps if step.kind == "removed" for token in step.first]
        added = [token for step in place_steps if step.kind == "added" for token in step.second]
        equal = [token for step in place_steps if step.kind == "equal" for token in step.first]
        longer = max(_thirds(removed), _thirds(added))
        is_passage = longer >= PASSAGE_WORDS_MIN * CHARACTERS_PER_WORD and longer > _thirds(equal)
        (passages if is_passage else scattered).append(Place(len(removed), len(added)))
    common = sum(len(step.first) for step in steps if step.kind == "equal")
    removed_count = sum(len(step.first) for step in steps if step.kind == "removed")
    added_count = sum(len(step.second) for step in steps if step.kind == "added")
    shorter = common + min(removed_count, added_count)
    if shorter:
        shared = common / shorter
    else:  # one text, or both, without a token
        shared = float(removed_count == added_count)
    passages.sort(key=lambda place: -place.tokens)
    return Spread(_kind(passages, scattered, shared), passages, scattered, shared)


def _places(steps: Sequence[Step]) -> Iterator[list[Step]]:
    """Yield the steps of each place; short equal runs within it are part of it."""
    place: list[Step] = []
    for step in steps:
        if step.kind != "equal" or (place and len(step.first) <= GAP_TOKENS_MAX):
            place.append(step)
        elif place:
            yield _without_equal_end(place)
            place = []
    if place:
        yield _without_equal_end(place)


def _without_equal_end(place: list[Step]) -> list[Step]:
    return place[:-1] if place[-1].kind == "equal" else place


def _thirds(tokens: Sequence[str]) -> int:
    """Return the length of tokens in thirds of a word, which one character is."""
    characters = sum(map(is_character, tokens))
    return CHARACTERS_PER_WORD * (len(tokens) - characters) + characters


def _kind(
    passages: Sequence[Place], scattered: Sequence[Place], shared: float
) -> Literal["equal", "blocks", "scattered", "other"]:
    if not passages and not scattered:
        return "equal"
    if 3 * shared < 2:
        return "other"
    in_passages = sum(place.tokens for place in passages)
    return "blocks" if in_passages >= sum(place.tokens for place in scattered) else "scattered"


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
