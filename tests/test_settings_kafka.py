"""
Kafka's own settings: named as librdkafka names them, refused where they would break a promise,
secret by their names.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from worker.errors import StopError
from worker.settings import Settings, environment, in_clear, is_secret, load_settings
from worker.settings.kafka import REFUSED, property_of, variable_of
from worker.settings.librdkafka import properties

pytestmark = pytest.mark.usefixtures("clean_environment")

ALLOWED = sorted(properties().keys() - REFUSED.keys())
SECRETS = [name for name in ALLOWED if is_secret(name)]


def test_a_property_has_one_name_in_file_variable_and_option(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Dotted, quoted or as a table in TOML; with underscores as a variable. They are merged by name:
    an option takes precedence over a variable, and a variable over the file.
    """
    config = tmp_path / "neardup.toml"
    config.write_text(
        'kafka.linger.ms = 1\nkafka."client.rack" = "a"\nkafka.socket.keepalive.enable = true\n'
    )
    monkeypatch.setenv("NEARDUP_KAFKA_LINGER_MS", "2")
    monkeypatch.setenv("NEARDUP_KAFKA_DEBUG", "broker")
    monkeypatch.setenv("NEARDUP_KAFKA_RETRIES", "")  # as compose files pass what is not set
    settings, origins = load_settings({"kafka": {"client.rack": "b"}}, config)
    assert settings.kafka == {
        "linger.ms": "2", "client.rack": "b", "socket.keepalive.enable": "true", "debug": "broker",
    }  # fmt: skip
    assert origins == {
        "kafka.linger.ms": "environment", "kafka.debug": "environment", "kafka.client.rack": "flag",
        "kafka.socket.keepalive.enable": str(config),
    }  # fmt: skip


@pytest.mark.parametrize("name", ALLOWED)
def test_every_property_of_librdkafka_has_a_variable(name: str) -> None:
    """And the variable names that property alone."""
    assert property_of(variable_of(name)) == name


@pytest.mark.parametrize("name", REFUSED)
def test_a_property_that_breaks_a_promise_is_refused(name: str) -> None:
    """The error gives the reason, or the setting to use. librdkafka does have the property."""
    assert name in properties()
    with pytest.raises(ValidationError, match=re.escape(f"cannot be set: {REFUSED[name]}")):
        Settings(kafka={name: "x"})


def test_no_alias_gets_a_property_past_its_refusal() -> None:
    """librdkafka has two names for some: both are refused, or none."""
    found = {name: re.search(r"Alias for `([\w.]+)`", said) for name, said in properties().items()}
    aliases = {name: alias[1] for name, alias in found.items() if alias is not None}
    assert aliases["acks"] == "request.required.acks"  # the table is read as it is meant
    assert {name for name in aliases if (name in REFUSED) != (aliases[name] in REFUSED)} == set()


def test_a_property_that_librdkafka_calls_a_secret_is_one() -> None:
    """By its documentation: where it speaks of a password, secret or private key in the value."""
    said = re.compile(r"^(?!.*\b(path|file)\b).*(password|passphrase|secret|private key)", re.I)
    called = {name for name in ALLOWED if said.match(properties()[name])}
    assert {"sasl.password", "ssl.key.password", "ssl.key.pem"} <= called
    method = {"sasl.oauthbearer.method"}  # its documentation names the secret that it requires
    assert called - method - set(SECRETS) == set()


@given(st.dictionaries(st.sampled_from(SECRETS), st.integers(10**9, 10**12).map(str), min_size=1))
def test_a_secret_is_in_no_dump(values: dict[str, str]) -> None:
    """Neither in a text, nor in JSON; the client gets it."""
    settings = Settings.model_construct(kafka=Settings(kafka=_agreeing(values)).kafka)
    shown = f"{settings!r} {settings} {settings.model_dump()} {settings.model_dump_json()}"
    assert [value for value in values.values() if value in shown] == []
    assert in_clear(settings.kafka).items() >= values.items()


def _agreeing(values: dict[str, str]) -> dict[str, str]:
    """Return the properties with those that must stand next to them."""
    return {"ssl.certificate.pem": "c", "ssl.key.pem": "k"} | values


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sasl.pasword", "librdkafka has no such property: did you mean kafka.sasl.password?"),
        ("qqqq", "CONFIGURATION.md lists all"),
        ("error_cb", "librdkafka has no such property"),  # a callback: no text stands for one
        ("group.id", "cannot be set: use group"),
    ],
)
def test_a_wrong_property_is_one_line_that_names_its_source(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """File, option or variable, and no value: a misspelt name may have a secret."""
    config = tmp_path / "neardup.toml"
    config.write_text(f'kafka.{name} = "hush"\n')
    with pytest.raises(StopError) as from_file:
        load_settings(config=config)
    with pytest.raises(StopError) as from_flag:
        load_settings({"kafka": {name: "hush"}})
    monkeypatch.setenv(f"NEARDUP_KAFKA_{variable_of(name)}", "hush")
    with pytest.raises(StopError) as from_environment:
        load_settings()
    lines = [
        str(caught.value).splitlines()[1] for caught in (from_file, from_flag, from_environment)
    ]
    starts = f"kafka.{name} in {config}: ", f"--kafka {name}=…: ", "NEARDUP_KAFKA_"
    for line, start in zip(lines, starts, strict=True):
        assert line.strip().startswith(start) and "hush" not in line
    assert all(says in line for line in lines[:2])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("kafka = 5", "kafka must be a table, such as kafka.linger.ms = 5"),
        ("kafka.linger.ms = [5]", "kafka.linger.ms must be a text, a number, true or false"),
        ("sasl_password = 'x'", "did you mean kafka.sasl.password (NEARDUP_KAFKA_SASL_PASSWORD)?"),
    ],
)
def test_a_file_that_sets_them_in_another_way_is_told_how(
    text: str, says: str, tmp_path: Path
) -> None:
    """The file is named, too."""
    config = tmp_path / "neardup.toml"
    config.write_text(text + "\n")
    with pytest.raises(StopError, match=re.escape(says)) as caught:
        load_settings(config=config)
    assert str(config) in str(caught.value)


def test_one_variable_for_all_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has a variable of its own."""
    monkeypatch.setenv("NEARDUP_KAFKA", json.dumps({"linger.ms": "5"}))
    with pytest.raises(StopError, match="such as NEARDUP_KAFKA_LINGER_MS=5"):
        load_settings()


CERTIFICATE = {"ssl.certificate.location": "c"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"sasl.mechanism": "PLAIN"}, "security.protocol must be SASL_SSL or SASL_PLAINTEXT with"),
        ({"sasl.mechanisms": "PLAIN", "security.protocol": "SSL"}, "PLAIN, got SSL"),
        (CERTIFICATE, "belong together"),
        ({"ssl.key.pem": "k"}, "belong together"),
        (CERTIFICATE | {"ssl.key.pem": "k"}, None),
        ({"security.protocol": "sasl_ssl", "sasl.mechanism": "OAUTHBEARER"}, None),
    ],
)
def test_properties_without_which_the_client_would_not_log_in_are_asked_for(
    values: dict[str, str], says: str | None
) -> None:
    """librdkafka would leave out the log-in, or the certificate, without a word."""
    if says is None:
        assert set(Settings(kafka=values).kafka) == set(values)
        return
    with pytest.raises(ValidationError, match=re.escape(says)):
        Settings(kafka=values)


def test_files_that_they_name_are_files_of_the_settings() -> None:
    """No command may write to a key; a secret in clear is no file."""
    settings = Settings(
        kafka={
            "ssl.key.location": "k.pem", "ssl.certificate.location": "c.pem",
            "ssl.key.password": "hush",
        }
    )  # fmt: skip
    assert settings.files == [Path("k.pem"), Path("c.pem")]


@given(st.dictionaries(st.sampled_from(ALLOWED), st.text("ab\"'\\ =.5", min_size=1), max_size=5))
def test_another_process_gets_them_as_they_are(values: dict[str, str]) -> None:
    """By way of its environment, secrets in clear."""
    secrets = {
        name: SecretStr(value) if is_secret(name) else value for name, value in values.items()
    }
    given_on: dict[str, Any] = environment({"kafka": secrets})
    assert {
        property_of(name.removeprefix("NEARDUP_KAFKA_")): value for name, value in given_on.items()
    } == values


def test_the_page_on_tls_sets_properties_that_exist() -> None:
    """The lines of deploy/README.md are a file that is taken."""
    page = (Path(__file__).parents[1] / "deploy" / "README.md").read_text(encoding="utf-8")
    section = page[page.index("## TLS and SASL") : page.index("## Watch a worker")]
    blocks = re.findall(r"(?:^    .*\n)+", section, re.MULTILINE)
    assert len(blocks) == 2
    for block in blocks:
        values = tomllib.loads(block)
        assert Settings(**values).kafka
