"""
What a report counts; its page: whole, closed to what documents bring, legible without colour, mouse
or eyes.
"""

from __future__ import annotations

import html
import json
import re
import shutil
import tracemalloc
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from neardup import Deduplicator

from tests.cli.program import lines
from tests.conftest import output_of
from tests.report.made import START_MS, copy, dead, former, taken, verdict
from worker.core.document import (
    ApartReason,
    Changed,
    DuplicateOf,
    KeptApart,
    Original,
    Outcome,
    Verdict,
)
from worker.core.pages import PageAccount
from worker.errors import StopError
from worker.report import tally as tallies
from worker.report.answers import ReadText, WantedTexts, of_lines, read_texts
from worker.report.page import (
    BINS_MAX,
    CONTEXT,
    HEIGHT,
    ROWS_MAX,
    bins,
    difference,
    page,
    stacked,
    ticks,
    times,
)
from worker.report.tally import (
    APART_SHOWN_MAX,
    NO_TIME,
    OTHER,
    Class,
    Clusters,
    Tally,
    class_of,
)
from worker.settings import Settings
from worker.shell.files.archives import Record
from worker.shell.files.crawl import CrawlFiles
from worker.shell.messages import DeadLetter, encode_verdict

EVIL = '"><script>alert(1)</script><img src=x onerror=alert(2)>\x00\x1b[31m\u202e{{ 7 * 7 }}'
VOID = {"meta", "br", "link", "img", "input", "hr"}


class Outline(HTMLParser):
    """The elements of a page, and what is wrong with their nesting."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def drawn(
    tally: Tally, read: WantedTexts | None = None, title: str = "a crawl"
) -> tuple[str, Outline]:
    with tally:
        text = page(
            tally,
            title,
            tally.clusters.largest(8),
            read,
            {"0" * 16: {"anchors": "elected", "own": None}},
        )
    return text.decode(), Outline(text.decode())


def a_crawl() -> Tally:
    """Answers of every kind."""
    return taken(
        *(verdict(number) for number in range(40)),
        *(copy(40 + number, number % 4, number % 9) for number in range(20)),
        *(copy(60 + number, number, 1, same_url=True) for number in range(5)),
        verdict(70, former_version=former(1, Changed.MUCH)),
        verdict(71, outcome=Outcome.SKIPPED, reason="empty-text", fingerprint=None),
        verdict(
            72,
            outcome=Outcome.DELETED,
            url=None,
            fetched_at_ms=None,
            reason="removed",
            fingerprint=None,
        ),
        dead("no-body"),
    )


def texts() -> WantedTexts:
    found = {
        f"d{number}": ReadText(f"the ferry on the river is late {number}") for number in range(70)
    }
    return WantedTexts(found, Counter({"en": 60, "de": 3, "": 2}))


def test_the_page_is_whole() -> None:
    """It says what was counted; equal answers give equal bytes."""
    text, outline = drawn(a_crawl(), texts())
    assert text == drawn(a_crawl(), texts())[0]
    assert text.startswith("<!DOCTYPE html>")
    said = " ".join(" ".join(outline.texts).split())
    for sentence in (
        "69 answers, captured 2024-03-01", "20 (29.0 %) are copies", "5 ( 7.2 %) are pages seen "
                                                                     "before", "empty-text",
        "documents[1] at 7, x", "changed much", "unknown", "6 documents", "elected",
    ):  # fmt: skip
        assert sentence.replace("( ", "(") in said.replace("( ", "("), sentence


def test_the_page_loads_and_runs_nothing() -> None:
    """No script, no address but links to documents, and a policy that forbids the rest."""
    _, outline = drawn(a_crawl(), texts())
    assert {"script", "iframe", "object", "link", "img", "form", "base"}.isdisjoint(
        tag for tag, _ in outline.elements
    )
    assert all(
        not name.startswith("on") for _, attributes in outline.elements for name in attributes
    )
    assert all(
        "src" not in attributes and "xlink:href" not in attributes
        for _, attributes in outline.elements
    )
    assert all(re.match(r"#|https?://host\d\.example/", one["href"]) for one in outline.all("a"))
    policy = next(one["content"] for one in outline.all("meta") if "http-equiv" in one)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'")
    style = (files("worker.report") / "page.css").read_text()
    assert "@import" not in style and set(re.findall(r"url\((.+?)\)", style)) == {
        "#copy",
        "#recrawl",
    }


def hostile(number: int, url: str) -> Verdict:
    """A copy whose every text is hostile."""
    made = copy(
        number, 1, 3, doc_id=f"{number}{EVIL}", url=url, reason=EVIL, scheme=EVIL, source_topic=EVIL
    )
    assert isinstance(made.duplicate_of, DuplicateOf)
    there = made.duplicate_of.original._replace(
        doc_id=f"o{EVIL}", url=f"javascript:alert(3)//{EVIL}"
    )
    return made._replace(duplicate_of=made.duplicate_of._replace(original=there))


def test_a_folder_for_temporary_files_that_takes_none_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """With the variable that names another one, when the file is made and when it is written to."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(StopError, match=r"cannot keep verdicts in .*/gone: No such file.*TMPDIR"):
        Tally()
    full = Path("/dev/full").open("r+b", buffering=16)  # noqa: SIM115  # closed by the tally
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **_: full)
    # Its buffer cannot be written when the tally ends either.
    with pytest.raises(StopError, match=r"No space left on device.*TMPDIR"), Tally() as tally:
        tally.take(copy(2, of=1), b"more than the buffer has room for")


@pytest.mark.parametrize(
    "scheme",
    ["javascript:alert(1)//", "data:text/html,", "vbscript:", " https://", "https:evil", "x"],
)
def test_hostile_texts_stay_texts(scheme: str) -> None:
    """No element, no link and no control character comes from a document."""
    skipped = verdict(
        3, outcome=Outcome.SKIPPED, reason=EVIL, url=f"http://{EVIL}/", fingerprint=None
    )
    tally = taken(
        hostile(1, scheme + EVIL),
        hostile(2, scheme),
        dead(EVIL, EVIL, EVIL.encode()),
        skipped,
        verdict(4, url=scheme + EVIL, kept_apart=KeptApart(EVIL, ApartReason.OTHER_PAGE, 0.7)),
    )
    read = WantedTexts(
        {f"o{EVIL}": ReadText(EVIL * 3), f"1{EVIL}": ReadText(EVIL)}, Counter({EVIL: 1})
    )
    text, outline = drawn(tally, read, EVIL)
    assert not {"script", "img"} & {tag for tag, _ in outline.elements}
    assert all(one["href"].startswith("#") for one in outline.all("a"))
    assert all(
        not name.startswith("on") for _, attributes in outline.elements for name in attributes
    )
    assert not re.search("[\x00\x1b\u202e]", text)
    assert "{{ 7 * 7 }}" in text  # a template's own signs mean nothing in a document


def test_every_drawing_has_a_name_and_its_numbers_in_a_table() -> None:
    """
    For screen readers: each drawing is named or hidden, each table captioned, each scrolling part
    reached by key.
    """
    _, outline = drawn(a_crawl(), texts())
    ids = [attributes["id"] for _, attributes in outline.elements if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in outline.elements:
        assert set(attributes.get("aria-labelledby", "").split()) <= set(ids)
    assert {one["href"][1:] for one in outline.all("a") if one["href"].startswith("#")} <= set(ids)
    for drawing in outline.all("svg"):
        assert (drawing.get("role") == "img" and "aria-labelledby" in drawing) or drawing.get(
            "aria-hidden"
        ) == "true"
    assert len(outline.all("table")) == len(outline.all("caption")) >= 7
    for one in (
        attributes for _, attributes in outline.elements if attributes.get("class") == "scroll"
    ):
        assert (one["tabindex"], one["role"]) == ("0", "region") and one["aria-label"]
    levels = [int(tag[1]) for tag, _ in outline.elements if re.fullmatch(r"h\d", tag)]
    assert (
        levels[0] == 1
        and levels.count(1) == 1
        and all(later <= level + 1 for level, later in pairwise(levels))
    )
    assert outline.all("html")[0]["lang"] == "en"


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    """Of two colours, 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def test_words_stand_out_in_light_and_dark() -> None:
    """
    At least 4.5 to 1 for words, and 1.25 to 1 for neighbours in a bar, which patterns tell apart
    besides.
    """
    style = (files("worker.report") / "page.css").read_text()
    blocks = re.findall(r":root \{(.+?)\}", style, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        colours = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6})", block))
        for ink in ("ink", "soft", "link"):
            assert (
                min(
                    contrast(colours[ink], colours[ground]) for ground in ("paper", "card", "track")
                )
                >= 4.5
            ), ink
        assert (
            contrast(colours["del-ink"], colours["del"])
            >= 4.5
            <= contrast(colours["ins-ink"], colours["ins"])
        )
        for here, there in pairwise(("card", "new", "copy", "recrawl", "other")):
            assert contrast(colours[here], colours[there]) >= 1.03


def test_a_report_of_little_is_whole() -> None:
    """One verdict, one dead letter, no texts at all: every section says what is not there."""
    for answers in ([verdict(1)], [dead("no-body")], [copy(1, 0)]):
        text, _ = drawn(taken(*answers))
        assert "Documents over time" in text
    text, _ = drawn(taken(copy(1, 0)), WantedTexts())
    assert "have no text of both" in text and "No document given has a text" in text


def test_what_is_kept_apart_is_counted_by_rule_and_shown_by_examples() -> None:
    """
    The first ones of each rule, next to their originals; and of two pages how much was left out.
    """
    page_of = KeptApart("d1", ApartReason.OTHER_PAGE, 0.712)
    others = KeptApart("d2", ApartReason.LIKE_OTHERS, 0.6)
    number = APART_SHOWN_MAX + 2
    tally = taken(
        *(verdict(at) for at in (1, 2)),
        *(verdict(10 + at, kept_apart=page_of) for at in range(number)),
        verdict(30, kept_apart=others),
    )
    assert tally.wanted([]) == {"d1", "d2", "d30", *(f"d{10 + at}" for at in range(number - 2))}
    account = PageAccount("main", 7, {"dialogs": 5})
    read = WantedTexts(
        {
            "d1": ReadText("the ferry is late again", account=account),
            "d10": ReadText("the ferry is early again", account=account._replace(kept=8)),
        }
    )
    text, outline = drawn(tally, read)
    said = " ".join(" ".join(outline.texts).split())
    for sentence in (
        f"at another URL and with another title {number} about as similar to other originals as to "
        "the most similar one 1",
        "https://host1.example/10 similarity 0.712",
        "7 of 12 words, from the page's <main>; left out: dialogs 5",
        "8 of 13 words",
        "the ferry is late again",
    ):
        assert sentence in said, sentence
    assert text.count("the most similar original<") == APART_SHOWN_MAX + 1
    assert "<del>late" in text and "<ins>early" in text
    assert "New, although similar" not in drawn(taken(verdict(1)), read)[0]


def test_bars_begin_at_zero_and_end_below_the_top() -> None:
    """Each bar's parts stand on each other, the first one on the ground."""
    chart = stacked(
        ["a", "b"], ["x", "y"], list("01234"), np.array([[0, 0], [1, 2], [7, 0], [0, 9], [3, 3]])
    )
    assert chart.levels[0] == (HEIGHT, 0)
    for bar in chart.bars:
        bottom = float(HEIGHT)
        for piece in bar.pieces:
            assert piece.top + piece.height == pytest.approx(bottom, abs=0.02)
            bottom = piece.top
        assert bottom >= 0
        assert HEIGHT - bottom == pytest.approx(HEIGHT * bar.total / chart.levels[-1][1], abs=0.05)


@pytest.mark.parametrize("most", [0, 1, 4, 5, 99, 100, 101, 12_345_678])
def test_scales_are_round_and_high_enough(most: int) -> None:
    """From 0, in equal steps, at most five of them."""
    found = ticks(most)
    assert found[0] == 0 and found[-1] >= most and 2 <= len(found) <= 6
    assert len({later - earlier for earlier, later in pairwise(found)}) == 1


@pytest.mark.parametrize("span_ms", [0, 999, 60_000, 86_400_000, 3 * 10**10, 3 * 10**13])
def test_times_are_cut_into_round_bins(span_ms: int) -> None:
    """Few enough to be drawn, and all of them in it."""
    start, step = bins(START_MS, START_MS + span_ms)
    assert (
        start <= START_MS and start % step == 0 and (START_MS + span_ms - start) // step < BINS_MAX
    )


def test_a_time_far_outside_does_not_press_the_rest_together() -> None:
    """It is told of, not drawn; what has no time is told of, too."""
    moments = np.array(
        [START_MS + number * 1_000 for number in range(1_000)] + [0, NO_TIME], np.int64
    )
    found = times(np.full(1_002, Class.NEW, np.uint8), moments)
    assert found is not None
    chart, step, outside, unknown = found
    assert (sum(bar.total for bar in chart.bars), outside, unknown) == (1_000, 1, 1)
    assert step <= 60_000


def test_years_before_and_after_our_time_are_drawn() -> None:
    """The bounds of what a message may bring."""
    low, high = -62_135_596_800_000, 253_402_300_799_999
    found = times(np.zeros(2, np.uint8), np.array([low, high], np.int64))
    assert found is not None and sum(bar.total for bar in found[0].bars) == 2


WORDS = st.lists(
    st.sampled_from(["the", "ferry", "is", "late", "橋", "は", "ที่", ",", ".", "Über"]), max_size=120
)


TEXT = " ".join(f"w{number}" for number in range(100))


def marked(first: str, second: str) -> list[str]:
    """What the one row of two texts does not show as shared."""
    (row,) = difference(first, second).rows
    return [part.text for part in row.left + row.right if not part.is_shared]


@given(WORDS, WORDS)
def test_what_is_shown_is_what_the_texts_have(first: list[str], second: list[str]) -> None:
    """Each side shows its own words in order; what is not marked is equal on both sides."""
    found = difference(" ".join(first), " ".join(second))
    assert found.is_equal == (first == second) or found.more
    for row in found.rows:
        for side, words in ((row.left, first), (row.right, second)):
            shown = "".join(part.text for part in side)
            assert shown in " ".join(words)
        shared = [
            "".join("".join(part.text for part in side if part.is_shared).split())
            for side in (row.left, row.right)
        ]
        assert shared[0] == shared[1]


def test_long_equal_runs_are_left_out_and_counted() -> None:
    """A few words stay on either side of a change."""
    text = TEXT.split()
    found = difference(TEXT, TEXT.replace("w50", "other"))
    (row,) = found.rows
    assert (row.left_out, found.left_out) == (50 - CONTEXT, 49 - CONTEXT)
    assert [part.text for part in row.right] == [" ".join(text[50 - CONTEXT : 50]) + " ", "other ",
                                                 " ".join(text[51 : 51 + CONTEXT]) + " "]  # fmt: skip


def test_equal_texts_show_their_beginning() -> None:
    """And how much follows."""
    found = difference(TEXT, TEXT.replace(" ", "\n"))
    assert found.is_equal and found.left_out == 100 - 2 * CONTEXT
    assert found.rows[0].left[0].text.startswith("w0 w1") and found.rows[0].right[
        0
    ].text.startswith("w0\nw1")


def test_what_one_text_has_behind_all_of_the_other_is_shown() -> None:
    """A copy with a paragraph more is not equal."""
    for pair in ((TEXT, f"{TEXT} more"), (f"{TEXT} more", TEXT)):
        found = difference(*pair)
        assert (found.is_equal, found.rows[0].left_out, found.left_out) == (False, 100 - CONTEXT, 0)
        assert marked(*pair) == ["more"]


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("橋は古い。", "橋は新い。", ["古", "新"]),  # one character is changed, one is marked
        ("पहले यह जंगली नाहा", "पहले वह जंगली नाहा", ["यह ", "वह "]),  # a word of Hindi is one word
        ("ที่นี่", "ที่นั่", ["นี่", "นั่"]),  # a tone of Thai is no sign of its own
    ],
)
def test_scripts_differ_by_their_own_pieces(first: str, second: str, expected: list[str]) -> None:
    """By the character where no spaces are; marks stay with their letters."""
    assert marked(first, second) == expected


def test_many_places_are_counted() -> None:
    """The first are shown."""
    text = [f"w{number}" for number in range(60 * ROWS_MAX)]
    changed = [word if number % 40 else "x" for number, word in enumerate(text)]
    found = difference(" ".join(text), " ".join(changed))
    assert (len(found.rows), found.more) == (ROWS_MAX, 60 * ROWS_MAX // 40 - ROWS_MAX)


def test_the_kind_of_a_difference_is_told() -> None:
    """Below the texts of a cluster: advertisements in blocks, other facts, or nothing at all."""
    article = [f"w{number}" for number in range(80)]
    first = " ".join([*article[:40], *(f"x{number}" for number in range(20)), *article[40:]])
    second = " ".join([*article[:40], *(f"y{number}" for number in range(15)), *article[40:]])
    told = "The copy differs in blocks (1 passage of 20 words): advertisements? Struck out"
    read = WantedTexts({"d0": ReadText(first), "d1": ReadText(second)}, Counter())
    text, _ = drawn(taken(verdict(0), copy(1, 0, 3, 0.8)), read)
    assert told in text
    assert difference(first, first).is_equal and not difference(first, second).is_equal
    assert difference(first, first.replace("w7 ", "v7 ")).spread.kind == "scattered"


# ---- in headless Chromium, light and dark, narrow and wide; skipped where there is none

CHROMIUM = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
in_chromium = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: make chromium")

# Chromium's window has a least width, a frame has none.
FRAME = """<!DOCTYPE html><title></title><body style="margin: 0"><iframe width="{width}" height="900"
style="border: 0" srcdoc="{page}"></iframe><script>
addEventListener("load", () => {{
  const page = document.querySelector("iframe").contentDocument;
  const over = [...page.querySelectorAll("body *")].filter(one => !one.closest(".sr, .defs, .skip, .scroll")
    && one.getBoundingClientRect().right > {width} + 1);
  document.title = JSON.stringify({{over: over.map(one => one.outerHTML.slice(0, 80)),
    ground: getComputedStyle(page.body).backgroundColor, sections: page.querySelectorAll("section").length}});
}});
</script></body>"""


def dom(folder: Path, text: str, *, is_dark: bool = False) -> str:
    path = folder / "report.html"
    path.write_text(text)
    return output_of(
        str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
        "--window-size=1500,900", f"--blink-settings=preferredColorScheme={0 if is_dark else 1}",
        f"--user-data-dir={folder / 'profile'}", "--dump-dom", path.as_uri(), timeout=120,
    )  # fmt: skip


@pytest.mark.slow
@in_chromium
@pytest.mark.parametrize(("width", "is_dark"), [(400, False), (1_400, True)])
def test_nothing_stands_out_of_the_page(tmp_path: Path, width: int, is_dark: bool) -> None:
    """Whatever the width, nothing is wider than the window; the colours follow the reader's."""
    page = html.escape(drawn(a_crawl(), texts())[0])
    found = dom(tmp_path, FRAME.format(width=width, page=page), is_dark=is_dark)
    said = re.search(r"<title>(\{.+?\})</title>", found)
    assert said is not None
    assert json.loads(html.unescape(said[1])) == {
        "over": [], "ground": "rgb(20, 23, 26)" if is_dark else "rgb(251, 250, 248)",
        "sections": 10,
    }  # fmt: skip


@pytest.mark.slow
@in_chromium
def test_no_text_of_a_document_runs(tmp_path: Path) -> None:
    """Even where a script stood in the page, the policy would not let it run."""
    text, _ = drawn(taken(hostile(1, f"javascript:{EVIL}")), None, EVIL)
    found = dom(tmp_path, text.replace("</body>", "<script>document.title = 'ran'</script></body>"))
    assert "<title>ran</title>" not in found
    assert "<img" not in found and found.count("<script") == 1


def test_a_recrawl_is_no_copy() -> None:
    """
    The same URL again, and a page with a former version, whatever the original is; copies are exact
    or near.
    """
    answers: list[Verdict | DeadLetter] = [
        verdict(1),
        verdict(2, former_version=former(1, Changed.MUCH)),
        copy(3, 1, 0),
        copy(4, 1, 5),
        copy(5, 1, same_url=True),
        copy(6, 1, former_version=former(2, Changed.LITTLE)),
        verdict(7, outcome=Outcome.SKIPPED, reason="empty-text", fingerprint=None),
        verdict(
            8,
            outcome=Outcome.DELETED,
            url=None,
            fetched_at_ms=None,
            reason="removed",
            fingerprint=None,
        ),
        dead("no-body"),
    ]
    expected = [
        Class.NEW, Class.VERSION, Class.EXACT, Class.NEAR, Class.RECRAWL, Class.RECRAWL,
        Class.SKIPPED, Class.DELETED, Class.DEAD,
    ]  # fmt: skip
    assert [class_of(one) for one in answers] == expected
    with taken(*answers) as tally:
        assert tally.classes.tolist() == [int(one) for one in expected]
        assert tally.counts()[Class.RECRAWL] == 2
        assert [time_ms == NO_TIME for time_ms in tally.times_ms] == [False] * 7 + [True] * 2
        assert tally.distances[Class.NEAR, 5] == tally.distances[Class.EXACT, 0] == 1
        assert tally.changed == {"much": 1, "little": 1}
        assert tally.reasons == {(Class.SKIPPED, "empty-text"): 1, (Class.DELETED, "removed"): 1}
        assert tally.errors == {"no-body": (1, "too bad", "documents[1] at 7, x")}
        assert tally.hosts["host2.example"][Class.RECRAWL] == 1
        assert len(tally.clusters) == 2  # without the re-crawls


def test_the_largest_clusters_come_with_their_members() -> None:
    """Largest first, of equals the earlier; a member that is answered twice stands once."""
    with taken(
        copy(9, 5),
        copy(1, 0, 3, 0.9),
        copy(2, 0, 9, 0.8),
        copy(2, 0, 9, 0.8),
        copy(8, 4),
        verdict(3),
    ) as tally:
        assert tally.clusters.sizes() == {2: 2, 4: 1}
        first, second, third = tally.clusters.largest(5)
        assert (first.size, [one.doc_id for one in first.members], first.farthest.doc_id) == (
            4,
            ["d1", "d2"],
            "d2",
        )
        assert [second.original.doc_id, third.original.doc_id] == ["d5", "d4"]
        assert len(tally.clusters.largest(1)) == 1
    with taken(verdict(1)) as tally:
        assert (tally.clusters.sizes(), tally.clusters.largest(3)) == ({}, [])


def test_what_has_no_bound_in_the_input_has_one_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Hosts, reasons and classes of errors beyond their maximum are counted together; no answer is
    lost.
    """
    monkeypatch.setattr(tallies, "HOSTS_MAX", 2)
    monkeypatch.setattr(tallies, "REASONS_MAX", 2)
    skipped = [
        verdict(n, outcome=Outcome.SKIPPED, reason=f"r{n}", fingerprint=None) for n in range(5)
    ]
    with taken(*skipped, *(dead(f"code{n}") for n in range(5))) as tally:
        assert len(tally.hosts) == 3 and sum(map(sum, tally.hosts.values())) == 5
        assert sum(tally.reasons.values()) == 5 and (Class.SKIPPED, OTHER) in tally.reasons
        assert tally.errors[OTHER][0] == 3


def test_a_copy_takes_few_bytes_of_memory() -> None:
    """Twenty-four, and what a growing array has in reserve; its verdict lies on disk."""
    clusters, one = Clusters(), encode_verdict(verdict(1))[1]
    clusters.add("d", one, "u")
    tracemalloc.start()
    for _ in range(50_000):
        clusters.add("d", one, "u")
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    clusters.close()
    assert held < 50_000 * 28


def test_answers_are_read_from_every_kind_of_line() -> None:
    """
    Verdicts, dead letters of `dedup` and of `verdicts --only dead`; a URL with the words of one is still a
    verdict's.
    """
    lines = [
        encode_verdict(verdict(1, url='https://a.example/"dead-letter"'))[1],
        b"\n",
        dead("no-body").line(),
        b'{"verdict":"dead-letter","doc_id":null,"error":{"code":"c","text":"t"},"source":{"topic":"files","partition":0,'
        b'"offset":3},"input":{}}\n',
    ]
    read = list(of_lines(lines, "x"))
    assert [one.value for one in read] == [lines[0], *lines[2:]]
    found = [one.answer for one in read]
    assert found[0] == verdict(1, url='https://a.example/"dead-letter"')
    assert [one.code for one in found[1:] if isinstance(one, DeadLetter)] == ["no-body", "c"]


@pytest.mark.parametrize(
    "line", [b"{", b"[]", b'{"verdict":"new"}', b"\xff", b'{"code":1}', b'"verdict"']
)
def test_what_is_no_answer_is_named_by_its_line(line: bytes) -> None:
    """With what to name instead."""
    with pytest.raises(StopError, match=r"v\.jsonl, line 2: .*neardup dedup"):
        list(of_lines([encode_verdict(verdict(1))[1], line], "v.jsonl"))


def test_what_documents_did_not_bring_is_not_shown() -> None:
    """No URL and no time that was made up, neither in a list nor in a count; doc_ids instead."""
    match = copy(2, of=1).duplicate_of
    assert match is not None
    first = verdict(1, url="urn:neardup:d1", fetched_at_ms=0)
    second = verdict(
        2,
        url="urn:neardup:d2",
        fetched_at_ms=0,
        outcome=Outcome.DUPLICATE,
        duplicate_of=match._replace(original=Original("d1", "urn:neardup:d1", 0)),
    )
    tally = taken(first, second)
    text, _ = drawn(tally)
    assert (tally.without_url, tally.hosts) == (2, {})
    shown = text[text.index("<body>") :]
    assert "1970" not in shown and "urn:" not in shown and "(no host)" not in shown
    assert "No document brings a time of capture." in shown
    assert "No document brings a URL." in shown
    assert "<bdi>d1</bdi>" in shown and "<code>d2</code>" in shown


def test_some_documents_without_a_url_are_counted() -> None:
    """Next to the hosts of the others."""
    text, _ = drawn(taken(verdict(1), copy(2, of=1), verdict(3, url="urn:neardup:d3")))
    assert "2 hosts in all; 1 documents have no URL." in text


def test_documents_without_a_name_are_found_in_whichever_run_they_were_judged(
    tmp_path: Path,
) -> None:
    """
    A second run with one state names them by another place than a reading of its files alone; what
    is known by its digest is found, and nothing else.
    """
    file = tmp_path / "in.jsonl"
    file.write_text(lines({"text": "one text"}, {"text": "another"}))
    first, second = (record.key.decode() for record in CrawlFiles([file]) if record.key)
    again = f"2.1.7-{first[-16:]}"
    wanted = {first, again, "2.1.8-0123456789abcdef"}
    found = read_texts(CrawlFiles([file]), wanted, Settings()).texts
    assert {name: text.text for name, text in found.items()} == {
        first: "one text", again: "one text"
    }  # fmt: skip
    assert second not in found


def test_the_text_of_a_document_that_was_named_apart_is_found(tmp_path: Path) -> None:
    """Its file has its former doc_id, and the name has the digest of its content."""
    files = [tmp_path / "1.jsonl", tmp_path / "2.jsonl"]
    long = "x" * 1_024  # is cut where the digest is added
    for number, file in enumerate(files):
        texts = (f"the {word} text of file {number}" for word in ("first", "second", "third"))
        rows = zip(("a", "a-b", long), texts, strict=True)
        file.write_text(lines(*({"doc_id": doc_id, "text": text} for doc_id, text in rows)))
    text_of = {one.doc_id: one for one in Deduplicator(threads=1).add_many(CrawlFiles(files))}
    assert len(text_of) == 6
    found = read_texts(CrawlFiles(files), text_of.keys(), Settings()).texts
    assert [found[doc_id].text for doc_id in text_of] == [
        f"the {word} text of file {number}"
        for number in (0, 1)
        for word in ("first", "second", "third")
    ]


def test_a_doc_id_is_that_of_the_first_file_that_has_it() -> None:
    """
    As for `dedup`: the second file's row 1 is another document. A file's last text counts, and of
    a stream the last of all.
    """
    told = [("a", "one"), ("a", "one, and more"), ("b", "another")]
    named = {"doc_id": "1", "url": "u", "fetched_at": "2024-05-01T00:00:00Z"}
    records = [
        Record(file, 0, b"1", json.dumps({**named, "text": text}).encode()) for file, text in told
    ]
    for from_topics, text in ((False, "one, and more"), (True, "another")):
        found = read_texts(records, {"1"}, Settings(), from_topics=from_topics)
        assert found.texts["1"].text == text
