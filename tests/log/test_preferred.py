"""Which of two copies is better, and which lists say so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from worker.core.definition import Parameters
from worker.core.search import SearchRules
from worker.log.preferred import EARLIEST, ENTRIES_MAX, NOT_PREFERRED, Preferred
from worker.log.rules import ENDLESS, Definition, LogDefinition
from worker.log.texts import Texts

HOSTS = ("example.org", "example.net", "b\u00fccher.example")
SITE = "https://example.org/1"
OTHER = "https://example.net/1"
MIRROR = "https://mirror.example/1"
# The URL of a copy and of its original, and whether the copy is better by HOSTS.
BY_HOST: dict[str, tuple[str, str, bool]] = {
    "the site after its mirror": (SITE, MIRROR, True),
    "the mirror after its site": (MIRROR, SITE, False),
    "the first of two preferred hosts": (SITE, OTHER, True),
    "the second of two": (OTHER, SITE, False),
    "two of one host": (SITE, "https://example.org/2", False),
    "two of no preferred host": (MIRROR, "https://another.example/", False),
    "a subdomain": ("https://www.example.org/1", MIRROR, True),
    "a subdomain of a subdomain": ("https://a.b.example.org/1", MIRROR, True),
    "a host that only ends alike": ("https://notexample.org/1", MIRROR, False),
    "a subdomain of another's": ("https://example.org.evil.example/1", MIRROR, False),
    "the name in the path": ("https://evil.example/example.org", MIRROR, False),
    "letters beyond ASCII": ("https://B\u00dcCHER.example/", MIRROR, True),
    "no URL at all": ("", MIRROR, False),
    "a lone surrogate": ("http://\ud800.example.org/", MIRROR, True),
}  # fmt: skip


def texts(*values: str) -> Texts:
    return Texts.of([value.encode("utf-8", "surrogatepass") for value in values])


@pytest.mark.parametrize("case", BY_HOST)
def test_a_copy_at_a_preferred_host_is_better(case: str) -> None:
    """
    The list's order decides; a host stands for its subdomains, and for nothing else. How a URL may
    write a host is tested in `tests/core/test_hosts.py`.
    """
    url, original, is_better = BY_HOST[case]
    times_ms = np.array([5])
    rules = Preferred.of(HOSTS)
    assert rules.are_better(texts(url), times_ms, texts(original), times_ms).tolist() == [is_better]


@pytest.mark.parametrize(
    ("url", "time_ms", "original_time_ms", "is_better"),
    [
        (MIRROR, 4, 5, True),
        (MIRROR, 5, 5, False),
        (MIRROR, 6, 5, False),
        (MIRROR, 0, 5, False),  # 0 stands for no time
        (MIRROR, -1, 5, True),  # before 1970
        (MIRROR, -1, 0, False),  # the original has no time
        (SITE, 9, 5, True),  # the host comes first
    ],
)
def test_of_two_at_one_place_the_earlier_is_better(
    url: str, time_ms: int, original_time_ms: int, is_better: bool
) -> None:
    """Only if the list ends with `earliest`."""
    times = np.array([time_ms]), np.array([original_time_ms])
    urls = texts(url), texts("https://another.example/")
    found = Preferred.of([*HOSTS, EARLIEST]).are_better(urls[0], times[0], urls[1], times[1])
    assert found.tolist() == [is_better]
    found = Preferred.of(HOSTS).are_better(urls[0], times[0], urls[1], times[1])
    assert found.tolist() == [url == SITE]


@given(
    st.lists(st.sampled_from([SITE, OTHER, MIRROR, "https://www.example.net/", "x"]), max_size=8),
    st.randoms(),
    st.booleans(),
)
def test_better_is_an_order(urls: list[str], dice: Any, earliest: bool) -> None:
    """No document is better than itself, no two are better than each other, and it is transitive."""
    times_ms = np.array([dice.randrange(1, 4) for _ in urls], np.int64)
    rules = Preferred.of([*HOSTS, *([EARLIEST] if earliest else [])])
    better = np.stack(
        [
            rules.are_better(
                texts(*urls), times_ms, texts(*[url] * len(urls)), np.full(len(urls), time_ms)
            )
            for url, time_ms in zip(urls, times_ms.tolist(), strict=True)
        ]
    ) if urls else np.zeros((0, 0), np.bool_)  # fmt: skip
    assert not (better & better.T).any()
    paths = better.astype(int) @ better.astype(int) > 0
    assert not (paths & ~better).any()


REFUSED: dict[str, tuple[Any, str]] = {
    "a URL": (["https://example.org"], "'https://example.org' is no host: write it like"),
    "a pattern": (["*.example.org"], "is no host"),
    "a port": (["example.org:80"], "is no host"),
    "nothing": ([""], "'' is no host"),
    "dots": (["."], "is no host"),
    "an escaped point": (["%2e"], "is no host"),
    "twice, once in Punycode": (["b\u00fccher.example", "xn--bcher-kva.example"], "is there twice"),
    "twice": (["a.example", "A.example"], "'a.example' is there twice: leave one out"),
    "earliest first": ([EARLIEST, "a.example"], "earliest must be the last entry"),
    "a text": ("a.example", "must be a list of hosts, got the text 'a.example'"),
    "too many": ([f"{n}.example" for n in range(ENTRIES_MAX + 1)], "at most|may have 1,000"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_list_of_hosts_is_refused(case: str) -> None:
    """The error names the entry and the remedy."""
    entries, says = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=says):
        Preferred.of(entries)


@pytest.mark.parametrize("entry", ["example.org.", "EXAMPLE.org", "ex\uff41mple.org"])
def test_an_entry_is_a_host_however_it_is_written(entry: str) -> None:
    """And the definition is that of the usual spelling."""
    assert Preferred.of([entry]) == Preferred.of(["example.org"])


def _definition(*preferred: str) -> Definition:
    return Definition.of(Parameters(), SearchRules(), ENDLESS, "compare", 1_000, preferred)


def test_it_is_part_of_the_definition_where_it_is_set() -> None:
    """Two lists are two logs; a log without one is what it was before there was the setting."""
    without = _definition()
    assert without.preferred == NOT_PREFERRED
    assert "preferred_copies" not in without.rules
    hashes = {_definition(*names).hash for names in ([], HOSTS, HOSTS[::-1], [*HOSTS, EARLIEST])}
    assert len(hashes) == 4
    declared = LogDefinition.decode(_definition(*HOSTS, EARLIEST).declaration("w", 4))
    assert Definition.of(**declared.arguments()).preferred == Preferred.of([*HOSTS, EARLIEST])
