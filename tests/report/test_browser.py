"""The page in headless Chromium, light and dark, narrow and wide; skipped where there is no Chromium."""

from __future__ import annotations

import html
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.report.made import taken
from tests.report.test_page import EVIL, a_crawl, drawn, hostile, texts

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium on PATH: make chromium")

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
    done = subprocess.run(
        [
            str(CHROMIUM), "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
            "--window-size=1500,900",
            f"--blink-settings=preferredColorScheme={0 if is_dark else 1}", f"--user-data-dir={folder / 'profile'}",
            "--dump-dom", path.as_uri(),
        ],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("width", "is_dark"), [(400, False), (1_400, True)])
def test_nothing_stands_out_of_the_page(tmp_path: Path, width: int, is_dark: bool) -> None:
    """Whatever the width, nothing is wider than the window; the colours follow the reader's."""
    page = html.escape(drawn(a_crawl(), texts())[0])
    found = dom(tmp_path, FRAME.format(width=width, page=page), is_dark=is_dark)
    said = re.search(r"<title>(\{.+?\})</title>", found)
    assert said is not None
    assert json.loads(html.unescape(said[1])) == {
        "over": [], "ground": "rgb(20, 23, 26)" if is_dark else "rgb(251, 250, 248)", "sections": 10,
    }  # fmt: skip


@pytest.mark.slow
def test_no_text_of_a_document_runs(tmp_path: Path) -> None:
    """Even where a script stood in the page, the policy would not let it run."""
    text, _ = drawn(taken(hostile(1, f"javascript:{EVIL}")), None, EVIL)
    found = dom(tmp_path, text.replace("</body>", "<script>document.title = 'ran'</script></body>"))
    assert "<title>ran</title>" not in found
    assert "<img" not in found and found.count("<script") == 1
