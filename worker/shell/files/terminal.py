"""
What a terminal would obey, in texts that others have written: escaped in JSON, replaced elsewhere.
"""

from __future__ import annotations

import codecs
import io
import json
import re
from typing import Any, BinaryIO

# Characters that change how those around them are shown, or that are not shown and hide a text:
# marks, embeddings, overrides and isolates of direction, separators of lines, annotations, tags.
_FORMATS = (
    0x061C,
    *(0x200E, 0x200F),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
    *range(0xFFF9, 0xFFFC),
    *range(0xE0000, 0xE0080),
)
# These, DEL and U+0080 to U+009F in UTF-8. All controls below have escapes in JSON.
_RAW_IN_JSON = re.compile(
    rb"""\x7f | \xc2[\x80-\x9f] | \xd8\x9c | \xe2\x80[\x8e\x8f\xa8-\xae] | \xe2\x81[\xa0-\xaf]
    | \xef\xbf[\xb9-\xbb] | \xf3\xa0[\x80\x81][\x80-\xbf]""",
    re.VERBOSE,
)
_OBEYED = {
    number: "\ufffd"
    for number in (*range(0x20), *range(0x7F, 0xA0), *_FORMATS)
    if chr(number) not in "\n\t"
}


def escape_controls(line: bytes) -> bytes:
    """
    Return JSON in which every character that a terminal obeys is escaped.

    Encoders leave DEL, C1 and the overrides of direction as they are. But U+009B begins a sequence
    as ESC [ does, and a text behind U+202E is shown backwards.

    >>> escape_controls('{"url":"a\x9b2J\u202e"}'.encode())
    b'{"url":"a\\\\u009b2J\\\\u202e"}'
    """
    return _RAW_IN_JSON.sub(lambda found: json.dumps(found[0].decode())[1:-1].encode(), line)


class EscapedLines(io.BufferedIOBase):
    """Passes whole lines of JSON on to another stream, their control characters escaped."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write whole lines."""
        self._stream.write(escape_controls(bytes(data)))
        return memoryview(data).nbytes

    def flush(self) -> None:
        """Flush the other stream."""
        self._stream.flush()


class TerminalOutput(io.BufferedIOBase):
    """
    Shows any bytes on a terminal. U+FFFD replaces bytes that are not UTF-8, or that the terminal
    would obey.
    """

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # A lone CR would have the rest of a line overwrite its beginning; it ends the line here.
        self._decoder = io.IncrementalNewlineDecoder(decoder, translate=True)

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write any piece: a character may be cut between two."""
        text = self._decoder.decode(bytes(data))
        self._stream.write(text.translate(_OBEYED).encode())
        return memoryview(data).nbytes

    def finish(self) -> None:
        """Show the beginning of a character that never came whole, and a last CR."""
        self._stream.write(self._decoder.decode(b"", final=True).translate(_OBEYED).encode())

    def flush(self) -> None:
        """Flush the terminal."""
        self._stream.flush()
