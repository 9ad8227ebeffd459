"""Plain texts need no code for pages, and read the same with it and without."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from worker.core.extract import AS_PAGE, AS_PLAIN
from worker.core.fingerprint import FingerprintBatch, Fingerprinter
from worker.core.pages import extract_packed, extract_pages, pack_bodies

LIMIT = 7  # characters: the strategies' texts are longer and shorter


@given(st.lists(st.text(max_size=40), max_size=6), st.sampled_from([LIMIT, 1_000]))
@example(["", "plain", "naïve", "漢字 and 😀", "<p>no page</p>", "a" * 100], LIMIT)
@example(["é" * 40, "x" * 40] * 3, 1_000)
def test_a_plain_text_is_the_same_alone_and_among_pages(
    texts: list[str], characters_max: int
) -> None:
    """
    A batch of plain texts alone has a kernel of its own; a page among them leads to the other one.
    """
    kinds = [AS_PLAIN] * len(texts)
    alone = extract_packed(*pack_bodies(texts, kinds), characters_max=characters_max)
    among = extract_packed(
        *pack_bodies([*texts, "<p>page"], [*kinds, AS_PAGE]), characters_max=characters_max
    )
    count = len(texts)
    for number in range(count):
        assert alone.text(number) == among.text(number)
    assert alone.methods.tolist() == among.methods[:count].tolist()
    assert alone.titles.tolist() == among.titles[:count].tolist()


@given(
    st.lists(st.text("ab é—яж漢字हि😀", min_size=20, max_size=200), min_size=1, max_size=4),
    st.sampled_from([LIMIT, 45, 1_000]),
)
@example(["Не время! " * 20, "漢字かな交じり文。" * 20, "один 😀 " * 20], 1_000)
def test_a_plain_text_is_read_as_its_characters(texts: list[str], characters_max: int) -> None:
    """Whatever their size is in UTF-8, and where blocks of bytes end, up to the limit."""
    bodies = pack_bodies(texts, [AS_PLAIN] * len(texts))
    read = extract_packed(*bodies, characters_max=characters_max)
    assert [read.text(number) for number in range(len(texts))] == [
        text[:characters_max] for text in texts
    ]


# Letters that keep their bytes when folded or do not, marks, separators, what no token shows, and
# characters that are tokens; two and three bytes meet the ends of blocks at all places.
_LETTERS = "abT 1éÉßſİŉяЖЁάΣẞỆK“—\u0301\u00ad\u200bह漢カ😀"


@given(
    st.lists(st.text(_LETTERS, min_size=30, max_size=300), min_size=1, max_size=4),
    st.sampled_from([LIMIT, 1_000]),
)
@example(["Où était-ce ? « Là-bas », dit-elle — ÉMUE. " * 9, "Не время! ЁЛКА — " * 20], 1_000)
@example(
    ["é" * 200, "x" + "é" * 200, "—" * 100, "a—" * 100, "яЯяя—" * 40, "x" + "я" * 31 + "—"], 1_000
)
@example(["plain text, and at its end one 😀" * 3, "e\u0301tude " * 20, "İstanbul " * 20], 1_000)
def test_a_plain_text_has_the_fingerprint_of_its_string(
    texts: list[str], characters_max: int
) -> None:
    """Texts are packed in UTF-8, and strings as code points: both have the same tokens."""
    fingerprinter = Fingerprinter()
    bodies = pack_bodies(texts, [AS_PLAIN] * len(texts))
    read = extract_packed(*bodies, characters_max=characters_max)
    found = fingerprinter.packed(read.texts)
    wanted = fingerprinter.batch([text[:characters_max] for text in texts])
    for column in FingerprintBatch._fields:
        assert getattr(found, column).tolist() == getattr(wanted, column).tolist()


def test_bodies_may_come_one_by_one() -> None:
    """They are read once, whatever yields them."""
    pages: list[str | bytes] = [
        "<p>The ferry is late again today.</p>",
        b"<p>Nobody on the quay knows why.</p>",
    ]
    found = extract_pages(page for page in pages)
    assert [found.text(number) for number in range(2)] == [
        "The ferry is late again today.",
        "Nobody on the quay knows why.",
    ]
