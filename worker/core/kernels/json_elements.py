"""
Finds the end of an element of a JSON array, by strings and brackets.

It examines each byte once, in a state that is kept from one call to the next, so an element may
come in any number of pieces.

    [ {"a": [1, "] \\" "]}, …        state[LEVELS]: how many brackets are open
      ^                  ^          state[IN_STRING]: whether the next byte stands in a string
      called here        END, here

`tests/shell/test_table_formats.py` compares it with a definition in plain Python.
"""

# ruff: noqa: PLR0912, PLR1714, SIM109  # one state machine; "in (…)" compiles a function each
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import kernel

LEVELS_MAX = 1_000  # open brackets; `json` reads fewer
LEVELS, IN_STRING, STATE_SIZE = range(3)

# What it stopped at.
MORE = 0  # the end of the bytes; of a backslash, the byte behind it is missing
END = 1  # a comma or a bracket that ends the element, which is not part of it
CLOSES_NOTHING = 2  # behind a bracket that closes nothing, or another one
TOO_DEEP = 3  # behind a bracket
CONTROL = 4  # a control character in a string, or the backslash before it

_QUOTE, _BACKSLASH, _COMMA = 0x22, 0x5C, 0x2C
_OPEN_ARRAY, _CLOSE_ARRAY, _OPEN_OBJECT, _CLOSE_OBJECT = 0x5B, 0x5D, 0x7B, 0x7D


@kernel
def scan_element(data: Any, at: Any, open_brackets: Any, state: Any) -> Any:
    """
    Go on over an element.

    Args:
        data: bytes of the element, and of others behind it.
        at: where to go on in it.
        open_brackets: uint8[LEVELS_MAX], the brackets that are open; changed.
        state: int64[STATE_SIZE]; zeros before an element; changed.
    Returns:
        Where it stopped, and at what.

    Cost: O(bytes).
    """
    levels = state[LEVELS]
    in_string = state[IN_STRING]
    outcome = MORE
    while at < data.size and outcome == MORE:
        byte = data[at]
        if in_string:
            if byte == _BACKSLASH:
                if at + 1 == data.size:
                    break
                if data[at + 1] < 0x20:
                    outcome = CONTROL
                else:
                    at += 2
            elif byte < 0x20:
                outcome = CONTROL
            else:
                in_string = np.int64(byte != _QUOTE)
                at += 1
        elif levels == 0 and (byte == _COMMA or byte == _CLOSE_ARRAY):
            outcome = END
        else:
            at += 1
            if byte == _QUOTE:
                in_string = np.int64(1)
            elif byte == _OPEN_ARRAY or byte == _OPEN_OBJECT:
                if levels == LEVELS_MAX:
                    outcome = TOO_DEEP
                else:
                    open_brackets[levels] = byte
                    levels += 1
            elif byte == _CLOSE_ARRAY or byte == _CLOSE_OBJECT:
                # In ASCII, a bracket that opens has the number of its other one less two.
                if levels == 0 or open_brackets[levels - 1] != byte - 2:
                    outcome = CLOSES_NOTHING
                else:
                    levels -= 1
    state[LEVELS] = levels
    state[IN_STRING] = in_string
    return at, outcome
