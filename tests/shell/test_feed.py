"""What `neardup feed` sends fits into a message, and the demo tells when feeding fails."""

from __future__ import annotations

import itertools
import re
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from tests.shell.test_archives import warc_record
from worker.devkit import demo
from worker.devkit.demo import Demo
from worker.errors import StopError
from worker.settings import MESSAGE_BYTES_MAX, Settings
from worker.shell.files.crawl import FED_BODY_BYTES_MAX as BODY_BYTES_MAX
from worker.shell.files.crawl import CrawlFiles


def test_a_page_that_fits_into_no_message_is_left_out_and_counted(tmp_path: Path) -> None:
    """The largest body that is taken fits, base64 and all; one byte more is counted as too large, and the rest goes."""
    path = tmp_path / "crawl.warc"
    bodies = b"<p>one</p>", b"x" * BODY_BYTES_MAX, b"y" * (BODY_BYTES_MAX + 1), b"<p>two</p>"
    path.write_bytes(b"".join(warc_record(number, body) for number, body in enumerate(bodies)))
    crawl = CrawlFiles([str(path)], body_max=BODY_BYTES_MAX)
    sizes = [len(record.key or b"") + len(record.value or b"") for record in crawl]
    assert len(sizes) == 3
    assert max(sizes) < MESSAGE_BYTES_MAX
    assert crawl.tally.left_out == {"body-too-large": 1}


class _Outcome:
    failures, failed = 2, ["too large", "too late"]


@pytest.mark.parametrize(
    ("outcome", "text"),
    [(_Outcome(), "2 documents could not be fed: too large; too late"), (ValueError("odd"), "ValueError('odd')")],
)
def test_the_demo_ends_when_its_feeding_fails(monkeypatch: pytest.MonkeyPatch, outcome: Any, text: str) -> None:
    """Failed deliveries and failures of any kind end the demo at once, not after its patience."""

    def feed(*_: Any) -> Any:
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    monkeypatch.setattr(demo, "feed_documents", feed)
    monkeypatch.setattr(demo, "watch", lambda *_, **__: itertools.repeat(None))
    running = Demo(Settings(), CrawlFiles([]), truth=None, rate=0)  # type: ignore[arg-type]
    with pytest.raises(StopError, match=re.escape(text)):
        deque(running.run(), maxlen=0)
