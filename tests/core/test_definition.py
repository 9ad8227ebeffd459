"""The definition of a fingerprint beside its golden vectors: the table, weights, parameters, doubts."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
import unicodedata2
from hypothesis import given
from hypothesis import strategies as st

from worker.core.definition import Parameters, doubts, explain
from worker.core.kernels import fingerprint as kernels
from worker.core.tokens import CODE_POINTS, SEPARATOR, nfc, unicode_table
from worker.errors import StopError


def test_the_table_and_the_library_are_of_one_unicode(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel sends on what may not be in NFC by the table's classes and pairs; another version is refused."""
    table = unicode_table()
    classes = [unicodedata2.combining(chr(code)) for code in range(CODE_POINTS)]
    assert np.flatnonzero(table.combining != np.array(classes)).tolist() == []
    assert {pair: ord(nfc(chr(pair[0]) + chr(pair[1]))) for pair in table.composed} == table.composed
    changed = {code for code in range(CODE_POINTS) if unicodedata2.normalize("NFD", chr(code)) != chr(code)}
    assert changed - set(range(0xAC00, 0xD7A4)) == set(table.canonical)
    monkeypatch.setattr(unicodedata2, "unidata_version", "19.0.0")
    with pytest.raises(StopError, match=r"19\.0\.0"):
        unicode_table.__wrapped__()


def test_every_letter_that_python_knows_is_no_separator() -> None:
    """Letters, digits and marks of the running Python's Unicode are word characters in the table too."""
    kind = unicode_table().kind
    lost = [
        hex(code) for code in range(0x110000) if unicodedata.category(chr(code))[0] in "LNM" and kind[code] == SEPARATOR
    ]
    assert lost == []


def test_an_anchored_shingle_weighs_three_of_the_others() -> None:
    """Shingles with a function word have weight 3, others 1, times what the term frequency makes of occurrences."""
    found = {
        feature.shingle: feature
        for feature in explain("red paint of the old red paint drips slowly down", Parameters(term_frequency="log"))
    }
    assert found["of the"].weight == 3
    assert found["drips slowly"].weight == 1
    assert found["red paint"].weight == 2
    assert found["red paint"].occurrences == 2


def test_a_named_language_anchors_its_own_words_only() -> None:
    """With anchors="named" the language decides; by default the text itself does, whatever its label says."""
    named = Parameters(anchors="named")
    text = "die Kinder spielen im Garten hinter dem Haus"
    german = {feature.shingle for feature in explain(text, named, "de") if feature.anchored}
    english = {feature.shingle for feature in explain(text, named, "en") if feature.anchored}
    assert "hinter dem" in german
    assert "hinter dem" not in english
    assert explain(text, Parameters(), "en") == explain(text, Parameters(), "de")


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"bits": 63}, "bits must be one of"),
        ({"shingle_widths": ()}, "shingle_widths must be"),
        ({"shingle_widths": (3, 2)}, "ascending"),
        ({"shingle_widths": (33,)}, "a width must be 1 to 32"),
        ({"shingle_widths": (9,)}, "would have no shingle"),
        ({"anchored_weight": 0}, "anchored_weight must be 1 to 255"),
        ({"fields": (("title", 0),)}, "field 'title'"),
    ],
)
def test_wrong_parameters_say_why(wrong: dict[str, object], reason: str) -> None:
    """Each bound has an error that names it."""
    with pytest.raises(ValueError, match=reason):
        Parameters(**wrong)  # type: ignore[arg-type]


def test_each_parameter_changes_the_hash() -> None:
    """No two of these sets of parameters may share an index."""
    sets = [
        Parameters(), Parameters(bits=32), Parameters(bits=128), Parameters(token_unit="character"),
        Parameters(shingle_widths=(3,)), Parameters(shingle_widths=(2, 3)), Parameters(anchored_weight=2),
        Parameters(unanchored_weight=0), Parameters(term_frequency="tf"), Parameters(anchors="named"),
        Parameters(anchors="union"), Parameters(tokens_min=9), Parameters(shingles_min=9),
        Parameters(mask_numbers=True), Parameters(mask_identifiers=True), Parameters(fields=(("title", 2),)),
        Parameters(stopwords=frozenset({"a"})),
    ]  # fmt: skip
    assert len({parameters.hash for parameters in sets}) == len(sets)
    assert all(len(parameters.hash) == 16 for parameters in sets)


@given(st.lists(st.integers(-(2**62), 2**62) | st.integers(-99, 99), min_size=128, max_size=128))
def test_the_kernels_doubts_are_those_of_the_definition(sums: list[int]) -> None:
    """Any sums, at any width."""
    tally = np.array(sums, np.int64)
    for bits in (32, 64, 128):
        shift, limit = kernels.doubt_rule.py_func(tally, bits)
        with np.errstate(over="ignore"):  # of bits that the fingerprint has not
            found = [kernels.doubts.py_func(tally[begin : begin + 64], shift, limit) for begin in range(0, bits, 64)]
        whole = sum(int(half) << 64 * place for place, half in enumerate(found)) & ((1 << bits) - 1)
        assert whole == doubts(sums[:bits])


def test_a_doubtful_sign_is_one_near_zero() -> None:
    """Below 0.35 of the root mean square, which is 20 here; a tie (7) is no doubt, nor are all zeros."""
    assert doubts([7, 43, 10, -1, 1]) == 0b11000
    assert doubts([0] * 64) == 0
    assert doubts([2**62, *[2**61] * 62, 2**58]) == 1 << 63
