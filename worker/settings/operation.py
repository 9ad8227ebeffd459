"""State on disk, metrics and logs."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import BaseModel

from worker.log.record import FORMAT_VERSION
from worker.settings.field import setting


class OperationSettings(BaseModel):
    """State on disk, metrics and logs."""

    state_dir: Path | None = setting(
        None,
        "directory",
        "Where snapshots are kept, and most of what is known of originals. Without it a start replays the whole log, "
        "and all is in memory.",
    )
    snapshot_interval_s: float = setting(
        300.0, "s", "Between two snapshots: a start replays at most so much of the log.", low=1, high=86_400
    )
    record_format: int = setting(
        0,
        "number",
        "Format of the log's records. 0: the one that the log has; a new log has the newest. Raised when every worker "
        "reads it, at one worker: all follow, and older versions end.",
        low=0,
        high=FORMAT_VERSION,
    )
    metrics_host: str = setting("127.0.0.1", "address", "Where metrics are served; 0.0.0.0 in a container.")
    metrics_port: int = setting(
        0, "port", "Port of metrics, health and status. Over HTTP; 0 serves none.", low=0, high=65_535
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting("info", "choice", "The least that is logged.")
    log_format: Literal["auto", "json", "console"] = setting(
        "auto", "choice", "How logs are written. auto: readable on a terminal, else JSON, one object a line."
    )
    tracing: bool = setting(
        False,
        "yes/no",
        "Spans of OpenTelemetry. One a document, from read to commit; the context comes and goes in headers. The OTEL_ "
        "variables say where they go. Needs neardup[otel].",
    )
    fault: str | None = setting(
        None, "point:action:hit", "For tests: fail at a named point, for example after-append:kill:3."
    )
