"""
Asks librdkafka, the library in the Kafka client, which properties it takes.

The client for Python hands names on without a list of its own. librdkafka has one, and prints it as
the table of its documentation (`rd_kafka_conf_properties_show`, a public function of its C
interface since its first version):

    Property      | C/P | Range     | Default | Importance | Description
    --------------|-----|-----------|--------:|------------| ------------
    linger.ms     |  P  | 0 .. 9000 |       5 | high       | Alias for `queue.buffering.max.ms`: …

So a name is checked against the version that runs, not against a list that ages in this repository.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Mapping
from functools import cache

_ROW = re.compile(r"^([a-z][\w.]*) +\|.*\| (.*)$", re.MULTILINE)
# Callbacks and pointers: a program sets them by a call, and no text can stand for one.
_NO_TEXT = "*Type: see dedicated API*"


@cache
def properties() -> Mapping[str, str]:
    """
    Return the descriptions of the properties that librdkafka documents and that can be given as
    text, by the properties' names.

    Cost: once a process, the import of the client and a few ms.
    """
    return {
        name: description
        for name, description in _ROW.findall(_table())
        if _NO_TEXT not in description
    }


def _table() -> str:
    """Return the table that librdkafka prints into a C stream; here one in memory."""
    # The client's module is linked with librdkafka, so its functions are found through it. It is
    # imported here, so that a command that sets no property of Kafka's need not wait for it.
    from confluent_kafka import cimpl  # noqa: PLC0415

    client = ctypes.CDLL(cimpl.__file__)
    libc = ctypes.CDLL(None)
    libc.open_memstream.restype = ctypes.c_void_p
    text = ctypes.c_char_p()
    size = ctypes.c_size_t()
    stream = ctypes.c_void_p(libc.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    client.rd_kafka_conf_properties_show(stream)
    libc.fclose(stream)  # writes the last part; only then are text and size set
    try:
        return ctypes.string_at(text, size.value).decode()
    finally:
        libc.free(text)
