"""
Reads a page that shows only a notice from its application's state, or adds its description.

Frameworks hand the data of a page to its script, under names of their own:

    <script id="__NEXT_DATA__" type="application/json">{"props": {"post": {"body": "..."}}}</script>
    <script>window.__APOLLO_STATE__ = {"Post:7": {"content": "<p>...</p>"}}</script>
    <meta name="description" content="...">

No key says which of the strings is the text. But prose is long, and code and addresses do not look
like it: it has spaces, and no brace. Paragraphs stand behind one key each time ("text"), and the
words of a site's buttons and boxes each behind its own. So the key with most prose is read, as one
text. A state that holds what the page shows is not read: the page is made of it already. Whether it
does is told by letters and digits, with escapes and references decoded and tags left out
(`letters_of_state`).

A description is a sentence or two, so it joins what the page shows, and takes no place of it. It
may be the site's, so no more of it is added than the page shows (`embedded.py`).

This is another pass over the page, so only one that shows up to 400 letters is read here.
`tests/core/pages/told_reference.py` says the same in plain Python.
"""

# ruff: noqa: PLR1714  # "in (…)" compiles a function for each tuple
from __future__ import annotations

from typing import Any

import numpy as np

from worker.core.compiled import apart, apart_allocating, fused, fused_allocating
from worker.core.kernels import machine
from worker.core.kernels.machine import SLACK, byte_at, put_code_point, set_byte
from worker.core.pages import characters, names
from worker.core.pages.characters import ABOUT_BYTE, ALNUM, CASE, LETTER, SPACE
from worker.core.pages.data import behind_tag, end_of_string, put_string, skip_space
from worker.core.pages.scan import read_name
from worker.core.pages.streamed import skip_declaration

PROSE_BYTES = 80  # a string of a state with as many may be prose
SPACES = 16  # prose has a space for so many bytes
WIDE = (
    2  # or one of so many of its bytes is in a character of three, as in Chinese, or in an escape
)

DESCRIPTION, NAME, PROPERTY, CONTENT = (
    np.frombuffer(word, np.uint8) for word in (b"description", b"name", b"property", b"content")
)
STATE_BEGIN, STATE_END, DESCRIPTION_BEGIN, DESCRIPTION_END = range(4)
SPANS = 4
SLOTS = 4_096  # for keys with prose: the messages of a site have hundreds, each with a sentence
PROBES = 16  # slots that a key may have: if others have them all, its prose is not read


@apart
def find_told(page: Any, i: Any, end: Any, spans: Any) -> None:
    """
    Find the longest state and the longest description of `page[i:end]`, from an address, into
    SPANS numbers that are 0.
    """
    templates = 0  # that are open: what stands in one is no part of the page
    while True:
        start = machine.find_less_than(page, i, end)
        if start >= end:
            return
        byte = byte_at(page, start + 1)
        if byte == 47 and ABOUT_BYTE[byte_at(page, start + 2)] & LETTER:
            i, key = read_name(page, start + 2, end)
            i = characters.read_attributes(page, i, end, np.int64(0))[0] + 1
            element = names.look_up(names.TAG_TABLE, key)
            templates -= templates > 0 and element & names.TAG == names.TEMPLATE
            continue
        if not ABOUT_BYTE[byte] & LETTER:
            i = skip_declaration(page, start, end)
            continue
        inner, key = read_name(page, start + 1, end)
        element = names.look_up(names.TAG_TABLE, key)
        tag = element & names.TAG
        i, _ = characters.read_attributes(page, inner, end, np.int64(0))
        if i >= end:  # the page's end cuts it off
            return
        i += 1
        templates += tag == names.TEMPLATE
        if tag == names.META and templates == 0:
            _note_description(page, inner, i, spans)
        elif tag == names.PLAINTEXT:
            return
        elif element & names.RAW:
            stop = (
                characters.skip_script(page, i, end)
                if tag == names.SCRIPT
                else characters.skip_raw(page, i, end, key, inner - start - 1)
            )
            if tag == names.SCRIPT and templates == 0:
                _note_state(page, inner, i, stop, spans)
            i = stop


@fused
def _note_state(page: Any, begin: Any, inner: Any, stop: Any, spans: Any) -> None:
    """
    Note a script with a state, if it is longer than the one before: `page[begin:inner]` are its
    attributes. JSON-LD is none: it names its types (data.py).
    """
    is_longer = stop - inner > spans[STATE_END] - spans[STATE_BEGIN]
    if not is_longer or characters.has_word(page, begin, inner, characters.LD_JSON):
        return
    if _is_state(page, inner, stop):
        spans[STATE_BEGIN] = inner
        spans[STATE_END] = stop


@fused
def _note_description(page: Any, begin: Any, end: Any, spans: Any) -> None:
    """Note the description of a <meta>, if it is longer than the one before."""
    value, stop = characters.find_attribute(page, begin, end, NAME)
    if value == stop:
        value, stop = characters.find_attribute(page, begin, end, PROPERTY)
    size = len(DESCRIPTION)
    if stop - value < size or not characters.spells(page, stop - size, stop, DESCRIPTION, CASE):
        return
    value, stop = characters.find_attribute(page, begin, end, CONTENT)
    if stop - value > spans[DESCRIPTION_END] - spans[DESCRIPTION_BEGIN]:
        spans[DESCRIPTION_BEGIN] = value
        spans[DESCRIPTION_END] = stop


@fused
def _is_state(page: Any, i: Any, end: Any) -> Any:
    """
    Return whether a script is data: it begins with { or [, or assigns such a value: `name = {`,
    `name = (function...`, as Nuxt writes it, or `name = JSON.parse(`.
    """
    i = skip_space(page, i, end)
    begin = i
    while i < end:
        byte = byte_at(page, i)
        if not (ABOUT_BYTE[byte] & (ALNUM | SPACE) or byte == 46 or byte == 95 or byte == 36):
            break
        i += 1
    is_named = i < end and byte_at(page, i) == 61
    if is_named:
        i = skip_space(page, i + 1, end)
    byte = byte_at(page, i) if i < end and (is_named or i == begin) else np.int64(0)
    return byte == 123 or byte == 91 or (is_named and (byte == 40 or byte == 74))


@fused_allocating
def state_text(page: Any, i: Any, end: Any) -> Any:
    """
    Return the prose behind one key of a state, `page[i:end]`, a line break before each, with SLACK
    zeros behind it; and its size, 0 if there is none. If it has none, its strings may be data, as
    in JSON.parse("...").
    """
    text = np.zeros(end - i + SLACK, np.uint8)
    to = np.int64(text.ctypes.data)
    at = _put_longest(page, i, end, to)
    if at == 0:
        inner = np.zeros(end - i + SLACK, np.uint8)
        size = _put_data(page, i, end, np.int64(inner.ctypes.data))
        inner[size : size + SLACK] = 0
        at = _put_inner(inner, size, to)
    text[at : at + SLACK] = 0
    return text, at


@apart_allocating
def _put_longest(page: Any, i: Any, end: Any, out: Any) -> Any:
    """Write the prose behind the key that has most of it. Returns where it ends."""
    keys = np.zeros(SLOTS + PROBES, np.uint64)
    sums = np.zeros(SLOTS + PROBES, np.int64)
    most = _longest_key(page, i, end, keys, sums)
    return _put_prose(page, i, end, out, keys[most]) if sums[most] else np.int64(0)


@apart
def _longest_key(page: Any, i: Any, end: Any, keys: Any, sums: Any) -> Any:
    """
    Count the bytes of prose behind each key into its slot of `sums`, which are 0. Returns the slot
    that has most, of two the one that had as much before the other.
    """
    key = names.SEED
    most = np.int64(0)
    i = machine.find_quote(page, i, end)
    while i < end:
        stop = end_of_string(page, i + 1, end)
        if _is_key(page, stop, end):
            key = _hash_of(page, i + 1, stop)
        elif stop < end and _is_prose(page, i + 1, stop):
            slot = np.int64(key % np.uint64(SLOTS))
            last = slot + PROBES - 1
            while slot < last and sums[slot] and keys[slot] != key:
                slot += 1
            if not sums[slot] or keys[slot] == key:
                keys[slot] = key
                sums[slot] += stop - i
                most = slot if sums[slot] > sums[most] else most
        i = machine.find_quote(page, stop + 1, end)
    return most


@apart
def _put_prose(page: Any, i: Any, end: Any, out: Any, wanted: Any) -> Any:
    """
    Write the prose in strings whose key has a hash, a line break before each. Returns where the
    text ends.
    """
    at = np.int64(0)
    key = names.SEED
    i = machine.find_quote(page, i, end)
    while i < end:
        stop = end_of_string(page, i + 1, end)
        if _is_key(page, stop, end):
            key = _hash_of(page, i + 1, stop)
        elif stop < end and key == wanted and _is_prose(page, i + 1, stop):
            set_byte(out, at, np.int64(10))
            at = put_string(page, i + 1, stop, out, at + 1)
        i = machine.find_quote(page, stop + 1, end)
    return at


@fused
def _is_key(page: Any, stop: Any, end: Any) -> Any:
    """Return whether the string that ends at `stop` is a key."""
    after = skip_space(page, stop + 1, end)
    return after < end and byte_at(page, after) == 58


@fused
def _hash_of(page: Any, i: Any, end: Any) -> Any:
    key = names.SEED
    for k in range(i, end):
        key = names.add_byte(key, byte_at(page, k))
    return names.finished(key)


@fused
def _put_data(page: Any, i: Any, end: Any, out: Any) -> Any:
    """Write the strings that are objects or arrays themselves. Returns where they end."""
    at = np.int64(0)
    i = machine.find_quote(page, i, end)
    while i < end:
        stop = end_of_string(page, i + 1, end)
        byte = byte_at(page, i + 1)
        if stop < end and (byte == 123 or byte == 91):
            at = put_string(page, i + 1, stop, out, at)
        i = machine.find_quote(page, stop + 1, end)
    return at


@apart_allocating
def _put_inner(array: Any, size: Any, out: Any) -> Any:
    """Write the prose of data in strings; its caller holds the array while this runs."""
    return _put_longest(np.int64(array.ctypes.data), np.int64(0), size, out)


@apart_allocating
def letters_of_state(page: Any, i: Any, end: Any, references: Any) -> Any:
    """
    Return the letters and digits of a state, `page[i:end]`, as a page would show its strings, with
    SLACK zeros behind them; and their size. What is a string of JSON in a string is decoded, too.
    """
    once = np.zeros(end - i + SLACK, np.uint8)
    size = put_string(page, i, end, np.int64(once.ctypes.data), np.int64(0))
    once[size : size + SLACK] = 0
    twice = np.zeros(size + SLACK, np.uint8)
    size = _put_again(once, size, np.int64(twice.ctypes.data))
    twice[size : size + SLACK] = 0
    letters = np.zeros(size * 3 // 2 + 2 * SLACK, np.uint8)  # no reference becomes longer
    size = _put_letters(twice, size, np.int64(letters.ctypes.data), references)
    letters[size : size + SLACK] = 0
    return letters, size


@apart
def _put_again(array: Any, size: Any, out: Any) -> Any:
    """Write the text of a string of JSON; its caller holds the array while this runs."""
    return put_string(np.int64(array.ctypes.data), np.int64(0), size, out, np.int64(0))


@apart
def _put_letters(array: Any, end: Any, out: Any, references: Any) -> Any:
    """Write what is a letter or a digit of a text with markup. Returns where it ends."""
    text = np.int64(array.ctypes.data)
    at = np.int64(0)
    i = np.int64(0)
    while i < end:
        byte = byte_at(text, i)
        if byte == 38:
            value, after = characters.reference(text, i, end, references)
            if after > i:
                code = value & 0xFFFFFF
                if code != 0xA0 and (code >= 0x80 or ABOUT_BYTE[code] & ALNUM):
                    at = put_code_point(out, at, code)
                i = after
                continue
        elif byte == 60:
            after, _ = behind_tag(text, i, end)
            if after > i:
                i = after
                continue
        elif is_letter(text, i):
            set_byte(out, at, byte)
            at += 1
        i += 1
    return at


@fused
def is_letter(text: Any, i: Any) -> Any:
    """Return whether a byte is of a letter or a digit, or of a character beyond ASCII: no space."""
    byte = byte_at(text, i)
    if (byte == 0xC2 and byte_at(text, i + 1) == 0xA0) or (
        byte == 0xA0 and byte_at(text, i - 1) == 0xC2
    ):
        return False
    return byte >= 0x80 or ABOUT_BYTE[byte] & ALNUM != 0


@fused
def _is_prose(page: Any, begin: Any, end: Any) -> Any:
    """
    Return whether a string of JSON is long, has the spaces of prose or wide characters, and has no
    brace.
    """
    if end - begin < PROSE_BYTES:
        return False
    spaces = 0
    wide = 0
    for k in range(begin, end):
        byte = byte_at(page, k)
        if byte == 123:
            return False
        spaces += byte == 32
        if byte >= 0xE0:
            wide += 3
        elif byte == 92 and k + 1 < end and byte_at(page, k + 1) == 117:
            wide += 6
    return spaces * SPACES >= end - begin or wide * WIDE >= end - begin


@fused
def put_description(page: Any, i: Any, end: Any, out: Any, begin: Any, references: Any) -> Any:
    """Write the value of an attribute as text to `begin`. Returns where it ends."""
    at = begin
    while i < end:
        i, at = characters.copy_text(page, i, end, out, begin, at, references)
        if i < end:
            set_byte(out, at, np.int64(60))
            at += 1
            i += 1
    if at > begin and byte_at(out, at - 1) == 32:
        at -= 1
    return at
