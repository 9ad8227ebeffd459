"""
Kafka's own settings: properties of librdkafka, under their own names and by one rule.

    in the file        kafka.sasl.username = "worker"
    as a variable      NEARDUP_KAFKA_SASL_USERNAME=worker      underscores for dots
    as an option       --kafka sasl.username=worker

- librdkafka must know the name (`librdkafka.py` asks it).
- A property that would break what neardup promises is refused, with the reason. So is one that
  another setting of neardup decides: the error names the setting.
- Its name says whether a property is a secret (`is_secret`). Secrets are `SecretStr`, which logs,
  errors and dumps show as stars. No option takes one, because others on the machine can read it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, SecretStr

from worker.settings.librdkafka import properties

PREFIX = "kafka."  # of a property's name where settings of neardup stand next to it

_OFFSETS = "offsets are committed with the verdicts, in one transaction"
_ORDER = "a retried append must not stand in the log twice, nor in another order"
_EVENTS = "neardup's own calls read the client's reports, and would find none"
_SHARE = "neardup's consumers are none of a share group"

# What properties of these names would break, or which setting has them already.
REFUSED = {
    **dict.fromkeys(
        (
            "enable.auto.commit", "auto.commit.enable", "auto.commit.interval.ms",
            "enable.auto.offset.store", "offset.store.method", "offset.store.path",
            "offset.store.sync.interval.ms",
        ),
        _OFFSETS,
    ),
    "auto.offset.reset": "a reset during a rebalance would publish a partition's verdicts twice",
    "isolation.level": "records of aborted transactions must stay unseen",
    **dict.fromkeys(("enable.idempotence", "queuing.strategy"), _ORDER),
    **dict.fromkeys(
        ("acks", "request.required.acks"), "a record that one broker loses must not be lost"
    ),
    "transactional.id": "it follows from group and worker_id, "
    "so that a successor fences its predecessor",
    "group.instance.id": "it follows from worker_id; see static_membership",
    "group.protocol.type": "the group consists of consumers",
    "partition.assignment.strategy": "the worker relies on cooperative-sticky: "
    "an eager one stops every member",
    "partitioner": "all answers to a document must stay in one partition, "
    "where the Java client would put its key",
    "allow.auto.create.topics": "a topic made on the fly has the wrong settings: "
    "run `neardup topics create`",
    "statistics.interval.ms": "the lag is counted from these statistics",
    **dict.fromkeys(
        ("enable.partition.eof", "enabled_events", "log.queue", "delivery.report.only.error"),
        _EVENTS,
    ),
    **dict.fromkeys(("max.poll.records", "share.acknowledgement.mode"), _SHARE),
    **dict.fromkeys(("bootstrap.servers", "metadata.broker.list"), "use bootstrap"),
    "group.id": "use group",
    "client.id": "use worker_id, by which the group's other workers know this one",
    "log_level": "use log_level, and kafka.debug for the client's own lines",
}  # fmt: skip

# Times by which neardup goes, too, in ms: neardup's own default, and the least and the most. The
# brokers' own defaults bound a session and a transaction.
TIMES_MS = {
    "session.timeout.ms": (10_000, 6_000, 1_800_000),
    "max.poll.interval.ms": (300_000, 10_000, 86_400_000),
    "transaction.timeout.ms": (10_000, 1_000, 900_000),
}

# A question about a topic's end waits behind a fetch of the same connection, and may take 3 s.
FETCH_WAIT_MS_MAX = 2_000

_SECRET_WORDS = (
    "password", "passphrase", "secret", "token", "credential", "jaas", "key", "pem",
    "oauthbearer.config",
)  # fmt: skip
_CERTIFICATES = ("ssl.certificate.location", "ssl.certificate.pem")
_KEYS = ("ssl.key.location", "ssl.key.pem")
# Where a secret is, or whose it is, is none.
_FILES = (".location", ".file")
_PUBLIC_ENDS = (*_FILES, ".id")


def is_secret(name: str) -> bool:
    """
    Return whether a property must never be shown. Its name tells, so later versions' secrets are
    recognised, too.

    >>> is_secret("sasl.password"), is_secret("ssl.key.location"), is_secret("linger.ms")
    (True, False, False)
    """
    return any(word in name for word in _SECRET_WORDS) and not name.endswith(_PUBLIC_ENDS)


def property_of(variable: str) -> str:
    """
    Return the property that a variable names, without its prefix.

    >>> property_of("SASL_PASSWORD")
    'sasl.password'
    """
    return variable.lower().replace("_", ".")


def variable_of(name: str) -> str:
    """
    Return how a variable names a property, without its prefix.

    >>> variable_of("sasl.password")
    'SASL_PASSWORD'
    """
    return name.upper().replace(".", "_")


def nearest(name: str) -> str:
    """
    Say which property of librdkafka has the most similar name.

    >>> nearest("linger.msec")
    'did you mean kafka.linger.ms?'
    """
    near = difflib.get_close_matches(name, properties(), 1)
    where = "https://github.com/confluentinc/librdkafka/blob/master/CONFIGURATION.md"
    return f"did you mean {PREFIX}{near[0]}?" if near else f"{where} lists all"


def flattened(value: Any) -> dict[str, str | SecretStr]:
    """
    Return a table of properties by their full names, as text.

    In TOML, a bare key with dots is a table within a table: `kafka.linger.ms = 5` is the same as
    `kafka."linger.ms" = 5`.

    Raises:
        ValueError: it is no table, or a value is a list or the like.

    >>> flattened({"linger": {"ms": 5}, "socket.keepalive.enable": True})
    {'linger.ms': '5', 'socket.keepalive.enable': 'true'}
    """
    if not isinstance(value, Mapping):
        # A ValueError, as pydantic reports it together with the other wrong settings.
        raise ValueError(f"kafka must be a table, such as {PREFIX}linger.ms = 5")  # noqa: TRY004
    return dict(_leaves(value, ""))


def _leaves(table: Mapping[str, Any], above: str) -> Iterator[tuple[str, str | SecretStr]]:
    for key, value in table.items():
        match value:
            case Mapping():
                yield from _leaves(value, f"{above}{key}.")
            case bool():
                yield above + key, str(value).lower()
            case int() | float():
                yield above + key, str(value)
            case str() | SecretStr():
                yield above + key, value
            case _:
                raise ValueError(
                    f"{PREFIX}{above}{key} must be a text, a number, true or false, "
                    f"got a {type(value).__name__}"
                )


def _known(name: str) -> str:
    """Return the name of a property that may be set. Raises ValueError for every other."""
    if name in REFUSED:
        raise ValueError(f"cannot be set: {REFUSED[name]}")
    if name not in properties():
        raise ValueError(f"librdkafka has no such property: {nearest(name)}")
    return name


def _with_secrets(values: dict[str, str | SecretStr]) -> dict[str, str | SecretStr]:
    """Return the properties with those that their names call secrets as secrets."""
    return {
        name: SecretStr(value) if isinstance(value, str) and is_secret(name) else value
        for name, value in values.items()
    }


KafkaProperties = Annotated[
    dict[Annotated[str, AfterValidator(_known)], str | SecretStr],
    BeforeValidator(flattened),
    AfterValidator(_with_secrets),
]


def in_clear(values: Mapping[str, str | SecretStr]) -> dict[str, str]:
    """Return the properties as the Kafka client takes them, secrets in clear."""
    return {
        name: value.get_secret_value() if isinstance(value, SecretStr) else value
        for name, value in values.items()
    }


def text_of(values: Mapping[str, str | SecretStr], name: str, default: str) -> str:
    """Return a property that is no secret, or its default."""
    return str(values.get(name, default))


def time_ms(values: Mapping[str, str | SecretStr], name: str) -> int:
    """
    Return one of TIMES_MS: the user's, or neardup's own default.

    Raises:
        ValueError: it is no whole number within its bounds.
    """
    default, low, high = TIMES_MS[name]
    text = text_of(values, name, str(default))
    if not text.isascii() or not text.isdigit() or not low <= int(text) <= high:
        raise ValueError(
            f"{PREFIX}{name} must be a whole number, {low:,} to {high:,} ms, got {text!r}"
        )
    return int(text)


def files_of(values: Mapping[str, str | SecretStr]) -> list[Path]:
    """Return the files that properties name: certificates and keys."""
    return [
        Path(value)
        for name, value in values.items()
        if isinstance(value, str) and name.endswith(_FILES)
    ]


def check_agreement(values: Mapping[str, str | SecretStr]) -> None:
    """
    Refuse times that are out of bounds, and properties that do not agree where librdkafka would not
    refuse them: it would connect without a log-in.

    What it refuses itself (a mechanism without a password, a file that is missing) is its own
    error, when the first client is made.

    Raises:
        ValueError: names the properties, and their values or bounds.
    """
    session_ms = time_ms(values, "session.timeout.ms")
    poll_ms = time_ms(values, "max.poll.interval.ms")
    time_ms(values, "transaction.timeout.ms")
    if poll_ms < session_ms:
        raise ValueError(
            f"kafka.max.poll.interval.ms must be at least kafka.session.timeout.ms, got "
            f"{poll_ms:,} and {session_ms:,}: librdkafka refuses a shorter one"
        )
    fetch_wait = text_of(values, "fetch.wait.max.ms", "0")
    # If it is no number, librdkafka refuses it.
    if fetch_wait.isascii() and fetch_wait.isdigit() and int(fetch_wait) > FETCH_WAIT_MS_MAX:
        raise ValueError(
            f"kafka.fetch.wait.max.ms must be at most {FETCH_WAIT_MS_MAX:,}, got {fetch_wait}: "
            "questions about the end of a topic wait as long, and would get no answer in time"
        )
    protocol = text_of(values, "security.protocol", "plaintext")
    mechanism = values.get("sasl.mechanism", values.get("sasl.mechanisms"))
    if mechanism is not None and not protocol.lower().startswith("sasl"):
        raise ValueError(
            f"kafka.security.protocol must be SASL_SSL or SASL_PLAINTEXT with "
            f"kafka.sasl.mechanism {mechanism}, got {protocol}: the client would not log in"
        )
    has_certificate = not values.keys().isdisjoint(_CERTIFICATES)
    has_key = not values.keys().isdisjoint(_KEYS)
    if has_certificate != has_key:
        raise ValueError(
            "kafka.ssl.certificate.location and kafka.ssl.key.location belong together, got one of "
            "them: the client would have no certificate to show"
        )
