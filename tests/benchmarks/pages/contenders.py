"""
The ways from a page to its text, and from bytes to a fingerprint.

The way before is the worker's until the page kernel came: resiliparse's main content, or all text where that is next to
nothing. Its guards against pages that are slow to parse and its processes are left out: it was slower than here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from worker.core.charset import codec_of, well_formed
from worker.core.document import BodyKind, Document
from worker.core.extract import Content, content_of
from worker.core.fingerprint import Fingerprinter
from worker.core.pages import extract_pages

KERNEL, FUSED = "page kernel", "page kernel, bytes to fingerprint"
BEFORE, MAIN = "the way before", "resiliparse, main content"
BATCH = 64  # pages a call, as the worker has them
CONTENT_TYPE = "text/html; charset=utf-8"
MAIN_SHORT, ALL_IS_MORE = 200, 10  # the rules of the way before
Extract = Callable[[str], str]

FINGERPRINTER = Fingerprinter()


def kernel(page: str) -> str:
    return extract_pages([page]).text(0)


def resiliparse_main(page: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415

    text: str = extract_plain_text(
        page, main_content=True, preserve_formatting=False, list_bullets=False, comments=False
    )
    return text.strip()


def before(page: str) -> str:
    from resiliparse.extract.html2text import extract_plain_text  # noqa: PLC0415

    main = resiliparse_main(page)
    if len(main) >= MAIN_SHORT:
        return main
    text: str = extract_plain_text(page, main_content=False, preserve_formatting=False, list_bullets=False)
    return main if main and len(text) < ALL_IS_MORE * len(main) else text


def selectolax_text(page: str) -> str:
    from selectolax.lexbor import LexborHTMLParser  # noqa: PLC0415

    tree = LexborHTMLParser(page)
    tree.strip_tags(["script", "style", "noscript", "template"])
    return str(tree.text(separator="\n"))


def trafilatura_main(page: str) -> str:
    import trafilatura  # noqa: PLC0415

    return trafilatura.extract(page, include_comments=False) or ""


TEXTS: dict[str, Extract] = {
    KERNEL: kernel,
    BEFORE: before,
    MAIN: resiliparse_main,
    "selectolax, all text": selectolax_text,
    "trafilatura": trafilatura_main,
}


def fused(bodies: Sequence[bytes]) -> NDArray[np.uint64]:
    """Bytes to fingerprints, a batch at a time, as the worker does."""
    found = []
    for begin in range(0, len(bodies), BATCH):
        contents = []
        for body in bodies[begin : begin + BATCH]:
            content = content_of(Document("", "https://e.example/", 0, BodyKind.BYTES, body, CONTENT_TYPE))
            assert isinstance(content, Content)
            contents.append(content)
        packed = extract_pages([content.body for content in contents], [not content.is_page for content in contents])
        found.append(FINGERPRINTER.packed(packed.texts).fingerprints)
    return np.concatenate(found)


def fused_before(bodies: Sequence[bytes]) -> NDArray[np.uint64]:
    """Bytes to fingerprints as before the page kernel: decoded, extracted, fingerprinted."""
    texts = []
    for body in bodies:
        codec, mark = codec_of(body, None, CONTENT_TYPE, is_html=True)
        texts.append(before(well_formed(body[mark:].decode(codec, "replace"))))
    return FINGERPRINTER.batch(texts).fingerprints


def fingerprints(pages: Sequence[str], extract: Extract) -> list[int]:
    return [int(value) for value in FINGERPRINTER.batch([extract(page) for page in pages]).fingerprints]
