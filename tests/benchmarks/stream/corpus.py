"""
Documents to measure with: generated from a seed, in twelve languages and eight scripts, half of them near duplicates.

Articles are sentences of a language's function words and of content words made from its syllables, drawn with the
skew of natural text and with words of the article's own topic, so that unrelated articles are unrelated. A near
duplicate is a recent article under another URL with 0 to 2 % of its words replaced and perhaps another last line.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
import orjson

from worker.core.stopwords import stopwords

DUPLICATES = 0.5  # share of documents that repeat an earlier one
_RECENT = 5_000  # originals that a duplicate may repeat
_WORDS = 6_000  # content words of a language
_FUNCTION_SHARE = 0.42  # of the running words of prose
_SENTENCE = 14  # words
_EPOCH_MS = 1_760_000_000_000

# onsets, nuclei and codas of syllables, separated by blanks; "·" is none
_Syllables = tuple[str, str, str]
_LATIN: _Syllables = ("b c d f g l m n p r s t v br st tr ch", "a e i o u ai ea", "· n r s l t")
_CYRILLIC: _Syllables = ("б в г д ж з к л м н п р с т ст пр", "а е и о у я ю", "· н й р ль")
_GREEK: _Syllables = ("β γ δ θ κ λ μ ν π ρ σ τ φ", "α ε η ι ο υ ω", "· ν ς ρ")
_ARABIC: _Syllables = ("ب ت ث ج ح خ د ر ز س ش ص ط ع ف ق ك ل م ن ه", "· ا و ي", "· ن ة")
_DEVANAGARI: _Syllables = ("क ख ग च ज ट ड त द न प ब म य र ल व स ह", "· ा ि ी ु े ो", "· न र")

# share of documents, syllables
LANGUAGES: dict[str, tuple[float, _Syllables | None]] = {
    "en": (0.44, _LATIN), "ru": (0.08, _CYRILLIC), "es": (0.07, _LATIN), "de": (0.07, _LATIN),
    "fr": (0.06, _LATIN), "ja": (0.06, None), "zh": (0.06, None), "pt": (0.04, _LATIN),
    "it": (0.04, _LATIN), "ar": (0.03, _ARABIC), "hi": (0.03, _DEVANAGARI), "el": (0.02, _GREEK),
}  # fmt: skip


class Message(NamedTuple):
    """One message of the topic `documents`."""

    key: bytes
    value: bytes


class _Lexicon(NamedTuple):
    words: list[str]  # function words, content words, then all of them ending a sentence, then all of them starting one
    functions: int
    size: int
    joint: str
    mean_bytes: float


@cache
def _lexicon(language: str) -> _Lexicon:
    rng = np.random.default_rng(abs(hash(language.encode()[0])) + len(language))
    functions = sorted(stopwords(language))
    syllables = LANGUAGES[language][1]
    content: dict[str, None] = {}
    while len(content) < _WORDS:
        if syllables is None:  # one to three Han characters, kana endings in Japanese
            word = "".join(chr(int(code)) for code in rng.integers(0x4E00, 0x8000, int(rng.integers(1, 4))))
            word += chr(int(rng.integers(0x3042, 0x3090))) if language == "ja" and rng.random() < 0.5 else ""
        else:
            parts = [part.split() for part in syllables] * int(rng.integers(1, 4))
            word = "".join(str(part[int(rng.integers(len(part)))]).strip("·") for part in parts)
        content.setdefault(word)
    plain = functions + list(content)
    stop = "。" if syllables is None else "।" if language == "hi" else "."
    words = plain + [word + stop for word in plain] + [word[0].upper() + word[1:] for word in plain]
    joint = "" if syllables is None else " "
    sample = [words[i] for i in _draw(rng, len(functions), len(plain), 2_000, rng.integers(0, _WORDS, 40))]
    return _Lexicon(words, len(functions), len(plain), joint, len(joint.join(sample).encode()) / len(sample))


def _draw(
    rng: np.random.Generator, functions: int, size: int, count: int, topic: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Draw running words: function words, common and rare content words, and words of the topic."""
    function = (functions * rng.random(count) ** 2).astype(np.int64)
    content = functions + ((size - functions) * rng.random(count) ** 3).astype(np.int64)
    own = functions + topic[(len(topic) * rng.random(count) ** 1.5).astype(np.int64)]
    kind = rng.random(count)
    words = np.where(kind < _FUNCTION_SHARE, function, np.where(kind < 0.72, content, own))
    words[_SENTENCE - 1 :: _SENTENCE] += size
    words[::_SENTENCE] += 2 * size
    return words


class _Articles:
    """A stream of articles as word numbers; every second one repeats a recent one."""

    def __init__(self, seed: int, body_bytes: int) -> None:
        self.rng = np.random.default_rng(seed)
        self._body_bytes = body_bytes
        self._recent: list[tuple[str, np.ndarray[tuple[int], np.dtype[np.int64]]]] = []
        self._languages = list(LANGUAGES)
        self._shares = np.array([share for share, _ in LANGUAGES.values()])

    def text(self) -> tuple[str, str]:
        """Return the next article's language and text."""
        rng = self.rng
        if self._recent and rng.random() < DUPLICATES:
            language, words = self._recent[int(rng.integers(len(self._recent)))]
            words = words.copy()
            lexicon = _lexicon(language)
            changed = int(len(words) * float(rng.choice([0, 0.003, 0.01, 0.02])))
            words[rng.integers(0, len(words), changed)] = rng.integers(0, lexicon.size, changed)
            if rng.random() < 0.3:
                words = np.concatenate([words, rng.integers(0, lexicon.size, 8)])
        else:
            language = self._languages[int(rng.choice(len(self._languages), p=self._shares))]
            lexicon = _lexicon(language)
            count = int(self._body_bytes * rng.uniform(0.7, 1.3) / lexicon.mean_bytes)
            words = _draw(rng, lexicon.functions, lexicon.size, count, rng.integers(0, _WORDS, 120))
            if len(self._recent) < _RECENT:
                self._recent.append((language, words))
            else:
                self._recent[int(rng.integers(_RECENT))] = (language, words)
        return language, lexicon.joint.join(map(lexicon.words.__getitem__, words.tolist()))


def _message(number: int, language: str, body: dict[str, str], title: str) -> Message:
    doc_id = f"bench-{number:08d}"
    moment = np.datetime64(_EPOCH_MS + 7 * number, "ms").astype(str)
    fields = {
        "doc_id": doc_id,
        "url": f"https://site-{number * 7919 % 4001}.example/{language}/articles/{number:08d}.html",
        "fetched_at": f"{moment}Z",
        "content_type": "text/plain" if "text" in body else "text/html",
        "title": title,
        "language": language,
        **body,
    }
    return Message(doc_id.encode(), orjson.dumps(fields))


def text_documents(count: int, seed: int = 1, body_bytes: int = 4_800) -> Iterator[Message]:
    """Return `count` text documents of 5 KB on average, the JSON around the text included."""
    articles = _Articles(seed, body_bytes)
    for number in range(count):
        language, text = articles.text()
        yield _message(number, language, {"text": text}, text[:60])


def html_documents(count: int, seed: int = 2, page_bytes: int = 56_000) -> Iterator[Message]:
    """
    Return `count` pages of 56 KB: an article of 8 KB in a site's template.

    By bytes: a sixth scripts and styles, a sixth article with links in it, the rest menus, comments, and lists of
    links and cards. 54 tags a KB, where crawled pages have about 33. All but the article differs in copies.
    """
    articles = _Articles(seed, 8_000)
    rng = np.random.default_rng(seed + 1)
    for number in range(count):
        language, text = articles.text()
        html = _page(rng, language, text, page_bytes)
        yield _message(number, language, {"html": html}, text[:60])


def _page(rng: np.random.Generator, language: str, text: str, page_bytes: int) -> str:
    lexicon = _lexicon(language)

    def words(count: int) -> str:
        return lexicon.joint.join(lexicon.words[int(i)] for i in rng.integers(0, lexicon.size, count))

    step = max(200, len(text) // 14)
    paragraphs = "".join(
        f'<p>{text[i : i + step // 2]}<a href="/a/{i}">{text[i + step // 2 : i + step // 2 + 20]}</a>'
        f"<em>{text[i + step // 2 + 20 : i + step // 2 + 40]}</em>{text[i + step // 2 + 40 : i + step]}</p>\n"
        for i in range(0, len(text), step)
    )
    menu = "".join(f'<li class="nav-item"><a href="/c/{i}">{words(2)}</a></li>' for i in range(120))
    comments = "".join(
        f'<div class="comment"><span class="author">{words(1)}</span><p>{words(18)}</p></div>' for _ in range(12)
    )
    script = "".join(f"window.q{i}=function(a,b){{return a+b*{i};}};" for i in range(90))
    style = "".join(f".c{i}{{margin:{i % 9}px;padding:{i % 7}px;color:#{i * 4999 % 0xFFFFFF:06x}}}" for i in range(80))
    head = f"<head><title>{text[:60]}</title><style>{style}</style><script>{script}</script></head>"
    top = f'<nav><ul class="menu">{menu}</ul></nav>'
    end = f'<section class="comments">{comments}</section><footer><p>{words(30)}</p></footer>'
    article = f"<main><article><h1>{text[:60]}</h1>\n{paragraphs}</article></main>"
    cards, size = [], len(f"{head}{top}{article}{end}".encode())
    while size < page_bytes:
        number = int(rng.integers(1_000_000))
        cards.append(
            f'<div class="card c{number % 80}"><div class="box"><a href="/articles/{number}.html">'
            f'<img src="/i/{number}.jpg"></a><h3><a href="/articles/{number}.html"><span>{words(5)}</span></a></h3>'
            f'<ul class="tags"><li>{words(1)}</li><li><a href="/t/{number % 97}">{words(1)}</a></li></ul>'
            f"<p><b>{words(1)}</b> {words(3)}<br><i>{number}</i></p></div></div>\n"
        )
        size += len(cards[-1].encode())
    aside = f'<aside class="related">{"".join(cards)}</aside>'
    return f'<!doctype html><html lang="{language}">{head}<body>{top}{article}{aside}{end}</body></html>'
