"""What known implementations get wrong: dead bits, languages without spaces, and what near and far must mean there."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from tests.core.golden import SAMPLES
from worker.core.definition import Kind, Parameters, hamming_distance
from worker.core.fingerprint import Fingerprinter
from worker.devkit.sample.crawl import LANGUAGES, Dice, load_language, write_article

WITHOUT_SPACES = ["th", "lo", "km", "my", "zh", "ja"]
BY_WORD = Parameters()
BY_CHARACTER = Parameters(token_unit="character", shingle_widths=(3,))


def articles(language: str, count: int) -> list[str]:
    """Unrelated articles in a language of the sample crawl."""
    dice = Dice(7)
    found = [write_article(str(number), load_language(language), dice) for number in range(count)]
    return ["\n".join(" ".join(sentences) for sentences in article.paragraphs) for article in found]


@pytest.mark.parametrize("bits", [32, 64, 128])
def test_every_bit_is_live(bits: Any) -> None:
    """Each bit is set in 40 to 60 % of unrelated articles in eight languages, at every width."""
    texts = [text for language in LANGUAGES for text in articles(language, 300)]
    rows = Fingerprinter(Parameters(bits=bits)).many(texts).reshape(len(texts), -1)
    shares = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little").mean(axis=0)
    assert shares[:bits].min() >= 0.40
    assert shares[:bits].max() <= 0.60
    assert not shares[bits:].any()


@pytest.mark.parametrize("language", ["zh", "ja"])
@pytest.mark.parametrize("parameters", [BY_WORD, BY_CHARACTER], ids=["words", "characters"])
def test_text_without_spaces_is_not_constant(language: str, parameters: Parameters) -> None:
    """Two hundred Chinese or Japanese articles have as many fingerprints, half of the bits apart; punctuation hardly
    counts."""
    texts = articles(language, 200)
    batch = Fingerprinter(parameters).batch([*texts, *(text.replace("。", "").replace("，", "") for text in texts)])
    assert set(batch.kinds.tolist()) == {Kind.FULL}
    values = batch.fingerprints[:200]
    assert len(set(values.tolist())) == 200
    assert 24 <= np.bitwise_count(values[:-1] ^ values[1:]).mean() <= 36
    assert np.bitwise_count(values ^ batch.fingerprints[200:]).max() <= 3


@pytest.mark.parametrize("language", WITHOUT_SPACES)
@pytest.mark.parametrize("parameters", [BY_WORD, BY_CHARACTER], ids=["words", "characters"])
def test_a_copy_without_spaces_is_near_and_another_text_far(language: str, parameters: Parameters) -> None:
    """One letter of some 200 changed moves a few bits, other markup none; another text of the language many."""
    prose, menu = SAMPLES[language]["prose"], SAMPLES[language]["menu"]
    text = " ".join(prose)
    rng = random.Random(1)
    places = rng.sample([at for at, letter in enumerate(text) if letter.isalpha()], 20)
    changed = [f"{text[:at]}{rng.choice(text)}{text[at + 1 :]}" for at in places]
    fingerprinter = Fingerprinter(parameters)
    original = fingerprinter.one(text)
    moved = [hamming_distance(original, fingerprinter.one(copy)) for copy in changed]
    assert sum(moved) / len(moved) <= 7
    assert max(moved) <= 12
    marked_up = f"\n“{text}”…\u200b\n"
    assert hamming_distance(original, fingerprinter.one(marked_up)) == 0
    for other in (" ".join(menu), " ".join(SAMPLES["th" if language != "th" else "zh"]["prose"])):
        assert hamming_distance(original, fingerprinter.one(other)) >= 20
    assert hamming_distance(*map(fingerprinter.one, prose)) >= 20
