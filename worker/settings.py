"""
Every setting of neardup, with its unit, default, bounds and reason: one frozen model, made once at
the start.

Each setting is one call of `setting`, with its default, unit, description and bounds. Flags win
over the environment, that over a file, that over defaults; an error names where a wrong value came
from.
"""

from __future__ import annotations

import difflib
import ipaddress
import json
import os
import re
import socket
import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from worker.core import stopwords
from worker.core.definition import Parameters
from worker.core.document import TEXT_CHARACTERS_MAX
from worker.core.search import SearchRules
from worker.errors import StopError
from worker.log.record import FORMAT_OLDEST, FORMAT_VERSION
from worker.log.rules import Definition, Retention


def setting(
    default: Any,
    unit: str,
    description: str,
    *,
    low: float | None = None,
    high: float | None = None,
    pattern: str | None = None,
    default_text: str | None = None,
    shown: bool = True,
) -> Any:
    """
    Declare a setting.

    Args:
        default: a value, or a function that finds one on this machine.
        unit: what a value counts, or what kind of value it is ("text", "choice", "file").
        description: what the setting does, and why it has its default or its bounds.
            `neardup settings --describe` shows it.
        low: the smallest value; of a text, the smallest number of characters.
        high: the largest value; of a text, the largest number of characters.
        pattern: a regular expression that a text must match.
        default_text: shown instead of a default that depends on the machine.
        shown: False leaves the value out of `repr`, because it may be a secret.
    """
    bounds: Any = (
        {"min_length": low, "max_length": high} if unit == "text" else {"ge": low, "le": high}
    )
    extra: Any = {"unit": unit, "default_text": default_text}
    by_default: Any = {"default_factory": default} if callable(default) else {"default": default}
    return Field(
        **by_default,
        **bounds,
        description=description,
        pattern=pattern,
        json_schema_extra=extra,
        repr=shown,
    )


def unit_of(field: FieldInfo) -> str:
    """Return the unit that a setting was declared with."""
    extra: Any = field.json_schema_extra
    return str(extra["unit"])


def bounds_of(field: FieldInfo) -> str | None:
    """
    Say which values a setting takes: "1 to 100,000", or None when its type says it all.

    >>> bounds_of(setting(5, "ms", "How long a call waits.", low=0, high=10_000))
    '0 to 10,000'
    """
    names = ("ge", "le", "min_length", "max_length")
    found = {
        name: getattr(part, name)
        for part in field.metadata
        for name in names
        if hasattr(part, name)
    }
    low = found.get("ge", found.get("min_length"))
    high = found.get("le", found.get("max_length"))
    if low is None or high is None:
        return None
    characters = " characters" if "max_length" in found else ""
    return f"{low:,} to {high:,}{characters}"


def default_of(field: FieldInfo) -> str:
    """Say what holds when nothing is set."""
    extra: Any = field.json_schema_extra
    if extra["default_text"] is not None:
        return str(extra["default_text"])
    default = field.default
    if isinstance(default, tuple):
        return ",".join(map(str, default))
    if isinstance(default, int) and not isinstance(default, bool):
        return f"{default:,}"
    if isinstance(default, float):
        return f"{default:g}"
    return {None: "none", True: "yes", False: "no"}.get(default) or str(default)


TOPICS = (
    "topic_documents",
    "topic_fingerprints",
    "topic_verdicts",
    "topic_dead_letter",
    "topic_new",
)
_TOPIC = r"^[A-Za-z0-9._-]+$"
_TOKEN = re.compile(r"[!-~]{16,1024}")
_SERVERS = re.compile(r"([A-Za-z0-9_.-]+|\[[0-9a-fA-F:.]+\]):([0-9]{1,5})")

# What librdkafka options would break, or which setting has them already.
KAFKA_OPTIONS_REFUSED = {
    **dict.fromkeys(
        ("enable.auto.commit", "enable.auto.offset.store", "auto.commit.interval.ms"),
        "offsets are committed with the verdicts, in one transaction",
    ),
    "auto.offset.reset": "a reset during a rebalance would publish a partition's verdicts twice",
    "isolation.level": "records of aborted transactions must stay unseen",
    "enable.idempotence": "a retried append must not stand in the log twice",
    **dict.fromkeys(("acks", "request.required.acks"), "a record that one broker loses must not "
                                                       "be lost"),
    "transactional.id": "it follows from group and worker_id, so that a successor fences its "
                        "predecessor",
    "group.instance.id": "it follows from worker_id; see static_membership",
    "partition.assignment.strategy": "the worker relies on cooperative-sticky: an eager one stops "
                                     "every member",
    "allow.auto.create.topics": "a topic made on the fly has the wrong settings: run `neardup "
                                "topics create`",
    "enable.partition.eof": "the worker's own loop sets it",
    "test.mock.num.brokers": "the mock cluster has no transactions",
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list"), "use bootstrap"),
    "group.id": "use group",
    "sasl.mechanisms": "use sasl_mechanism",
    **{
        name: f"use {name.replace('.', '_')}"
        + (", which is never shown" if name.endswith("password") else "")
        for name in (
            "group.protocol", "session.timeout.ms", "max.poll.interval.ms",
            "transaction.timeout.ms", "security.protocol", "sasl.mechanism", "sasl.username",
            "sasl.password", "ssl.ca.location", "ssl.certificate.location", "ssl.key.location",
            "ssl.key.password",
        )
    },
}  # fmt: skip


def _host_name() -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", socket.gethostname())[:128] or "worker"


class ConnectionSettings(BaseModel):
    """The cluster, the group, the topics and security."""

    bootstrap: str = setting(
        "127.0.0.1:19092",
        "host:port list",
        (
            "Brokers to ask first. Separated by commas; the default is where `neardup broker "
            "start` serves."
        ),
    )
    group: str = setting(
        "neardup",
        "text",
        "Consumer group of the workers. Another group reads all documents again.",
        low=1,
        high=200,
        pattern=_TOPIC,
    )
    worker_id: str = setting(
        _host_name,
        "text",
        (
            "Name of this worker's slot. A second process with the same one fences the first: two "
            "on one machine need two."
        ),
        low=1,
        high=128,
        pattern=_TOPIC,
        default_text="the host name",
    )
    topic_documents: str = setting(
        "documents",
        "text",
        "Topic of the captured pages.",
        low=1,
        high=249,
        pattern=_TOPIC,
    )
    topic_fingerprints: str = setting(
        "fingerprints",
        "text",
        "Topic of the ordered log. One partition, never compacted.",
        low=1,
        high=249,
        pattern=_TOPIC,
    )
    topic_verdicts: str = setting(
        "verdicts",
        "text",
        "Topic of the answers.",
        low=1,
        high=249,
        pattern=_TOPIC,
    )
    topic_dead_letter: str = setting(
        "documents.dead-letter",
        "text",
        "Topic of dead letters. What could not be judged, and why.",
        low=1,
        high=249,
        pattern=_TOPIC,
    )
    topic_new: str | None = setting(
        None,
        "text",
        (
            "Topic of the documents that are new. In the transaction of their verdicts, for who "
            "wants nothing else."
        ),
        low=1,
        high=249,
        pattern=_TOPIC,
    )
    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = setting(
        "PLAINTEXT",
        "choice",
        "How to talk to the brokers.",
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"] | None = (
        setting(
            None,
            "choice",
            "How to log in; needed with SASL_PLAINTEXT and SASL_SSL.",
        )
    )
    sasl_username: str | None = setting(
        None,
        "text",
        (
            "User name for PLAIN and SCRAM; the password is $NEARDUP_SASL_PASSWORD or in the "
            "file, never a flag."
        ),
        low=1,
        high=1_024,
    )
    sasl_password: SecretStr | None = setting(
        None,
        "secret",
        "Password for PLAIN and SCRAM.",
    )
    ssl_ca_location: Path | None = setting(
        None,
        "file",
        "Certificates of who signs the brokers' certificates, PEM.",
    )
    ssl_certificate_location: Path | None = setting(
        None,
        "file",
        "This client's certificate, PEM.",
    )
    ssl_key_location: Path | None = setting(
        None,
        "file",
        (
            "This client's private key, PEM; its password is $NEARDUP_SSL_KEY_PASSWORD or in the "
            "file, never a flag."
        ),
    )
    ssl_key_password: SecretStr | None = setting(
        None,
        "secret",
        "Password of the private key.",
    )
    kafka_options: dict[str, str] = setting(
        dict,
        "name=value",
        (
            "Further options of librdkafka for every client. They win over neardup's own; those "
            "that would break a promise are refused."
        ),
        default_text="none",
        shown=False,
    )
    session_timeout_ms: int = setting(
        10_000,
        "ms",
        (
            "After this long without a sign of life the partitions go to others. Above the time "
            "of a restart; brokers refuse less than 6,000 and more than 1,800,000."
        ),
        low=6_000,
        high=1_800_000,
    )
    max_poll_interval_ms: int = setting(
        300_000,
        "ms",
        "The longest that a batch may take before the group takes this worker for stuck.",
        low=10_000,
        high=86_400_000,
    )
    transaction_timeout_ms: int = setting(
        10_000,
        "ms",
        (
            "A dead worker's transaction holds up readers of its verdicts this long. Brokers "
            "refuse more than 900,000."
        ),
        low=1_000,
        high=900_000,
    )
    static_membership: bool = setting(
        True,
        "yes/no",
        "A worker that is back within the session time-out keeps its partitions.",
    )
    group_protocol: Literal["classic", "consumer"] = setting(
        "classic",
        "choice",
        (
            "consumer: KIP-848, where the broker's own time-outs hold (45 s until a death is "
            "noticed)."
        ),
    )
    partitions: int = setting(
        6,
        "partitions",
        (
            "Partitions of a new topic. Of documents, verdicts and dead letters: the most workers "
            "that share the work."
        ),
        low=1,
        high=10_000,
    )
    replication_factor: int = setting(
        1,
        "brokers",
        "Copies of a new partition. 3 to survive the loss of a broker.",
        low=1,
        high=9,
    )

    @field_validator("bootstrap")
    @classmethod
    def _is_server_list(cls, bootstrap: str) -> str:
        for server in bootstrap.split(","):
            found = _SERVERS.fullmatch(server.strip())
            if found is None or not 1 <= int(found[2]) <= 65_535:
                raise ValueError(
                    f"must be host:port, separated by commas, like 10.0.0.1:9092, got "
                    f"{server.strip()!r}"
                )
        return bootstrap

    @field_validator("kafka_options")
    @classmethod
    def _keeps_the_promises(cls, options: dict[str, str]) -> dict[str, str]:
        for name in options:
            if name in KAFKA_OPTIONS_REFUSED:
                raise ValueError(f"{name} cannot be set: {KAFKA_OPTIONS_REFUSED[name]}")
        return options

    @model_validator(mode="after")
    def _connection_agrees(self) -> Self:
        topics = {name: topic for name in TOPICS if (topic := getattr(self, name)) is not None}
        if len(set(topics.values())) != len(topics):
            raise ValueError(
                f"{', '.join(topics)} must differ, got {', '.join(topics.values())}: a worker "
                f"would read what it writes"
            )
        if self.security_protocol.startswith("SASL") and self.sasl_mechanism is None:
            raise ValueError(
                f"sasl_mechanism is needed with security_protocol {self.security_protocol}, got "
                f"none"
            )
        if self.sasl_mechanism is not None and not self.security_protocol.startswith("SASL"):
            raise ValueError(
                f"security_protocol must be SASL_SSL or SASL_PLAINTEXT with sasl_mechanism "
                f"{self.sasl_mechanism}, got "
                f"{self.security_protocol}: the log-in would be left out silently"
            )
        if self.sasl_mechanism not in (None, "OAUTHBEARER") and (
            not self.sasl_username or not self.sasl_password
        ):
            raise ValueError(
                f"sasl_username and sasl_password are needed with sasl_mechanism "
                f"{self.sasl_mechanism}"
            )
        if (self.ssl_certificate_location is None) != (self.ssl_key_location is None):
            raise ValueError(
                "ssl_certificate_location and ssl_key_location belong together, got one of them"
            )
        return self


MESSAGE_BYTES_MAX = 8 * 2**20  # what the Kafka client takes; topics are created with it
OVERHEAD_BYTES_MAX = 2**16  # key, headers and the client's own bytes of a message


class BatchSettings(BaseModel):
    """Sizes and times of the pipeline."""

    batch_documents_max: int = setting(
        1_000,
        "documents",
        (
            "Documents that share an append to the log and a transaction: 6 ms each, whatever the "
            "size."
        ),
        low=1,
        high=100_000,
    )
    batch_wait_ms: int = setting(
        20,
        "ms",
        "How long a batch waits to fill; adds to the latency when little arrives.",
        low=0,
        high=10_000,
    )
    batch_bytes_max: int = setting(
        8 * 2**20,
        "bytes",
        (
            "Messages that share a batch; it bounds the memory: queue_batches_max of them wait, "
            "up to five are in work."
        ),
        low=65_536,
        high=2**30,
    )
    queue_batches_max: int = setting(
        4,
        "batches",
        "Batches on their way at once. When all are, one more is gathered, and then nothing.",
        low=1,
        high=64,
    )
    record_bytes_max: int = setting(
        900_000,
        "bytes",
        (
            "A record of the log: a batch that needs more is split. Brokers refuse more than "
            "1,048,588 by default, and the client more than 8 MiB."
        ),
        low=16_384,
        high=MESSAGE_BYTES_MAX - OVERHEAD_BYTES_MAX,
    )
    call_timeout_s: float = setting(
        60.0,
        "s",
        (
            "How long a call into the Kafka client may take. One that lasts longer never returns: "
            "the watchdog ends the process after 1.5 times as long, after up to 10 times where "
            "several calls belong together."
        ),
        low=1,
        high=3_600,
    )
    document_bytes_max: int = setting(
        8 * 2**20,
        "bytes",
        (
            "A message of documents; a larger one is a dead letter. The topic's max.message.bytes "
            "must allow it."
        ),
        low=1_024,
        high=64 * 2**20,
    )
    retries_max: int = setting(
        20,
        "attempts",
        "Attempts in a row at one batch after passing errors; then the process ends.",
        low=0,
        high=1_000,
    )
    dead_letter_bytes_max: int = setting(
        900_000,
        "bytes",
        (
            "A message that is copied to the dead letters; a larger one becomes a pointer with "
            "size and digest. The topic refuses messages over 8 MiB."
        ),
        low=1_024,
        high=MESSAGE_BYTES_MAX - OVERHEAD_BYTES_MAX,
    )
    threads: int = setting(
        lambda: max(1, len(os.sched_getaffinity(0)) - 1),
        "threads",
        (
            "Threads of pages and texts. They decode, extract and fingerprint, and search for "
            "originals when they have nothing else to do; by default the machine's cores less one, "
            "at least 1."
        ),
        low=1,
        high=256,
        default_text="cores - 1",
    )
    text_characters_max: int = setting(
        TEXT_CHARACTERS_MAX,
        "characters",
        (
            "Text that is fingerprinted; a longer one is judged by its beginning. Up to 60 bytes "
            "per character and thread."
        ),
        low=1_000,
        high=64 * 2**20,
    )

    @property
    def search_threads(self) -> int:
        """
        Threads that may search for originals at a time while nothing is prepared: those of the
        pages, and the one that judges, but no more than there are cores.
        """
        return min(self.threads + 1, len(os.sched_getaffinity(0)))


def _split(value: Any) -> Any:
    """Read "1,2" as flags and the environment have it; a list, as a file has it, stays."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


@lru_cache(maxsize=8)
def _own_words(path: Path) -> frozenset[str]:
    """Return the words of a user's list, read once a process."""
    try:
        return stopwords.load_stopwords(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"stopwords_file {path} cannot be read: {error.strerror or error}"
        ) from error
    except ValueError as error:
        raise ValueError(f"stopwords_file {path}: {error}") from error


_DEFAULT = Parameters()
_SEARCH = SearchRules()


class EngineSettings(BaseModel):
    """
    Settings of the engine: what a fingerprint is, what counts as near, how long originals stay. A
    log has one value of each.
    """

    search_mode: Literal["directed", "exact"] = setting(
        _SEARCH.mode,
        "choice",
        (
            "How an original is searched. directed looks up the likeliest prefixes and takes a "
            "second look; exact finds everything within max_distance, which should then be 3 to "
            "7."
        ),
    )
    similarity_min: float | None = setting(
        None,
        "Jaccard index",
        (
            "Similarity of copies, 0 to 1. The Jaccard index that the shingles of four tokens of a "
            "duplicate and its original must reach, estimated with an error of .02 to .035: a page "
            "with other facts is another page. Above 0.58, a short text with one other word is "
            "another text, too. 0: whatever the search finds is a duplicate."
        ),
        low=0,
        high=1,
        default_text="0.58; exact: 0",
    )
    max_distance: int = setting(
        _SEARCH.max_distance,
        "bits",
        "Bits in which duplicates may differ. Of the 64 of a fingerprint.",
        low=0,
        high=16,
    )
    search_blocks: int = setting(
        _SEARCH.blocks,
        "blocks",
        "Directed: of the fingerprint, each of which may find an original.",
        low=1,
        high=15,
    )
    search_block_bits: int = setting(
        _SEARCH.block_bits,
        "bits",
        "Directed: of a block. `neardup plan` names blocks and patterns for so many originals.",
        low=16,
        high=32,
    )
    search_patterns: int = setting(
        _SEARCH.patterns,
        "prefixes",
        "Directed: looked up in each block, the likeliest first.",
        low=1,
        high=128,
    )
    search_look_min: int = setting(
        _SEARCH.look_min,
        "thousandths",
        "Directed: the second look that a candidate must reach.",
        low=0,
        high=1_000,
    )
    search_prefix_max: int = setting(
        _SEARCH.prefix_max,
        "originals",
        "Directed: looked at of one prefix, the earliest.",
        low=1,
        high=1 << 20,
    )
    token_unit: Literal["word", "character"] = setting(
        _DEFAULT.token_unit,
        "choice",
        "What a token is; in scripts without spaces it is always a character.",
    )
    shingle_widths: Annotated[tuple[int, ...], NoDecode, BeforeValidator(_split)] = setting(
        _DEFAULT.shingle_widths,
        "tokens",
        "Tokens in a shingle. One number or several, ascending, like 1,2.",
    )
    anchored_weight: int = setting(
        _DEFAULT.anchored_weight,
        "weight",
        (
            "Of a shingle with a function word: prose is full of them, advertisements and menus "
            "are not."
        ),
        low=1,
        high=255,
    )
    unanchored_weight: int = setting(
        _DEFAULT.unanchored_weight,
        "weight",
        "Of every other shingle; 0 leaves them out.",
        low=0,
        high=255,
    )
    term_frequency: Literal["one", "log", "tf"] = setting(
        _DEFAULT.term_frequency,
        "choice",
        "What n occurrences count: 1, 1 + floor(log2 n), or n.",
    )
    anchors: Literal["elected", "named", "union"] = setting(
        _DEFAULT.anchors,
        "choice",
        (
            "Whose function words anchor: of the language that the text itself elects, that its "
            "message names, or of all."
        ),
    )
    stopwords_file: Path | None = setting(
        None,
        "file",
        (
            "Function words of your own in place of the built-in lists: UTF-8, one word per line, "
            "# begins a comment."
        ),
    )
    tokens_min: int = setting(
        _DEFAULT.tokens_min,
        "tokens",
        "A document with fewer must be equal to match.",
        low=1,
        high=1_000,
    )
    shingles_min: int = setting(
        _DEFAULT.shingles_min,
        "shingles",
        ("With unanchored_weight 0: a document with fewer anchored shingles counts all of them."),
        low=1,
        high=1_000,
    )
    mask_numbers: bool = setting(
        _DEFAULT.mask_numbers,
        "yes/no",
        "Dates, times and prices count as one and the same token.",
    )
    mask_identifiers: bool = setting(
        _DEFAULT.mask_identifiers,
        "yes/no",
        "Session ids and hashes count as one and the same token.",
    )
    recrawls: Literal["compare", "replace"] = setting(
        "compare",
        "choice",
        (
            "How a new version of a URL is taken. compare: it is judged like any document, so one "
            "that changed little is a duplicate; replace: the former version leaves the index "
            "first, as with a doc_id that comes again."
        ),
    )
    expire_after_s: int = setting(
        0,
        "s",
        (
            "Forget originals not seen for so long. By the log's time stamps; the next like one "
            "of them is new. 0: never."
        ),
        low=0,
        high=10_000_000_000,
    )
    expire_from: Literal["first", "last"] = setting(
        "first",
        "choice",
        (
            "What counts as seen: the original's own record, or also its duplicates and "
            "redeliveries."
        ),
    )
    documents_max: int = setting(
        0,
        "documents",
        (
            "Keep at most so many originals. Those seen longest ago are forgotten, after each "
            "record of the log. 0: any number."
        ),
        low=0,
        high=4_000_000_000,
    )

    @property
    def parameters(self) -> Parameters:
        """The fingerprint's parameters as the engine takes them."""
        own = {
            name: getattr(self, name)
            for name in Parameters.__dataclass_fields__
            if hasattr(self, name)
        }
        return Parameters(
            **own, stopwords=_own_words(self.stopwords_file) if self.stopwords_file else None
        )

    @property
    def search(self) -> SearchRules:
        """How the original of a document is searched, as the index takes it."""
        return SearchRules(
            self.search_mode, self.max_distance, self.search_blocks, self.search_block_bits,
            self.search_patterns, self.search_look_min, self.search_prefix_max,
            similarity_min=-1 if self.similarity_min is None else self.similarity_min,
        )  # fmt: skip

    @property
    def retention(self) -> Retention:
        """When originals leave, as the log takes it."""
        return Retention(self.expire_after_s * 1_000, self.expire_from, self.documents_max)

    @model_validator(mode="after")
    def _parameters_agree(self) -> Self:
        assert self.parameters and self.search  # their own checks raise ValueError
        return self


class OperationSettings(BaseModel):
    """State on disk, metrics, questions and logs."""

    state_dir: Path | None = setting(
        None,
        "directory",
        (
            "Where snapshots are kept, and most of what is known of originals. Without it a start "
            "replays the whole log, and all is in memory."
        ),
    )
    base_snapshot: Path | None = setting(
        None,
        "file or directory",
        (
            "What a new log begins with: a snapshot, or a folder's newest. Of `archive` or "
            "`dedup` with `--state`, of `Deduplicator.save`, of another group. The log's first "
            "record names it: the same at each worker, until its own `state_dir` has a snapshot, "
            "and for `verify`."
        ),
    )
    snapshot_interval_s: float = setting(
        300.0,
        "s",
        "Between two snapshots: a start replays at most so much of the log.",
        low=1,
        high=86_400,
    )
    record_format: int = setting(
        0,
        "number",
        (
            "Format of the log's records. 0: the one that the log has; a new log has the newest. "
            "Raised when every worker reads it, at one worker: all follow, and older versions "
            "end."
        ),
        low=0,
        high=FORMAT_VERSION,
    )
    metrics_host: str = setting(
        "127.0.0.1",
        "address",
        "Where metrics are served; 0.0.0.0 in a container.",
    )
    metrics_port: int = setting(
        0,
        "port",
        "Port of metrics, health and status. Over HTTP; 0 serves none.",
        low=0,
        high=65_535,
    )
    ask_host: str = setting(
        "127.0.0.1",
        "address",
        "Where questions are answered. Beyond this machine only with ask_token.",
    )
    ask_port: int = setting(
        0,
        "port",
        "Port of /v1/seen, which answers whether a document has been seen; 0 answers nobody.",
        low=0,
        high=65_535,
    )
    ask_token: SecretStr | None = setting(
        None,
        "secret",
        "Bearer token of those who may ask, 16 to 1,024 visible ASCII characters.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = setting(
        "info",
        "choice",
        "The least that is logged.",
    )
    log_format: Literal["auto", "json", "console"] = setting(
        "auto",
        "choice",
        "How logs are written. auto: readable on a terminal, else JSON, one object a line.",
    )
    tracing: bool = setting(
        False,
        "yes/no",
        (
            "Spans of OpenTelemetry. One per document, from read to commit; the context comes and "
            "goes in headers. The OTEL_ variables say where they go. Needs the extra `otel`."
        ),
    )
    fault: str | None = setting(
        None,
        "point:action:hit",
        "For tests: fail at a named point, for example after-append:kill:3.",
    )

    @model_validator(mode="after")
    def _questions_are_guarded(self) -> Self:
        token = self.ask_token.get_secret_value() if self.ask_token else ""
        if self.ask_token and not _TOKEN.fullmatch(token):
            raise ValueError(
                f"ask_token must have 16 to 1,024 visible ASCII characters, got {len(token):,} "
                "characters: make one with `openssl rand -hex 32`"
            )
        if self.ask_port and not self.ask_token and not _is_loopback(self.ask_host):
            raise ValueError(
                f"ask_token is needed with ask_host {self.ask_host}: whoever reaches that address "
                "could ask what has been crawled. Set one, or listen on 127.0.0.1"
            )
        return self


def _is_loopback(host: str) -> bool:
    """
    Return whether nobody but this machine reaches an address; of a name that is not known.

    >>> _is_loopback("127.0.0.1"), _is_loopback("::1"), _is_loopback("0.0.0.0")
    (True, True, False)
    """
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


_AT_LEAST = (
    (
        "batch_bytes_max",
        "document_bytes_max",
        "a document of the largest size must fit into a batch",
    ),
    (
        "max_poll_interval_ms",
        "session_timeout_ms",
        "librdkafka takes a shorter one for an error of ours",
    ),
)
DECIDING = (*EngineSettings.model_fields, "text_characters_max")  # settings of the log's definition


class Settings(OperationSettings, EngineSettings, BatchSettings, ConnectionSettings, BaseSettings):
    """
    Every setting. Made by `worker.settings.load_settings`, or directly with keywords, as in tests.

    >>> Settings(group="night").group
    'night'
    """

    model_config = SettingsConfigDict(
        env_prefix="NEARDUP_",
        env_ignore_empty=True,  # compose files pass "" for what is not set
        frozen=True,
        extra="forbid",
        validate_default=True,
        hide_input_in_errors=True,  # a password never stands in a traceback
    )

    _config: Path | None = PrivateAttr(None)

    @property
    def files(self) -> list[Path]:
        """
        The files that these settings were read from, or name: no command may write to one of them.
        """
        keys = self.ssl_ca_location, self.ssl_certificate_location, self.ssl_key_location
        named = self._config, self.stopwords_file, *keys
        return [path for path in named if path is not None]

    @property
    def definition(self) -> Definition:
        """What all records of this deployment's log must agree on."""
        return Definition.of(
            self.parameters, self.search, self.retention, self.recrawls, self.text_characters_max
        )

    @model_validator(mode="after")
    def _limits_agree(self) -> Self:
        for larger, smaller, reason in _AT_LEAST:
            if getattr(self, larger) < getattr(self, smaller):
                values = f"{getattr(self, larger):,} and {getattr(self, smaller):,}"
                raise ValueError(f"{larger} must be at least {smaller}, got {values}: {reason}")
        if self.call_timeout_s * 1_000 >= self.max_poll_interval_ms:
            raise ValueError(
                f"call_timeout_s must be below max_poll_interval_ms, got {self.call_timeout_s:g} s "
                f"and {self.max_poll_interval_ms:,} ms: a call that hangs must be seen before the "
                "group expels us"
            )
        if self.call_timeout_s * 1_000 <= self.transaction_timeout_ms:
            raise ValueError(
                f"call_timeout_s must exceed transaction_timeout_ms, got {self.call_timeout_s:g} s "
                f"and {self.transaction_timeout_ms:,} ms: committed() answers only when another's "
                "transaction has timed out"
            )
        if 0 < self.record_format < FORMAT_OLDEST:
            raise ValueError(
                f"record_format must be 0 or at least {FORMAT_OLDEST}, got {self.record_format}: "
                "its records have no sketches, by which documents are judged"
            )
        return self


ENV_PREFIX = "NEARDUP_"
CONFIG_VARIABLE = "NEARDUP_CONFIG"
# Read elsewhere: this file's name, what tests look at.
OTHER_VARIABLES = frozenset(
    {CONFIG_VARIABLE, "NEARDUP_CORPORA", "NEARDUP_EXAMPLES", "NEARDUP_HISTORIES"}
)
HIDDEN = "**********"
_SECRET_WORDS = ("password", "secret", "token", "credential", "pem", "jaas")
_SHOWN_CHARACTERS_MAX = 100


class LoadedSettings(NamedTuple):
    """The settings, and for each that is not a default where its value came from."""

    settings: Settings
    origins: dict[str, str]


def flag_name(name: str) -> str:
    """
    Return a setting's flag: that of batch_wait_ms is --batch-wait-ms.

    >>> flag_name("batch_wait_ms")
    '--batch-wait-ms'
    """
    return "--" + name.replace("_", "-")


def flag(settings: Settings, name: str) -> str:
    """
    Return the flag that gives a setting the value that it has.

    >>> flag(Settings(), "shingle_widths"), flag(Settings(), "mask_numbers")
    ('--shingle-widths 2', '--no-mask-numbers')
    """
    value = getattr(settings, name)
    if isinstance(value, bool):
        return flag_name(name if value else f"no_{name}")
    return f"{flag_name(name)} {written(settings, name)}"


def written(settings: Settings, name: str) -> str:
    """
    Return the value of a setting as a flag or the environment has it, a secret in clear.

    >>> written(Settings(kafka_options={"linger.ms": "5"}), "kafka_options")
    '{"linger.ms": "5"}'
    """
    match value := getattr(settings, name):
        case SecretStr():
            return value.get_secret_value()
        case dict():
            return json.dumps(value)
        case tuple():
            return ",".join(map(str, value))
        case _:
            return "" if value is None else str(value)


def toml_value(value: Any) -> str:
    """
    Write a value as TOML; passwords and the like among Kafka's options are hidden.

    >>> toml_value({"linger.ms": "5", "sasl.oauthbearer.client.secret": "x"})
    '{ "linger.ms" = "5", "sasl.oauthbearer.client.secret" = "**********" }'
    """
    match value:
        case bool():
            return str(value).lower()
        case int() | float():
            return str(value)
        case tuple():
            return "[" + ", ".join(map(toml_value, value)) + "]"
        case dict():
            hidden = {name for name in value if any(word in name for word in _SECRET_WORDS)}
            parts = (
                f"{_quoted(name)} = {_quoted(HIDDEN if name in hidden else text)}"
                for name, text in value.items()
            )
            return "{ " + ", ".join(parts) + " }"
        case _:
            return _quoted(str(value))


def _quoted(text: str) -> str:
    """Write a TOML basic string."""
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return (
        '"'
        + "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in escaped)
        + '"'
    )


def env_name(name: str) -> str:
    """
    Return a setting's environment variable: that of batch_wait_ms is NEARDUP_BATCH_WAIT_MS.

    >>> env_name("batch_wait_ms")
    'NEARDUP_BATCH_WAIT_MS'
    """
    return ENV_PREFIX + name.upper()


def load_settings(
    flags: Mapping[str, Any] | None = None, config: Path | None = None
) -> LoadedSettings:
    """
    Merge flags, environment, file and defaults, in this order of precedence, and check them.

    Maps (kafka_options) are merged name by name. The file is TOML with a key for each setting;
    `config` or else the variable NEARDUP_CONFIG names it.

    Raises:
        StopError: one line for each wrong value: where it was set, value, bound and remedy.
    """
    if config is None and os.environ.get(CONFIG_VARIABLE):
        config = Path(os.environ[CONFIG_VARIABLE])
    values: dict[str, Any] = {}
    origins: dict[str, str] = {}
    sources = (
        (_read_file(config) if config is not None else {}, str(config)),
        (_read_environment(), "environment"),
        (dict(flags or {}), "flag"),
    )
    for found, origin in sources:
        for name, value in found.items():
            both = isinstance(value, dict) and isinstance(values.get(name), dict)
            values[name] = values[name] | value if both else value
            origins[name] = origin
    try:
        settings = Settings(**values)
        settings._config = config
        return LoadedSettings(settings, origins)
    except ValidationError as error:
        lines = [_line(part, values, origins) for part in error.errors(include_url=False)]
        raise StopError(
            "these settings are wrong:\n" + "\n".join(f"  {line}" for line in lines)
        ) from None


def _read_file(path: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise StopError(f"cannot read the settings of {path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise StopError(f"{path} is not TOML: {error}") from None
    for name in values:
        _refuse_unknown(name, str(path))
    return values


def _refuse_unknown(name: str, where: str) -> None:
    if name not in Settings.model_fields:
        near = difflib.get_close_matches(name, Settings.model_fields, 1)
        remedy = f"did you mean {near[0]}?" if near else "`neardup settings` lists all"
        raise StopError(f"{where}: there is no setting {name!r}: {remedy}")


def _read_environment() -> dict[str, Any]:
    for name in sorted(os.environ):
        if name.startswith(ENV_PREFIX) and name not in OTHER_VARIABLES:
            _refuse_unknown(name.removeprefix(ENV_PREFIX).lower(), name)
    try:
        return EnvSettingsSource(Settings)()
    except ValueError as error:  # a map that is not JSON
        raise StopError(f'{error}: a map is written as JSON, like {{"linger.ms": "5"}}') from None


def _line(error: Any, values: Mapping[str, Any], origins: Mapping[str, str]) -> str:
    """Put one error of pydantic into our words."""
    message = str(error["msg"]).removeprefix("Value error, ").removeprefix("Assertion failed, ")
    if not error["loc"]:
        return message  # settings that do not agree: the message names them
    name = str(error["loc"][0])
    message = _rule(Settings.model_fields[name], str(error["type"])) or message
    shown = _shown(name, values.get(name))
    given = {
        None: f"{flag_name(name)} ({env_name(name)})",
        "environment": f"{env_name(name)}={shown}",
        "flag": f"{flag_name(name)} {shown}",
    }
    origin = origins.get(name)
    return f"{given.get(origin, f'{name} = {shown} in {origin}')}: {message}"


def _rule(field: FieldInfo, error_type: str) -> str | None:
    """Say what a setting takes, for the errors that pydantic words less well."""
    unit = "" if unit_of(field) == "text" else f" {unit_of(field)}"
    bounds = bounds_of(field)
    match error_type:
        case "greater_than_equal" | "less_than_equal" | "string_too_short" | "string_too_long" if (
            bounds
        ):
            return f"must be {bounds}{unit}"
        case "int_parsing" | "int_from_float" | "int_parsing_size":
            return f"must be a whole number{f', {bounds}' if bounds else ''}{unit}"
        case "float_parsing":
            return f"must be a number{f', {bounds}' if bounds else ''}{unit}"
        case "bool_parsing":
            return "must be true or false"
        case "string_pattern_mismatch":
            return "must be letters, digits, dots, hyphens and underscores"
        case _:
            return None


def _shown(name: str, value: Any) -> str:
    if unit_of(Settings.model_fields[name]) == "secret" or isinstance(value, dict):
        return HIDDEN  # a map of Kafka options may hold a password, too
    text = str(value)
    return text if len(text) <= _SHOWN_CHARACTERS_MAX else text[: _SHOWN_CHARACTERS_MAX - 1] + "…"
