"""Golden vectors: a change of one bit in any script, edge case or parameter hash fails here."""

from __future__ import annotations

import pytest

from tests.core.golden import PARAMETERS, Golden, golden_hashes, goldens
from worker.core.definition import SCHEME_VERSION, define
from worker.core.fingerprint import Fingerprinter
from worker.core.tokens import UNICODE_VERSION

GOLDENS = goldens()


@pytest.mark.parametrize("golden", GOLDENS, ids=lambda golden: str(golden.name))
def test_the_definition_gives_the_golden_vector(golden: Golden) -> None:
    """Fingerprint, features, digest, kind and doubts, under each set of parameters."""
    made = {name: define(golden.text, parameters) for name, parameters in PARAMETERS.items()}
    assert made == golden.expected


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_kernel_gives_the_golden_vectors(name: str) -> None:
    """All of them in one batch."""
    batch = Fingerprinter(PARAMETERS[name]).batch([golden.text for golden in GOLDENS])
    assert list(batch.rows()) == [golden.expected[name] for golden in GOLDENS]


def test_parameters_have_their_golden_hashes() -> None:
    """An edited list of function words, or another default, is another index: it must be meant."""
    assert {name: parameters.hash for name, parameters in PARAMETERS.items()} == golden_hashes()
    assert {parameters.scheme for parameters in PARAMETERS.values()} == {
        f"simhash{bits}-{SCHEME_VERSION}-unicode-{UNICODE_VERSION}" for bits in (32, 64, 128)
    }
