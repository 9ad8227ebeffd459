"""
`python -m tests.report.picture` (`make picture`) makes the README's picture of a report, in Chromium,
and notes which page it shows; a test asserts that the page has not changed since.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.conftest import REPOSITORY
from tests.report.test_report import CHROMIUM, a_crawl, drawn, texts

PICTURE = REPOSITORY / "worker" / "report" / "sample.png"
DIGEST = Path(__file__).with_name("picture.sha256")
SIZE = "1180,1250"
DOCUMENTS = 2_000


def page_digest() -> str:
    """Return the digest of the page that shows the made crawl: it changes if the page does."""
    page, _ = drawn(a_crawl(), texts())
    return hashlib.sha256(page.encode()).hexdigest()


def _neardup(folder: Path, *arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "worker", *arguments], cwd=folder, check=True)


def make_report(folder: Path) -> Path:
    """Write the report on a sample crawl, as the README's first commands do, and return its path."""
    _neardup(folder, "sample-crawl", "--documents", str(DOCUMENTS), "crawl.warc.gz")
    _neardup(folder, "dedup", "crawl.warc.gz", "--output", "verdicts.jsonl")
    title = f"Sample crawl of {DOCUMENTS:,} documents"
    _neardup(folder, "report", "verdicts.jsonl", "--documents", "crawl.warc.gz", "--title", title)
    return folder / "report.html"


def main() -> None:
    """Make the picture and note the page's digest."""
    if CHROMIUM is None:
        sys.exit("no chromium on PATH: make chromium")
    with TemporaryDirectory() as name:
        folder = Path(name)
        report = make_report(folder)
        command = [CHROMIUM, "--headless=new", "--no-sandbox", "--disable-gpu"]
        command += [
            "--hide-scrollbars",
            f"--window-size={SIZE}",
            f"--screenshot={folder / 'p.png'}",
        ]
        command += [f"--user-data-dir={folder / 'profile'}", report.as_uri()]
        subprocess.run(command, check=True, timeout=120)
        shutil.copyfile(folder / "p.png", PICTURE)
    DIGEST.write_text(page_digest() + "\n")


if __name__ == "__main__":
    main()
