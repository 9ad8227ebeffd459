"""The address of a worker's `metrics_port`, as `neardup ask` and `neardup top` take it."""

from __future__ import annotations

from http.client import HTTPConnection, HTTPSConnection
from typing import NamedTuple, Self
from urllib.parse import urlsplit

from worker.errors import StopError

_RULE = "--worker must be HOST:PORT of a worker's metrics_port, or http://HOST:PORT or https://HOST"
# The address is not shown: it may have a secret.
_WITHOUT_SECRETS = f"{_RULE}, without user, query and fragment: the token is NEARDUP_ASK_TOKEN's"


class WorkerAddress(NamedTuple):
    """Where a worker answers, directly or behind a proxy."""

    given: str  # for messages
    is_secure: bool
    host: str
    port: int | None  # None: the scheme's own
    path: str  # of the proxy, without a slash at its end; "": there is none

    @classmethod
    def of(cls, given: str) -> Self:
        """
        Read an address.

        Args:
            given: HOST:PORT, or a URL, which a proxy may need: for https, or for a path of its own.
        Raises:
            StopError: it is no such address.

        >>> WorkerAddress.of("w1:9464")[1:], WorkerAddress.of("https://w.example/near/")[1:]
        ((False, 'w1', 9464, ''), (True, 'w.example', None, '/near'))
        """
        is_url = "://" in given
        try:
            parts = urlsplit(given if is_url else f"http://{given}")
            port = parts.port
        except ValueError as error:
            if "@" in given:
                raise StopError(_WITHOUT_SECRETS) from None
            raise StopError(f"{_RULE}, got {given!r}: {error}") from None
        if parts.username is not None or parts.query or parts.fragment:
            raise StopError(_WITHOUT_SECRETS)
        if port is None and not is_url:
            raise StopError(f"{_RULE}, got {given!r}: it has no port")
        if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
            raise StopError(f"{_RULE}, got {given!r}")
        return cls(given, parts.scheme == "https", parts.hostname, port, parts.path.rstrip("/"))

    def connection(self, timeout_s: float) -> HTTPConnection:
        """Return a connection to it, which is not open yet."""
        kind = HTTPSConnection if self.is_secure else HTTPConnection
        return kind(self.host, self.port, timeout=timeout_s)
