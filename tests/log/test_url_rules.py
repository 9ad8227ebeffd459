"""Which URLs name one page, and that the judge goes by pages where there are rules for URLs."""

from __future__ import annotations

from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.conftest import one_in
from tests.log import test_replica as logs
from tests.log.test_ask import ask, feed
from tests.log.test_snapshot import LOG, to_bytes
from tests.oracle import said
from worker.core.definition import Parameters
from worker.core.document import Outcome
from worker.core.pages.accounts import PageAccount
from worker.core.search import SearchRules
from worker.errors import DefinitionError, DocumentError, StopError
from worker.log.record import Row
from worker.log.replica import Replica
from worker.log.rules import ENDLESS, Definition, LogDefinition
from worker.log.snapshot import restore
from worker.log.texts import Texts
from worker.log.url_rules import ENTRIES_MAX, NO_URL_RULES, UrlRules
from worker.report.answers import ReadText
from worker.shell.files.deduplicator import Deduplicator

pytest.importorskip("ada_url", reason="needs the extra urls")
ENTRIES = ("standard", "utm_*", "sid")
RULES = UrlRules.of(ENTRIES)
PAGE = "https://example.org/news?a=1&b=2"
SAME: dict[str, tuple[str, str]] = {
    "a fragment": (PAGE, f"{PAGE}#top"),
    "a session": (PAGE, "https://example.org/news?a=1&sid=77&b=2"),
    "a session in capitals": (PAGE, "https://example.org/news?a=1&SID=77&b=2"),
    "an escaped session": (PAGE, "https://example.org/news?a=1&s%49d=77&b=2"),
    "a campaign": (PAGE, f"{PAGE}&utm_source=x&utm_medium=y"),
    "nothing but a campaign": ("https://example.org/news", "https://example.org/news?utm_id=3"),
    "parameters in another order": (PAGE, "https://example.org/news?b=2&a=1"),
    "a slash at the end": (PAGE, "https://example.org/news/?a=1&b=2"),
    "a root without a slash": ("https://example.org/", "https://example.org"),
    "an empty query": ("https://example.org/news", "https://example.org/news?"),
    "empty parameters": (PAGE, "https://example.org/news?&a=1&&b=2&"),
    "the default port": (PAGE, "https://example.org:443/news?a=1&b=2"),
    "capitals in scheme and host": (PAGE, "HTTPS://Example.ORG/news?a=1&b=2"),
    "dot segments": (PAGE, "https://example.org/x/../news?a=1&b=2"),
    "spaces around it": (PAGE, f" {PAGE}\n"),
    "a host in Punycode": ("http://m\u00fcnchen.example/", "http://xn--mnchen-3ya.example/"),
    "an escaped letter": ("http://a.example/\u00e4", "http://a.example/%C3%A4"),
}
OTHERS: dict[str, tuple[str, str]] = {
    "another value": (PAGE, "https://example.org/news?a=1&b=3"),
    "one parameter more": (PAGE, f"{PAGE}&c=3"),
    "a name that begins like one that is left out": (PAGE, f"{PAGE}&sidebar=1"),
    "a value that is left out as a name": ("https://a.example/?q=sid", "https://a.example/?q=x"),
    "another port": (PAGE, "https://example.org:444/news?a=1&b=2"),
    "another scheme": (PAGE, PAGE.replace("https", "http")),
    "another host": (PAGE, PAGE.replace("example.org", "www.example.org")),
    "capitals in the path": (PAGE, PAGE.replace("news", "News")),
}
# What is no URL of the web: each names itself.
HOSTILE: dict[str, bytes] = {
    "nothing": b"",
    "no URL": b"news/1.html",
    "a made-up one": b"urn:isbn:1",
    "a file": b"file:///a/b/",
    "a host that is none": b"http://[::1/",
    "a port that is none": b"http://a.example:99999/",
    "Punycode that is none": "http://xn--\u00e4/".encode(),
    "a lone surrogate": "http://a.example/\ud800".encode("utf-8", "surrogatepass"),
    "no UTF-8": b"http://a.example/\xff",
}


@pytest.mark.parametrize("case", SAME)
def test_one_page(case: str) -> None:
    """Both URLs name one page; without rules they are two."""
    one, other = (url.encode() for url in SAME[case])
    assert RULES.page_of(one) == RULES.page_of(other)
    assert NO_URL_RULES.page_of(one) != NO_URL_RULES.page_of(other)


@pytest.mark.parametrize("case", OTHERS)
def test_two_pages(case: str) -> None:
    """What may be another page stays one."""
    one, other = (url.encode() for url in OTHERS[case])
    assert RULES.page_of(one) != RULES.page_of(other)


@pytest.mark.parametrize("case", HOSTILE)
def test_what_is_no_url_of_the_web_names_itself(case: str) -> None:
    """Nothing is raised."""
    assert RULES.page_of(HOSTILE[case]) == HOSTILE[case]


def test_long_urls_are_answered() -> None:
    """
    Of a million bytes: escapes that are none, parameters, slashes, hosts of many letters or labels.
    """
    hosts = ("%61", "\u4e2d", "\u4e2d.", "a\u0301\u0316", "xn--mnchen-3ya.", "@", "[1:", "1.", ":1")
    for part in hosts:
        url = f"https://{part * 300_000}/".encode()
        assert RULES.page_of(url) == url
    for part in ("%zz", "&a", "/", "/..", "?", "#"):
        url = f"https://a.example/x?b=1{part * 300_000}".encode()
        assert RULES.page_of(RULES.page_of(url)) == RULES.page_of(url)
        url = f"https://a.example/{part * 300_000}".encode()
        assert RULES.page_of(RULES.page_of(url)) == RULES.page_of(url)


PARTS = st.sampled_from(
    [
        *"/?#&=:@%.;\\ ",
        "..",
        "a",
        "b=1",
        "utm_x=1",
        "sid=2",
        "%2e",
        "%2F",
        "%zz",
        "\u00e4",
        "A",
        "//",
    ]
)


@given(st.lists(PARTS, max_size=12).map("".join), st.sampled_from(["https://a.example", "http://"]))
def test_the_page_of_a_page_is_itself(rest: str, start: str) -> None:
    """However a URL is written; and many URLs have the pages that each has."""
    urls = [f"{start}{rest}".encode(), f"{start}/{rest}".encode()]
    pages = [RULES.page_of(url) for url in urls]
    assert [RULES.page_of(page) for page in pages] == pages
    assert RULES.pages_of(Texts.of(urls)).tolist() == pages


# An entry, names of parameters that it means, and others that it does not mean.
NAMES: dict[str, tuple[str, list[str], list[str]]] = {
    "beyond ASCII": (
        "größe",
        ["größe", "GRößE", "gr%C3%B6%C3%9Fe", "gr%c3%b6%c3%9fE"],
        ["grö", "gröss"],
    ),
    "escaped": ("gr%c3%b6%c3%9fe", ["größe", "gr%C3%B6%C3%9Fe"], ["gre", "gr%25C3%B6"]),
    "capitals beyond ASCII": ("Größe", ["größe"], ["GRÖßE"]),
    "a beginning beyond ASCII": ("größ*", ["größe", "gr%c3%b6%C3%9F"], ["grö"]),
    "a beginning within a letter": ("gr%C3*", ["größe", "gr%c3%bc"], ["grb"]),
    "a space": ("ref+id", ["ref+id", "ref%20id", "ref id"], ["ref%2Bid", "refid"]),
    "a plus": ("ref%2bid", ["ref%2Bid"], ["ref+id", "ref id"]),
    "an equals sign": ("a%3Db", ["a%3db"], ["a=b"]),
    "a star": ("a%2a", ["a*", "a%2A"], ["ab", "a"]),
    "a list": ("ids[]", ["ids[]", "ids%5b%5D"], ["ids"]),
    "a stray percent sign": ("100%", ["100%", "100%25"], ["100"]),
    "no UTF-8": ("a%ff", ["a%FF"], ["a", "aÿ"]),
    "quotes": ("a'\"<", ["a'\"<", "a%27%22%3c"], ["a"]),
}


@pytest.mark.parametrize("case", NAMES)
def test_a_name_is_read_as_servers_do(case: str) -> None:
    """However an entry and a URL write it; and a log that declares the entry means the same."""
    entry, names, others = NAMES[case]
    rules = UrlRules.of(["standard", entry])
    page = b"https://a.example/x?b=1"
    for name in names:
        assert rules.page_of(f"https://a.example/x?{name}=7&b=1".encode()) == page
    for name in others:
        assert rules.page_of(f"https://a.example/x?{name}=7&b=1".encode()) != page
    assert UrlRules.of(rules.entries) == rules


@given(st.lists(st.text(min_size=1) | st.text("aB%25cö*+=[ ", min_size=1), max_size=4))
def test_entries_are_refused_or_mean_what_is_declared(entries: list[str]) -> None:
    """And an entry that is taken leaves its own parameter out."""
    try:
        rules = UrlRules.of(["standard", *entries])
    except ValueError as error:
        assert "is no name of a parameter: write it like" in str(error)
        return
    assert UrlRules.of(rules.entries) == rules
    for entry in entries:
        url = f"https://a.example/x?{entry.removesuffix('*')}=1".encode()
        assert rules.page_of(url) == b"https://a.example/x"


REFUSED = {
    "a name first": (["sid"], "must begin with 'standard'"),
    "everything": (["standard", "*"], "'\\*' is no name of a parameter"),
    "a star in the middle": (["standard", "a*b"], "is no name of a parameter"),
    "a value": (["standard", "a=1"], "is no name of a parameter"),
    "nothing": (["standard", ""], "is no name of a parameter"),
    "a question mark": (["standard", "a?"], "is no name of a parameter: write it like sid"),
    "a space": (["standard", "a b"], "escape what else it has"),
    "the end of a line": (["standard", "a\n"], "escape what else it has"),
    "a lone surrogate": (["standard", "a\ud800"], "is no name of a parameter"),
    "a text": ("standard", "must be a list, got the text 'standard'"),
    "too many": (["standard"] * (ENTRIES_MAX + 1), "may have 1,000 entries"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_are_no_rules_is_refused(case: str) -> None:
    """The error names the entry and the remedy."""
    entries, says = REFUSED[case]
    with pytest.raises((TypeError, ValueError), match=says):
        UrlRules.of(entries)


def test_without_the_parser_the_remedy_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where there are rules."""

    def missing(_: str) -> str:
        raise metadata.PackageNotFoundError

    monkeypatch.setattr("worker.log.url_rules.metadata.version", missing)
    assert UrlRules.of([]) == NO_URL_RULES
    with pytest.raises(StopError, match=r"url_rules needs ada-url: pip install .ada-url>=1\.29"):
        UrlRules.of(ENTRIES)


def _definition(*entries: str) -> Definition:
    return Definition.of(Parameters(), SearchRules(), ENDLESS, "compare", 1_000, url_rules=entries)


def test_they_are_part_of_the_definition_where_they_are_set() -> None:
    """With the parser's version, since another one may see other pages. Their order says nothing."""
    assert "url_rules" not in _definition().rules
    rules = _definition(*ENTRIES).rules
    assert rules["url_parser"] == f"ada-url {metadata.version('ada-url')}"
    lists: list[tuple[str, ...]] = [(), ENTRIES, ENTRIES[:1], ENTRIES[:2]]
    hashes = {_definition(*names).hash for names in lists}
    assert len(hashes) == 4
    assert _definition("standard", "sid", "utm_*").hash == _definition(*ENTRIES).hash
    declared = LogDefinition.decode(_definition(*ENTRIES).declaration("w", 4))
    assert Definition.of(**declared.arguments()).url_rules == RULES
    newer = replace(_definition(*ENTRIES), url_rules=RULES._replace(parser="ada-url 99"))
    assert newer.hash != _definition(*ENTRIES).hash


@pytest.mark.parametrize(
    ("there", "here"), [(ENTRIES, ()), ((), ENTRIES), (ENTRIES, ("standard", "sid"))]
)
def test_a_log_that_is_judged_by_other_rules_is_refused(
    there: tuple[str, ...], here: tuple[str, ...]
) -> None:
    """The error has both values."""
    found = LogDefinition.decode(_definition(*there).declaration("w", 4))
    with pytest.raises(DefinitionError) as refused:
        _definition(*here).check(found, "the log")
    expected = tuple(UrlRules.of(entries).entries or None for entries in (there, here))
    assert refused.value.differences["url_rules"] == expected
    assert f"url_rules is {expected[0]} there, {expected[1]} here" in str(refused.value)


@pytest.mark.parametrize(
    ("there", "command"),
    [
        ("ada-url 3.1.0", "judges by it: pip install 'ada-url==3.1.0'. To go"),
        ("other-parser 2", "judges by it: pip install 'other-parser==2'. To go"),
        ("ada-url 3'; echo '", "judges by it. To go"),  # a log is no place to copy commands from
        ("https://example.org/ada", "judges by it. To go"),
    ],
)
def test_a_log_of_another_parser_names_the_package_to_install(there: str, command: str) -> None:
    """Whoever refuses it; but a worker with other settings, too, is told these first."""
    own = _definition(*ENTRIES)
    declared = replace(own, url_rules=RULES._replace(parser=there)).declaration("w", 4)
    with pytest.raises(DefinitionError) as refused:
        own.check(LogDefinition.decode(declared), "the log")
    assert list(refused.value.differences) == ["url_parser"]
    assert command in str(refused.value.with_remedy("start it with the log's definition"))
    other = Definition.of(Parameters(), SearchRules(), ENDLESS, "replace", 1_000, url_rules=ENTRIES)
    with pytest.raises(DefinitionError) as refused:
        other.check(LogDefinition.decode(declared), "the log")
    assert "pip" not in str(refused.value)


def test_a_snapshot_of_another_parser_names_the_package_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also to a program that reads it."""
    installed = metadata.version("ada-url")
    Deduplicator(url_rules=ENTRIES).save(tmp_path / "seen.ndsnap")
    monkeypatch.setattr("worker.log.url_rules.metadata.version", lambda _: "99")
    with pytest.raises(DefinitionError, match=f"pip install 'ada-url=={installed}'"):
        Deduplicator.load(tmp_path / "seen.ndsnap")


def _disguised(row: Row, number: int) -> Row:
    """The row with another URL of its page."""
    if not row.url:
        return row
    mark = "&" if "?" in row.url else "?"
    ways = [
        row.url,
        f"{row.url}#f",
        f"{row.url}{mark}utm_x={number}",
        row.url.replace("https", "HTTPS"),
    ]
    return row._replace(url=ways[number % len(ways)])


@settings(max_examples=one_in(2))
@given(logs.rows(), st.integers(1, 30), logs.searches | st.just(logs.CONFIRMED), logs.recrawled)
def test_the_judge_goes_by_pages(
    rows: list[Row], restored_at: int, search: SearchRules, recrawls: str
) -> None:
    """
    A log of URLs in many forms, judged with rules, has the verdicts of one whose URLs are the pages
    that they name, judged without. So do questions, replicas from snapshots, and the question for a
    URL, and all of them tell the URLs as they came.
    """
    plain = logs.definition(ENDLESS, search, recrawls)  # type: ignore[arg-type]
    ruled = replace(plain, url_rules=RULES)
    by_page, by_url = Replica(ruled), Replica(plain)
    for number, row in enumerate(rows):
        given_row = _disguised(row, number)
        page_row = row._replace(url=RULES.page_of(row.url.encode()).decode())
        foreseen = ask(by_page, given_row), ask(by_url, page_row)
        assert said(foreseen[0][0]) == said(foreseen[1][0])
        found = feed(by_page, given_row, number, number)
        assert said(found) == said(feed(by_url, page_row, number, number))
        if not isinstance(found, DocumentError) and found.url is not None:
            assert found.url == given_row.url
        if row.url:
            latest = by_page.latest_of(given_row.url), by_url.latest_of(page_row.url)
            assert [one and one.original.doc_id for one in latest[:1]] == [
                one and one.original.doc_id for one in latest[1:]
            ]
        if number % restored_at == restored_at - 1:
            by_page = restore(to_bytes(by_page), ruled, LOG)
            by_page.check()


def test_two_urls_of_one_page_are_a_recrawl_and_not_two_pages_of_a_host() -> None:
    """End to end: from documents to verdicts, through the marks that are made with the rows."""
    text = "The ferry to the island does not sail on Mondays. "
    pages = [
        {"url": "https://example.org/ferry?utm_source=a", "html": f"<title>Times</title>{text}"},
        {"url": "https://example.org/ferry?sid=9", "html": f"<title>Sea and land</title>{text}"},
    ]
    with_rules = Deduplicator(threads=1, url_rules=ENTRIES)
    first, second = with_rules.add_many(
        {"fetched_at": f"2026-11-0{day}T00:00:00Z", **page} for day, page in enumerate(pages, 1)
    )
    assert second.former_version is not None
    assert second.former_version.original.url == pages[0]["url"] == first.url
    without = list(
        Deduplicator(threads=1).add_many(
            {"fetched_at": f"2026-11-0{day}T00:00:00Z", **page} for day, page in enumerate(pages, 1)
        )
    )
    assert without[1].former_version is None
    assert (second.outcome, without[1].outcome) == (Outcome.DUPLICATE, Outcome.NEW)
    assert without[1].kept_apart is not None and without[1].kept_apart.reason == "other-page"
    # Which documents they are, and what is told of them, is the same.
    assert [one.doc_id for one in without] == [first.doc_id, second.doc_id]
    assert [one.url for one in without] == [page["url"] for page in pages]


def test_explain_marks_the_page_that_a_url_names() -> None:
    """As the search does: two URLs of one page have one mark, whatever their titles."""
    rules = UrlRules.of(["standard", "sid"])
    account = PageAccount("page", 120, {}, title=7)
    one, other = (
        ReadText("", account=account, url=f"https://a.example/1?sid={sid}") for sid in (1, 2)
    )
    assert one.mark(120, rules) == other.mark(120, rules) != 0
    assert one.mark(120, NO_URL_RULES) != other.mark(120, NO_URL_RULES)
