"""Tables with two slots for each hash: every word is found, and nothing else is."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from worker.core.compiled import kernel
from worker.core.kernels.two_slots import look_up, table_of
from worker.core.pages.names import lookup_table


@kernel
def _look_up_all(rows: Any, keys: Any, found: Any) -> None:
    for place in range(keys.size):
        found[place] = look_up(rows, keys[place])


def _found(rows: Any, keys: list[int]) -> list[int]:
    found = np.empty(len(keys), np.uint64)
    _look_up_all(rows, np.array(keys, np.uint64), found)
    return found.tolist()


@pytest.mark.parametrize("count", [0, 1, 15, 3_000])
@pytest.mark.parametrize("shared_bits", [0, 5])
def test_each_hash_has_its_value_and_others_have_none(count: int, shared_bits: int) -> None:
    """This also holds if all hashes end in the same bits and so compete for a few first slots."""
    seed = 1_000 * count + shared_bits
    print(f"seed {seed}")
    dice = random.Random(seed)
    keys = sorted({dice.getrandbits(64 - shared_bits) << shared_bits | 1 for _ in range(2 * count)})
    dice.shuffle(keys)
    there, others = keys[:count], keys[count:]
    values = {key: dice.getrandbits(63) + 1 for key in there}
    rows = table_of(values)
    assert _found(rows, there) == [values[key] for key in there]
    assert _found(rows, [*others, 0]) == [0] * (len(others) + 1)


def test_two_names_with_one_hash_are_refused() -> None:
    """FNV-1a gives these two the same 64 bits."""
    both = "'7mohtcOFVz' and 'c1E51sSEyx' with 0x184ade9a544fa776"
    with pytest.raises(ValueError, match=both):
        lookup_table({"7mohtcOFVz": 1, "nav": 2, "c1E51sSEyx": 3})
