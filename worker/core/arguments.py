"""
Checks the types of what a caller gives, and returns values of one type.

Equal values of different types (8 and 8.0, 0 and False) are one key of a cache, but two texts in
JSON. So a value whose JSON is hashed may not keep the type in which it was given.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable

import numpy as np

from worker.errors import safe_repr


def whole_number(name: str, value: object) -> int:
    """
    Return a whole number, such as one of numpy, as an `int`.

    Raises:
        TypeError: it is another kind of number, no number, or true or false.

    >>> whole_number("width", np.int64(3))
    3
    """
    if not isinstance(value, bool):
        try:
            return operator.index(value)  # type: ignore[arg-type]  # raises TypeError
        except TypeError:
            pass
    raise TypeError(f"{name} must be a whole number, got {safe_repr(value)}")


def switch(name: str, value: object) -> bool:
    """Return what is true or false, also of numpy, as a `bool`. TypeError: it is neither."""
    if isinstance(value, bool | np.bool_):
        return bool(value)
    raise TypeError(f"{name} must be True or False, got {safe_repr(value)}")


def texts(name: str, values: Iterable[object]) -> list[str]:
    """
    Return several texts as a list.

    Raises:
        TypeError: it is one text, whose characters are not meant, or something in it is no text.

    >>> texts("stopwords", "the and")
    Traceback (most recent call last):
    TypeError: stopwords must be several texts, got one, 'the and': put it into a list
    """
    if isinstance(values, str | bytes):
        raise TypeError(f"{name} must be several texts, got one, {values!r}: put it into a list")
    checked = []
    for value in values:
        if not isinstance(value, str):
            raise TypeError(f"{name} must be several texts, got {safe_repr(value)} among them")
        checked.append(str(value))
    return checked
