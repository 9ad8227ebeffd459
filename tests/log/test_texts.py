"""Text columns: their hashes are SipHash under a key that nobody knows, and decide nothing."""

from __future__ import annotations

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from tests.floods import doc_ids_of_one_xxh64
from tests.log.test_replica import DEFINITION, Step, record, replay, rows, steps
from tests.oracle import Oracle, read_answer, said
from worker.log.originals import OriginalStore
from worker.log.record import Row
from worker.log.replica import Replica
from worker.log.texts import Texts

ALL = (1 << 64) - 1


def rotated(value: int, bits: int) -> int:
    """Bits of a 64-bit number moved to the left, in a circle."""
    return (value << bits | value >> (64 - bits)) & ALL


def siphash(text: bytes, key: int, while_reading: int = 1, at_the_end: int = 3) -> int:
    """SipHash as its authors define it, as plainly as possible."""
    state = [
        part ^ constant
        for part, constant in zip(
            [key & ALL, key >> 64] * 2,
            [0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573],
            strict=True,
        )
    ]

    def stir(rounds: int) -> None:
        a, b, c, d = state
        for _ in range(rounds):
            a, c = (a + b) & ALL, (c + d) & ALL
            b, d = rotated(b, 13) ^ a, rotated(d, 16) ^ c
            a = rotated(a, 32)
            c, a = (c + b) & ALL, (a + d) & ALL
            b, d = rotated(b, 17) ^ c, rotated(d, 21) ^ a
            c = rotated(c, 32)
        state[:] = a, b, c, d

    padded = text + bytes(-(len(text) + 1) % 8) + bytes([len(text) & 0xFF])
    for at in range(0, len(padded), 8):
        word = int.from_bytes(padded[at : at + 8], "little")
        state[3] ^= word
        stir(while_reading)
        state[0] ^= word
    state[2] ^= 0xFF
    stir(at_the_end)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


def test_the_reference_is_siphash() -> None:
    """With 2 and 4 rounds it gives the number that the paper gives."""
    assert (
        siphash(bytes(range(15)), int.from_bytes(range(16), "little"), 2, 4) == 0xA129CA6149BE45E5
    )


@given(st.lists(st.binary(max_size=40)), st.integers(0, 2**128 - 1))
def test_hashes_are_siphash_of_each_text(texts: list[bytes], key: int) -> None:
    """
    With 1 and 3 rounds, as in Python and Rust; of every length, wherever it stands among the
    others.
    """
    assert Texts.of(texts).hashes(key).tolist() == [siphash(text, key) for text in texts]


@given(
    st.lists(st.binary(max_size=3), max_size=5),
    st.none() | st.integers(-7, 7),
    st.none() | st.integers(-7, 7),
)
def test_a_slice_is_that_of_a_list(texts: list[bytes], first: int | None, stop: int | None) -> None:
    """Also where it is empty, counts from the end or reaches beyond it."""
    assert Texts.of(texts)[first:stop].tolist() == texts[first:stop]


def test_a_text_is_that_of_a_list() -> None:
    """Rows may count from the end. Beyond either end there is no text."""
    texts = Texts.of([b"a", b"", b"bc"])
    assert [texts[row] for row in range(-3, 3)] == [b"a", b"", b"bc"] * 2
    for row in (-4, 3):
        with pytest.raises(IndexError):
            texts[row]


def test_a_slice_with_a_step_is_refused() -> None:
    """Its texts would not lie back to back."""
    with pytest.raises(ValueError, match="must be 1, got -1: `take` returns texts in any order"):
        Texts.of([b"a", b"b"])[::-1]


def test_row_25_doc_ids_chosen_for_one_hash_have_others() -> None:
    """
    So each is found at once: XXH64, whose key everybody knows, has one number for all of these.
    """
    chosen = [doc_id.encode() for doc_id in doc_ids_of_one_xxh64(1_000)]
    assert len(set(chosen)) == 1_000 and len({xxhash.xxh64_intdigest(text) for text in chosen}) == 1
    assert len(np.unique(Replica(DEFINITION).judge.held.hashes(Texts.of(chosen)))) == 1_000


@given(rows(), steps)
def test_row_25_doc_ids_of_one_hash_change_no_verdict(one: list[Row], taken: list[Step]) -> None:
    """
    Of other texts they are told apart by their bytes, wherever four hashes are all that there are.
    """
    with pytest.MonkeyPatch.context() as patch:
        hashes = OriginalStore.hashes
        patch.setattr(OriginalStore, "hashes", lambda held, doc_ids: hashes(held, doc_ids) & 3)
        records = [record({0: one}, step._replace(partition=0)) for step in taken]
        oracle, replica = Oracle(DEFINITION.search), replay(records)
    for data in records:
        oracle.apply(data)
    for (source, offset), expected in oracle.answers.items():
        assert said(read_answer(replica, source, offset)) == expected
