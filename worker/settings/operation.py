"""Settings of one worker's operation: definition, state on disk, metrics, questions, logs."""

from __future__ import annotations

import ipaddress
import re
from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, SecretStr, model_validator

from worker.settings.declaration import setting

_TOKEN = re.compile(r"[!-~]{16,1024}")


class OperationSettings(BaseModel):
    """The definition, state on disk, metrics, questions and logs."""

    definition: Path | None = setting(
        None,
        "file",
        (
            "TOML file of what decides verdicts: similarity, fingerprint, retention, search. All "
            "workers of a log need the same definition; a worker with another one is refused. "
            "Without a file, all its keys have their defaults."
        ),
    )
    state_dir: Path | None = setting(
        None,
        "directory",
        (
            "Folder for snapshots and for most data about originals. Without it, a worker replays "
            "the whole log when it starts, and keeps everything in memory."
        ),
    )
    base_snapshot: Path | None = setting(
        None,
        "file or directory",
        (
            "Snapshot that a new log begins with, or a folder whose newest snapshot is taken. It "
            "may come from `archive` or `dedup` with `--state`, from `Deduplicator.save`, or from "
            "another group. The log's first record names it, so `verify` and each worker need the "
            "same one. A worker needs it until its own `state_dir` has a snapshot."
        ),
    )
    snapshot_interval_s: float = setting(
        300.0,
        "s",
        (
            "Shortest time between two snapshots. One of more than 64 MiB waits for 500,000 new "
            "rows of the log, but at most twelve times as long. A start replays what is newer."
        ),
        low=1,
        high=86_400,
    )
    metrics_host: str = setting(
        "127.0.0.1",
        "address",
        (
            "Address at which metrics, health, status and questions are served. Use 0.0.0.0 in a "
            "container. Beyond this machine, questions require ask_token."
        ),
    )
    metrics_port: int = setting(
        0,
        "port",
        "Port of metrics, health, status and questions (/v1/seen). Over HTTP; 0 serves none.",
        low=0,
        high=65_535,
        default_text="off",
    )
    ask_token: SecretStr | None = setting(
        None,
        "secret",
        (
            "Bearer token that clients must send to ask whether a document has been seen: 16 to "
            "1,024 visible ASCII characters. Metrics, health and status need none."
        ),
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info",
        "choice",
        "Lowest level that is logged.",
    )
    log_format: Literal["auto", "json", "console"] = setting(
        "auto",
        "choice",
        (
            "How logs are written. auto is readable on a "
            "terminal, and otherwise JSON, one object per line."
        ),
    )
    tracing: bool = setting(
        False,
        "yes/no",
        (
            "Whether to make OpenTelemetry spans, one per document, from read to commit. The "
            "context is read from and written to headers. The OTEL_ variables say where spans are "
            "sent. Requires the extra `otel`."
        ),
    )

    @property
    def may_ask(self) -> bool:
        """Whether questions are answered: with a token, or to this machine alone."""
        return self.ask_token is not None or _is_loopback(self.metrics_host)

    @model_validator(mode="after")
    def _token_is_hard_to_guess(self) -> Self:
        token = self.ask_token.get_secret_value() if self.ask_token else ""
        if self.ask_token and not _TOKEN.fullmatch(token):
            raise ValueError(
                f"ask_token must have 16 to 1,024 visible ASCII characters, got {len(token):,} "
                "characters: make one with `openssl rand -hex 32`"
            )
        return self


def _is_loopback(host: str) -> bool:
    """
    Return whether only this machine reaches an address. A name is not looked up.

    >>> _is_loopback("127.0.0.1"), _is_loopback("::1"), _is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
