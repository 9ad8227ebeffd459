"""Documents in fields, and weighted features of the caller's own."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.definition import Kind, Parameters, explain, fold, token_hash, wide_hash
from worker.core.fingerprint import Fingerprinter

BODY = "The old ferry crosses the river at noon, and nobody on board remembers who painted it green or why. " * 3


def test_one_field_of_weight_one_is_the_text() -> None:
    """Fields add nothing of their own."""
    parameters = Parameters(fields=(("body", 1),))
    assert Fingerprinter(parameters).of_fields([{"body": BODY}]).fingerprints[0] == Fingerprinter().one(BODY)


def test_a_word_in_each_field_is_a_short_document_and_none_is_an_empty_one() -> None:
    """Eight fields of one word have no shingle at all; only equal fields match, in the same order."""
    names = [f"field{number}" for number in range(8)]
    fingerprinter = Fingerprinter(Parameters(fields=tuple((name, 1) for name in names)))
    words = {name: f"w{name}" for name in names}
    swapped = words | {names[0]: words[names[1]], names[1]: words[names[0]]}
    batch = fingerprinter.of_fields([words, swapped, {}, dict.fromkeys(names, " - ")])
    assert batch.kinds.tolist() == [Kind.SHORT, Kind.SHORT, Kind.EMPTY, Kind.EMPTY]
    assert batch.features.tolist() == [1, 1, 0, 0]
    assert batch.fingerprints[0] == batch.digests[0] != batch.digests[1]
    assert batch.fingerprints[2:].tolist() == [0, 0]


def test_weights_multiply() -> None:
    """The weight of a feature is that of its shingle times that of its field."""
    parameters = Parameters(fields=(("title", 200), ("body", 1)))
    found = explain({"title": "ferry of noon", "body": BODY}, parameters)
    assert [feature.weight for feature in found[:2]] == [600, 600]
    assert "ferry of" in [feature.shingle for feature in found[:2]]


def test_a_field_without_weight_is_refused() -> None:
    """It would be left out without a word."""
    with pytest.raises(ValueError, match=r"got fields \['footer'\] and weights"):
        Fingerprinter(Parameters(fields=(("body", 1),))).of_fields([{"footer": "x"}])
    with pytest.raises(ValueError, match="must weigh each field"):
        Fingerprinter().of_fields([{}])
    with pytest.raises(ValueError, match="got 1 documents, 0 languages"):
        Fingerprinter(Parameters(fields=(("a", 1), ("b", 1)))).of_fields([{}], [])


@given(
    st.dictionaries(st.integers(0, 2**64 - 1), st.integers(1, 2**40), min_size=1, max_size=80),
    st.sampled_from([32, 64, 128]),
)
def test_a_bit_is_set_where_its_features_outweigh_the_others(features: dict[int, int], bits: int) -> None:
    """Weights far above 255 count in full, at every width."""
    total, wide = sum(features.values()), [(wide_hash(value, bits), weight) for value, weight in features.items()]
    outweigh = [2 * sum(weight for value, weight in wide if value >> bit & 1) > total for bit in range(bits)]
    assert fold(features.items(), bits) == sum(1 << bit for bit in range(bits) if outweigh[bit])


def test_the_order_of_own_features_is_irrelevant_and_text_stands_for_its_hash() -> None:
    """A dictionary filled in any order gives one fingerprint."""
    fingerprinter = Fingerprinter()
    features = {f"feature {number}": number + 1 for number in range(300)}
    shuffled = list(features.items())
    random.Random(1).shuffle(shuffled)
    value = fingerprinter.of_features(features)
    assert value == fingerprinter.of_features(dict(shuffled))
    assert value == fingerprinter.of_features({token_hash(name): weight for name, weight in features.items()})


@pytest.mark.parametrize(
    ("features", "reason"),
    [
        ({}, "sum to 1"),
        ({1: 0}, "at least 1, got 0"),
        ({-1: 1}, "64 bits, got -0x1"),
        ({2**64: 1}, "64 bits"),
        ({1: 2**62}, "sum to 1 to 2"),
    ],
)
def test_features_that_have_no_fingerprint_say_why(features: dict[int, int], reason: str) -> None:
    """None at all would be equal to every other nothing; a sum beyond 64 bits would turn its sign."""
    with pytest.raises(ValueError, match=reason):
        Fingerprinter().of_features(features)


def test_features_of_numpys_are_features_and_fractions_are_not() -> None:
    """All bits of a wide fingerprint from NumPy's keys; a weight of 1.5 is refused, and does not count as 1."""
    keys = np.random.default_rng(1).integers(0, 2**64, 40, np.uint64)
    for bits in (32, 64, 128):
        fingerprints = Fingerprinter(Parameters(bits=bits))
        plain = fingerprints.of_features({int(key): 3 for key in keys})
        numpys: Any = dict.fromkeys(keys, np.int64(3))
        assert fingerprints.of_features(numpys) == plain
    fractions: Any = {1: 1.9, 2: 1.1}
    with pytest.raises(TypeError, match="float"):
        Fingerprinter().of_features(fractions)


def test_many_documents_in_fields_are_the_same_in_portions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the portion, with languages and without; and no documents are no fingerprints."""
    fingerprints = Fingerprinter(Parameters(fields=(("title", 4), ("body", 1)), anchors="named"))
    documents = [
        {"title": f"The ferry {n}", "body": f"It was late again, {n} times, and nobody has said why."} for n in range(7)
    ]
    languages = ["en", None, "de", "en", "en", None, "fr"]
    whole = fingerprints.of_fields(documents, languages)
    monkeypatch.setattr("worker.core.fingerprint.CHUNK_CHARACTERS", 100)
    for column, found in zip(whole, fingerprints.of_fields(documents, languages), strict=True):
        np.testing.assert_array_equal(np.asarray(column), np.asarray(found))
    assert fingerprints.of_fields([]).fingerprints.tolist() == []
    with pytest.raises(ValueError, match="must weigh each field"):
        Fingerprinter().of_fields([])
