"""
Reads a page that shows only a notice from the states of its application, or adds its description.

Frameworks hand the data of a page to its script, under names of their own and in ways of their own:

    <script id="__NEXT_DATA__" type="application/json">{"props": {"post": {"body": "..."}}}</script>
    <script>window.__APOLLO_STATE__ = {"Post:7": {"content": "<p>...</p>"}}</script>
    <script>self.__next_f.push([1, "5:[\\"$\\",null,{\\"text\\":\\"...\\"}]"])</script>
    <div id="app" data-page="{&quot;props&quot;:{&quot;body&quot;:&quot;...&quot;}}">
    <template><article>...</article></template>  <!-- <article>...</article> -->
    <script type="text/markdown">...</script>  <textarea>...</textarea>
    <meta itemprop="articleBody" content="...">
    <meta name="description" content="...">

Markup that is not shown is noted, the longest of scripts, whole templates and comments: a script
may show it. A block of data that is no JSON is text, and a field is.

No key says which of the strings is the text. But prose is long, and code and addresses do not look
like it: it has spaces, and no brace. Paragraphs stand behind one key each time ("text"), and the
words of a site's buttons and boxes each behind its own. So the key with most prose in all states is
read, as one text: the longest state may be the words of the site. A state that holds what the page
shows is not read: the page is made of it already. Whether it does is told by letters and digits,
with escapes and references decoded and tags left out (`letters_of_state`).

Of a script's syntax only its first byte, its strings and the colon behind a key are looked at.
Strings hold most of a state, and little of code. What stands behind no key has an empty one in a
script, and the attribute's name in an attribute: no key goes on from one state to the next.

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
from worker.core.kernels.machine import SLACK, byte_at, copy_bytes, put_code_point, set_byte
from worker.core.pages import characters, names
from worker.core.pages.characters import ABOUT_BYTE, ALNUM, CASE, LETTER, put_value, skip_space
from worker.core.pages.data import behind_tag, put_bytes, put_string
from worker.core.pages.scan import is_markup, read_name
from worker.core.pages.streamed import skip_declaration

PROSE_BYTES = 80  # a string of a state with as many may be prose
SPACES = 16  # prose has a space for so many bytes
WIDE = 2  # ... or one of so many of its bytes in a character of three, as in Chinese, or an escape

# fmt: off
(COMMENT, DESCRIPTION, NAME, PROPERTY, CONTENT, ITEMPROP, DATA_NAME, TYPE, SCRIPT, MODULE,
 ESCAPED_QUOTE, NO_KEY) = (
    np.frombuffer(word, np.uint8)
    for word in (b"<!--", b"description", b"name", b"property", b"content", b"itemprop", b"data-",
                 b"type", b"script", b"module", b"&q;", b'"":')
)
# fmt: on
# Angular's names of characters in a state: &q; &a; &s; &l; &g;
ESCAPES = np.frombuffer(b"qaslg", np.uint8)
ESCAPED = np.frombuffer(b"\"&'<>", np.uint8)
SLOTS = 4_096  # for keys with prose: the messages of a site have hundreds, each with a sentence
PROBES = 16  # slots that a key may have: if others have them all, its prose is not read


@fused_allocating
def told_of(page: Any, begin: Any, end: Any, markup: Any, description: Any, references: Any) -> Any:
    """
    Return the states of the page `page[begin:end]`, from an address, each with a zero behind it;
    and their size. Writes where the longest markup that is not shown, and the longest description
    begin and end into `markup` and `description`, two numbers each.
    """
    # No reference becomes more than half as long again, and the rest is less than an attribute has.
    states = np.zeros(2 * (end - begin + SLACK), np.uint8)
    to = np.int64(states.ctypes.data)
    size = _find_told(page, begin, end, to, markup, description, references)
    states[size : size + SLACK] = 0
    return states, size


@apart
def _find_told(
    page: Any, i: Any, end: Any, out: Any, markup: Any, description: Any, references: Any
) -> Any:
    """Write the states, and note markup and description. Returns where the states end."""
    at = np.int64(0)
    templates = 0  # that are open: what stands in one is no part of the page
    outermost = np.int64(0)  # where the content of the outermost one begins
    while True:
        start = machine.find_less_than(page, i, end)
        if start >= end:
            return at
        byte = byte_at(page, start + 1)
        if byte == 47 and ABOUT_BYTE[byte_at(page, start + 2)] & LETTER:
            i, key = read_name(page, start + 2, end)
            i, _ = characters.read_attributes(page, i, end, np.int64(0))
            element = names.look_up(names.TAG_TABLE, key)
            is_whole = i < end
            i += 1
            ends = is_whole and templates > 0 and element & names.TAG == names.TEMPLATE
            templates -= ends
            if ends and templates == 0:
                _note_markup(page, outermost, start, markup)
            continue
        if not ABOUT_BYTE[byte] & LETTER:
            i = skip_declaration(page, start, end)
            if templates == 0 and characters.spells(page, start, end, COMMENT, 0):
                _note_markup(page, start + len(COMMENT), i, markup)
            continue
        inner, key = read_name(page, start + 1, end)
        element = names.look_up(names.TAG_TABLE, key)
        tag = element & names.TAG
        i, _ = characters.read_attributes(page, inner, end, np.int64(0))
        if i >= end or tag == names.PLAINTEXT:  # the page's end cuts it off
            return at
        i += 1
        outermost = i if templates == 0 else outermost
        templates += tag == names.TEMPLATE
        if templates == 0 and i - inner > PROSE_BYTES:
            takes_all = element == 0 and characters.has_hyphen(page, start + 1, inner)
            if tag == names.META:
                item, item_end = characters.find_attribute(page, inner, i, ITEMPROP)
                takes_all = item < item_end
            at = _put_attributes(page, inner, i, out, at, (takes_all, references))
        if templates == 0 and tag == names.META:
            _note_description(page, inner, i, description)
        if element & names.RAW:
            stop = (
                characters.skip_script(page, i, end)
                if tag == names.SCRIPT
                else characters.skip_raw(page, i, end, key, inner - start - 1)
            )
            if templates == 0:
                at = _put_raw(page, tag, inner, i, stop, out, at, markup)
            i = stop


@fused
def _put_raw(
    page: Any, tag: Any, inner: Any, i: Any, stop: Any, out: Any, at: Any, markup: Any
) -> Any:
    """Write a script that is data, or a field; note a script that is markup. Returns as above."""
    if tag == names.SCRIPT:
        _note_markup(page, i, stop, markup)
        return _put_state(page, i, stop, out, at, _is_code(page, inner, i))
    return _put_text(page, i, stop, out, at) if tag == names.TEXTAREA else at


@fused
def _note_description(page: Any, begin: Any, end: Any, description: Any) -> None:
    """Note the description of a <meta>, if it is longer than the one before."""
    value, stop = characters.find_attribute(page, begin, end, NAME)
    if value == stop:
        value, stop = characters.find_attribute(page, begin, end, PROPERTY)
    size = len(DESCRIPTION)
    if stop - value < size or not characters.spells(page, stop - size, stop, DESCRIPTION, CASE):
        return
    value, stop = characters.find_attribute(page, begin, end, CONTENT)
    if stop - value > description[1] - description[0]:
        description[0] = value
        description[1] = stop


@fused
def _note_markup(page: Any, begin: Any, end: Any, markup: Any) -> None:
    """Note what is markup, if it is longer than the one before."""
    if end - begin > markup[1] - markup[0] and is_markup(page, begin, end):
        markup[0] = begin
        markup[1] = end


@fused
def _is_code(page: Any, begin: Any, end: Any) -> Any:
    """Return whether the attributes of a script let it be one, and not a block of data."""
    value, stop = characters.find_attribute(page, begin, end, TYPE)
    return (
        value == stop
        or characters.has_word(page, value, stop, SCRIPT)
        or characters.has_word(page, value, stop, MODULE)
    )


@fused
def _put_attributes(page: Any, i: Any, end: Any, out: Any, at: Any, about: Any) -> Any:
    """
    Write the attributes of a tag that are data: an object or an array, and prose, as a string, if
    it is named data-..., or in any attribute if the tag `takes_all`: a custom element, and a <meta>
    that says something of an item. The name is the key of each. Returns where they end.
    """
    takes_all, references = about
    while i < end:
        name, name_end, value, value_end, i = characters.next_attribute(page, i, end)
        if value_end - value < PROSE_BYTES:
            continue
        byte = byte_at(page, value)
        mark = np.int64(32 if byte == 123 or byte == 91 else 96)
        is_named = takes_all or characters.spells(page, name, name_end, DATA_NAME, CASE)
        if mark == 96 and not (is_named and _is_prose(page, value, value_end)):
            continue
        set_byte(out, at, np.int64(34))
        at += 1
        for k in range(name, name_end):
            byte = byte_at(page, k)
            set_byte(out, at, byte | 32 if 65 <= byte <= 90 else byte)
            at += 1
        set_byte(out, at, np.int64(34))
        set_byte(out, at + 1, np.int64(58))
        set_byte(out, at + 2, mark)
        at = put_value(page, value, value_end, out, at + 3, references)
        set_byte(out, at, mark)
        set_byte(out, at + 1, np.int64(0))
        at += 2
    return at


@fused
def _put_state(page: Any, i: Any, end: Any, out: Any, at: Any, is_code: Any) -> Any:
    """
    Write a script that is data: it begins with an object or an array, strings hold half of it, or
    it is too short for prose and may close what others have begun. Most of a script that is code
    stands in no string. A block of data of another type is text. Returns where it ends.
    """
    i = skip_space(page, i, end)
    byte = byte_at(page, i) if i < end else np.int64(0)
    if byte != 123 and byte != 91:
        inside = np.int64(0)
        begin, stop = _next_string(page, i, end, False)
        while begin < end:
            inside += stop - begin
            begin, stop = _next_string(page, stop + 1, end, False)
        if i >= end or (inside * 2 < end - i and (end - i >= PROSE_BYTES or not is_code)):
            return at if is_code or byte == 60 else _put_text(page, i, end, out, at)
    at = put_bytes(out, at, NO_KEY)
    if characters.spells(page, i + 1, end, ESCAPED_QUOTE, 0):
        at = _put_unescaped(page, i, end, out, at)
    else:
        copy_bytes(page, i, out, at, end - i)
        at += end - i
    set_byte(out, at, np.int64(0))
    return at + 1


@fused
def _put_unescaped(page: Any, i: Any, end: Any, out: Any, at: Any) -> Any:
    """
    Write a state of Angular before version 17, which writes "&q;" for a quotation mark, and so on.
    Returns where it ends.
    """
    while i < end:
        byte = byte_at(page, i)
        if byte == 38 and i + 2 < end and byte_at(page, i + 2) == 59:
            letter = byte_at(page, i + 1)
            for k in range(len(ESCAPES)):
                if letter == ESCAPES[k]:
                    byte = np.int64(ESCAPED[k])
                    i += 2
                    break
        set_byte(out, at, byte)
        at += 1
        i += 1
    return at


@fused
def _put_text(page: Any, i: Any, end: Any, out: Any, at: Any) -> Any:
    """
    Write a text as strings without a key, one for what stands between two line breaks. Returns
    where they end.
    """
    at = put_bytes(out, at, NO_KEY)
    set_byte(out, at, np.int64(96))
    at += 1
    while i < end:
        byte = byte_at(page, i)
        if byte == 10 and i + 1 < end and byte_at(page, i + 1) == 10:
            set_byte(out, at, np.int64(96))
            byte = np.int64(96)
            at += 1
            i += 1
        elif byte == 92 or byte == 96 or byte == 0:
            byte = np.int64(32)
        set_byte(out, at, byte)
        at += 1
        i += 1
    set_byte(out, at, np.int64(96))
    set_byte(out, at + 1, np.int64(0))
    return at + 2


@fused_allocating
def state_text(states: Any, size: Any) -> Any:
    """
    Return the prose behind one key of states, a line break before each, with SLACK zeros behind it;
    and its size, 0 if there is none. Strings may be data themselves, as in JSON.parse("..."): the
    prose in them counts, too.
    """
    text = np.zeros(2 * size + SLACK, np.uint8)
    inner = np.zeros(2 * size + SLACK, np.uint8)  # an object has two marks, and gets four bytes
    inner_size = _put_data(states, size, np.int64(inner.ctypes.data))
    inner[inner_size : inner_size + SLACK] = 0
    keys = np.zeros(SLOTS + PROBES, np.uint64)
    sums = np.zeros(SLOTS + PROBES, np.int64)
    most = _longest_key(states, size, False, keys, sums, np.int64(0))
    most = _longest_key(inner, inner_size, True, keys, sums, most)
    at = np.int64(0)
    if sums[most]:
        to = np.int64(text.ctypes.data)
        at = _put_prose(states, size, False, to, at, keys[most])
        at = _put_prose(inner, inner_size, True, to, at, keys[most])
    text[at : at + SLACK] = 0
    return text, at


@fused
def _next_string(page: Any, i: Any, end: Any, is_inner: Any) -> Any:
    """
    Return where the next string begins, behind its mark, and where it ends; `end` if there is none.
    A zero ends what is never closed; a line break ends what an apostrophe begins, as in a comment.
    Inner data have double marks alone.
    """
    while i < end:
        mark = byte_at(page, i)
        i += 1
        if mark != 34 and (is_inner or (mark != 39 and mark != 96)):
            continue
        stop = i
        byte = byte_at(page, stop)
        while stop < end and byte != mark and byte != 0 and (byte != 10 or mark != 39):
            stop += 2 if byte == 92 and byte_at(page, stop + 1) != 0 else 1
            byte = byte_at(page, stop)
        if stop < end and byte == mark:
            return i, stop
        i = stop
    return end, end


@apart
def _longest_key(array: Any, end: Any, is_inner: Any, keys: Any, sums: Any, most: Any) -> Any:
    """
    Count the bytes of prose behind each key into its slot of `sums`. Returns the slot that has
    most, of two the one that had as much before the other. The caller holds the array.
    """
    page = np.int64(array.ctypes.data)
    key = names.SEED
    i, stop = _next_string(page, np.int64(0), end, is_inner)
    while i < end:
        if _is_key(page, stop, end):
            key = _hash_of(page, i, stop)
        elif _is_prose(page, i, stop):
            slot = np.int64(key % np.uint64(SLOTS))
            last = slot + PROBES - 1
            while slot < last and sums[slot] and keys[slot] != key:
                slot += 1
            if not sums[slot] or keys[slot] == key:
                keys[slot] = key
                sums[slot] += stop - i
                most = slot if sums[slot] > sums[most] else most
        i, stop = _next_string(page, stop + 1, end, is_inner)
    return most


@apart
def _put_prose(array: Any, end: Any, is_inner: Any, out: Any, at: Any, wanted: Any) -> Any:
    """
    Write the prose in strings whose key has a hash, a line break before each. Returns where the
    text ends.
    """
    page = np.int64(array.ctypes.data)
    key = names.SEED
    i, stop = _next_string(page, np.int64(0), end, is_inner)
    while i < end:
        if _is_key(page, stop, end):
            key = _hash_of(page, i, stop)
        elif key == wanted and _is_prose(page, i, stop):
            set_byte(out, at, np.int64(10))
            at = put_string(page, i, stop, out, at + 1)
        i, stop = _next_string(page, stop + 1, end, is_inner)
    return at


@apart
def _put_data(array: Any, end: Any, out: Any) -> Any:
    """
    Write the strings that are data themselves: objects, arrays, and what has braces. What begins an
    object or an array has a zero and an empty key before it: others may be cut off, and go on in
    the next one, as Next.js writes them. Returns where they end.
    """
    page = np.int64(array.ctypes.data)
    at = np.int64(0)
    i, stop = _next_string(page, np.int64(0), end, False)
    while i < end:
        begins = _begins_data(page, i, stop)
        if begins or _has_brace(page, i, stop):
            if begins:
                set_byte(out, at, np.int64(0))
                at = put_bytes(out, at + 1, NO_KEY)
            at = put_string(page, i, stop, out, at)
        i, stop = _next_string(page, stop + 1, end, False)
    return at


@fused
def _begins_data(page: Any, i: Any, end: Any) -> Any:
    """Return whether a string begins an object or an array; "[late]" begins a text."""
    after = byte_at(page, i + 1) if i + 1 < end else np.int64(0)
    is_array = after == 34 or after == 92 or after == 91 or after == 123
    return i < end and (byte_at(page, i) == 123 or (byte_at(page, i) == 91 and is_array))


@fused
def _has_brace(page: Any, i: Any, end: Any) -> Any:
    for k in range(i, end):  # noqa: SIM110  # numba knows no any()
        if byte_at(page, k) == 123 or byte_at(page, k) == 125:
            return True
    return False


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


@apart_allocating
def letters_of_state(states: Any, begin: Any, end: Any, references: Any) -> Any:
    """
    Return the letters and digits of a state, as a page would show its strings, with SLACK zeros
    behind them; and their size. What is a string of JSON in a string is decoded, too.
    """
    once = np.zeros(end - begin + SLACK, np.uint8)
    size = _put_again(states, begin, end, np.int64(once.ctypes.data))
    once[size : size + SLACK] = 0
    twice = np.zeros(size + SLACK, np.uint8)
    size = _put_again(once, np.int64(0), size, np.int64(twice.ctypes.data))
    twice[size : size + SLACK] = 0
    letters = np.zeros(size * 3 // 2 + 2 * SLACK, np.uint8)  # no reference becomes longer
    size = _put_letters(twice, size, np.int64(letters.ctypes.data), references)
    letters[size : size + SLACK] = 0
    return letters, size


@apart
def _put_again(array: Any, begin: Any, end: Any, out: Any) -> Any:
    """Write the text of a string of JSON; its caller holds the array while this runs."""
    return put_string(np.int64(array.ctypes.data), begin, end, out, np.int64(0))


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
        byte == 0xA0 and i > 0 and byte_at(text, i - 1) == 0xC2
    ):
        return False
    return byte >= 0x80 or ABOUT_BYTE[byte] & ALNUM != 0


@fused
def _is_prose(page: Any, begin: Any, end: Any) -> Any:
    """
    Return whether a string of JSON is long, has the spaces of prose or wide characters, and is no
    data: what is read as data must not be read again as prose, or a text would outgrow its page.
    """
    if end - begin < PROSE_BYTES or _begins_data(page, begin, end):
        return False
    spaces = 0
    wide = 0
    for k in range(begin, end):
        byte = byte_at(page, k)
        if byte == 123 or byte == 125:
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
