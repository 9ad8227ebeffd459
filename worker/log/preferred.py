"""
Which of two copies is the better one: by its host, or by when it was fetched.

The original of a cluster is the document that came first, and verdicts are final. So if the mirror
was crawled before the site, the mirror is the original. When a better copy comes, it is a duplicate
still; `duplicate_of.better_copy` in its verdict tells subscribers, who may put it in the place of
the original.

A copy is better than its original
- if its host stands before the original's in the list of preferred hosts. A host that is in no
  entry comes last; an entry stands for a host and its subdomains, at any port. How an entry or a
  URL writes its host makes no difference (`core/hosts.py`).
- or, if the list ends with `earliest`: if their hosts stand at one place, and it was fetched before
  the original. A document without a time is not earlier than any.

It is a function of the row, its original and the definition, so the judge keeps nothing for it, and
a copy that comes again is told again.

Rejected, and why
- The URL that other pages name as the canonical one: neither a row nor an original has what its
  page names, and to keep that would take a URL for each document, in the log and in memory. A
  crawler that knows it sends the document under that URL, and prefers its host.
- The best copy so far, with a message each time that it changes: it would need a second row for
  each original. A subscriber that keeps one copy of each cluster compares with what it has.
- Another original in the index: later copies would name it, earlier ones the first, and a reader
  of verdicts would have to join the two.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from worker.core.hosts import host_name, host_of
from worker.log.texts import Texts

EARLIEST = "earliest"
ENTRIES_MAX = 1_000
_ENTRY = re.compile(r"[^\s/?#\\:@,*]+")
_NO_TIME = 0


class Preferred(NamedTuple):
    """
    Which copies are better than others.

    Attributes:
        hosts: as `host_name` writes them, the best one first.
        earliest: whether, of two at one place, the one that was fetched first is better.

    >>> rules = Preferred.of(["example.org", "earliest"])
    >>> urls = Texts.of([b"https://mirror.example/1", b"https://www.Example.org:8443/1"])
    >>> originals = Texts.of([b"http://example.org/1", b"https://mirror.example/1"])
    >>> times_ms = np.array([9, 9])
    >>> rules.are_better(urls, times_ms, originals, np.array([3, 3])).tolist()
    [False, True]
    """

    hosts: tuple[str, ...] = ()
    earliest: bool = False

    @classmethod
    def of(cls, entries: Iterable[str]) -> Preferred:
        """
        Return the rules of a list as settings have it.

        Raises:
            TypeError: a text is given in place of a list.
            ValueError: an entry is no host, comes twice, or stands behind `earliest`; or there are
                too many.
        """
        if isinstance(entries, str):  # its characters would be taken for hosts
            raise TypeError(f"preferred_copies must be a list of hosts, got the text {entries!r}")
        given = [str(entry) for entry in entries]
        if len(given) > ENTRIES_MAX:
            raise ValueError(
                f"preferred_copies may have {ENTRIES_MAX:,} entries, got {len(given):,}: name the "
                f"hosts of mirrors alone, or their common domain"
            )
        earliest = bool(given) and given[-1].lower() == EARLIEST
        hosts = []
        for host in given[:-1] if earliest else given:
            if host.lower() == EARLIEST:
                raise ValueError(f"preferred_copies: {EARLIEST} must be the last entry, and is not")
            if not _ENTRY.fullmatch(host) or not host_name(host).strip("."):
                raise ValueError(
                    f"preferred_copies: {host!r} is no host: write it like example.org, without a "
                    f"scheme, a port or *; it stands for its subdomains, too"
                )
            hosts.append(host_name(host))
        if len(set(hosts)) < len(hosts):
            twice = next(host for host in hosts if hosts.count(host) > 1)
            raise ValueError(f"preferred_copies: {twice!r} is there twice: leave one out")
        return cls(tuple(hosts), earliest)

    @property
    def entries(self) -> list[str]:
        """The list as settings have it; empty: no copy is better than another."""
        return [*self.hosts, *([EARLIEST] if self.earliest else [])]

    def are_better(
        self,
        urls: Texts,
        times_ms: NDArray[np.int64],
        original_urls: Texts,
        original_times_ms: NDArray[np.int64],
    ) -> NDArray[np.bool_]:
        """
        Return which of some duplicates are better than their originals.

        Args:
            urls, times_ms: of the duplicates.
            original_urls, original_times_ms: of the original of each.

        Cost: 2 to 3 µs per duplicate.
        """
        places = self._places(urls)
        original_places = self._places(original_urls)
        is_better: NDArray[np.bool_] = places < original_places
        if self.earliest:
            have_times = (times_ms != _NO_TIME) & (original_times_ms != _NO_TIME)
            is_earlier = have_times & (times_ms < original_times_ms)
            is_better |= (places == original_places) & is_earlier
        return is_better

    def _places(self, urls: Texts) -> NDArray[np.int64]:
        """Return the place of each URL's host in the list; its length for one that is not there."""
        known = {host: place for place, host in enumerate(self.hosts)}
        places = np.full(len(urls), len(self.hosts))
        if known:
            for at, url in enumerate(urls.tolist()):
                places[at] = _place(url, known, len(self.hosts))
        return places


def _place(url: bytes, known: dict[str, int], last: int) -> int:
    """Return the first place that the host of a URL, or a domain that it is in, has."""
    name = host_of(url.decode("utf-8", "replace"))
    place = known.get(name, last)
    for _ in range(name.count(".")):
        name = name.partition(".")[2]
        place = min(place, known.get(name, last))
    return place


NOT_PREFERRED = Preferred()
