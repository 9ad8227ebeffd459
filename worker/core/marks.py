"""
The mark of a page: which page of which host it is, in 64 bits. By their marks the search tells two
pages of one host apart.

    bits 0–15   hash of the host
    bits 16–31  hash of the URL from the host on, without its fragment
    bit 32      whether the fingerprint has FEATURES_MIN features, which are about as many as words
    bits 33–63  the words of the title, as a set (`pages.titles`)

A document without a title or without a host has no mark: 0. It is compared by its text alone.

Measured on 355 labelled copies of one host, with their URLs and titles: 30 would be lost if titles
had to be equal, 6 if their letters had to be, none as it is. Of made-up copies of one host with
another site's name, a counter or a number in the title, 0 to .03 are lost; of updates under a new
headline, most (`tests/benchmarks/results/accuracy.md`).

Nothing in the text tells such an update from another page. An article of 400 words to which an
eighth was added contains the former one by .97 or more in .98 of the pairs. So does a page with a
tenth of its own a page with nothing but the site's text: in .99. Nor does it help to leave numbers
out.

A mark is made when the row is, since all workers judge a row and only one makes it. It stands next
to the sketch in an original's row, so that reading it costs no further cache miss. Two hashes are
equal by chance once in 65,536 pairs. All that this does is to switch the rule off, or on, for one
pair.

The host is what stands between "://" and the path, without a user's name, in lower case; a port
belongs to it. The scheme does not count: a page that is fetched by HTTP and by HTTPS is one.
"""

from __future__ import annotations

import re

import numpy as np
from numpy.typing import NDArray

from worker.core.sketch import SIMILARITY_MAX

NO_MARK = 0
HASH_BITS = 16
HASH_MASK = (1 << HASH_BITS) - 1
URL_SHIFT = 16
LONG = 1 << 32
TITLE_SHIFT = 33
# Two pages of one host at other URLs and with other titles are copies from these on.
APART_SIMILARITY = 900  # thousandths
FEATURES_MIN = 100  # of each of the two
assert APART_SIMILARITY <= SIMILARITY_MAX
# Thin pages of one text and host are known by titles of so many words or more (`are_thin`).
TITLE_WORDS_MIN = 5
HOST_AND_TITLE = np.uint64((1 << 64) - (1 << TITLE_SHIFT) | HASH_MASK)
_SPREAD = np.uint64(0x9E37_79B9_7F4A_7C15)

_URL = re.compile(rb"[0-9A-Za-z+.-]+://([^#]*)", re.DOTALL)
_HOST = re.compile(rb"(?:[^/?\\]*@)?([^/?\\]*)", re.DOTALL)
_SEED = 0xCBF29CE484222325
_PRIME = 0x100000001B3


def page_mark(url: str, title: int, features: int) -> int:
    """
    Return the mark of a page, 0 if it has no title or its URL no host.

    Args:
        url: where it was fetched.
        title: the words of its title, `pages.title_words`.
        features: of its fingerprint.

    This is the definition; `kernels.marks.page_marks` does the same for many rows.

    >>> page_mark("https://a.example/x#top", 7, 120) == page_mark("http://A.example/x", 7, 120) > 0
    False
    >>> page_mark("https://a.example/x#top", 7, 120) == page_mark("http://a.example/x", 7, 120) > 0
    True
    >>> page_mark("file:///x", 7, 120), page_mark("https://a.example/x", 0, 120)
    (0, 0)
    """
    located = _URL.match(url.encode("utf-8", "surrogatepass"))
    if located is None or not title:
        return NO_MARK
    place = located[1]
    host_match = _HOST.match(place)
    host = host_match[1] if host_match else b""
    if not host:
        return NO_MARK
    return (
        _hash(host.lower())
        | _hash(place) << URL_SHIFT
        | (LONG if features >= FEATURES_MIN else 0)
        | title << TITLE_SHIFT
    )


def are_apart(mark: int, other: int, similarity: int) -> bool:
    """
    Return whether two documents are no copies, however alike their texts are.

    They are two pages of one host, at other URLs and with other titles: of the words of both, at
    most half stand in each. What such pages have in common is mostly the site's: a consent
    box, a loader's sentence, a shop's terms. So they are copies only if nearly all of their text is
    the same, and that is more than a few sentences.

    Args:
        mark, other: their marks; one that has none is kept apart from nothing.
        similarity: of their sketches, in thousandths.

    >>> one = page_mark("https://a.example/1", 0b111, 120)
    >>> other = page_mark("https://a.example/2", 0b11001, 120)
    >>> are_apart(one, other, 899), are_apart(one, other, 900)
    (True, False)
    >>> are_apart(one, page_mark("https://b.example/2", 0b11001, 120), 600)
    False
    """
    differ = mark ^ other
    if not (mark and other) or differ & HASH_MASK or not differ >> URL_SHIFT & HASH_MASK:
        return False
    both_words = ((mark & other) >> TITLE_SHIFT).bit_count()
    either_words = ((mark | other) >> TITLE_SHIFT).bit_count()
    if 2 * both_words > either_words:
        return False
    return similarity < APART_SIMILARITY or not mark & other & LONG


def are_thin(marks: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """
    Return for each page whether other pages of its host with the same text are no copies of it.

    It has a mark and fewer than FEATURES_MIN features. Any number of such pages can have one text,
    and a search compares a few candidates. So before it, the original of a thin page is looked up
    by its text and its URL, and then by its text, its host and its title, if that tells the page.
    """
    thin: NDArray[np.bool_] = (marks != NO_MARK) & (marks & np.uint64(LONG) == 0)
    return thin


def titles_tell(marks: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """
    Return for each page whether its title distinguishes it from the other pages of its host that
    have the same text.

    A mark keeps 31 bits for a title's words, so two titles can have the same bits by chance, the
    sooner the fewer words they have. Of 2,000 pages whose titles have three words of their own and
    one of the site's name, one in seven shares its bits with another page; with one word more, one
    in thirty.
    """
    tell: NDArray[np.bool_] = np.bitwise_count(marks >> np.uint64(TITLE_SHIFT)) >= TITLE_WORDS_MIN
    return tell


def titled_digests(digests: NDArray[np.uint64], marks: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return keys that are equal if the digest, the host and the title of two pages are."""
    return (digests ^ (marks & HOST_AND_TITLE) * _SPREAD) * _SPREAD


def _hash(data: bytes) -> int:
    """Return 16 bits of the FNV-1a hash of bytes, and 1 for 0."""
    value = _SEED
    for byte in data:
        value = (value ^ byte) * _PRIME & (1 << 64) - 1
    return max((value ^ value >> 29) & HASH_MASK, 1)
