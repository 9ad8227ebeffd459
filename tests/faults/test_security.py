"""
TLS, SASL and ACLs, on a broker with an authorizer: what deploy/README.md lists is enough, and
needed.
"""

from __future__ import annotations

import base64
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from tests.conftest import REPOSITORY, variables
from tests.faults.crawl import crawl
from tests.faults.forked import ran
from tests.faults.harness import Deployment
from worker.devkit.broker import EmbeddedKafka, Extras, Runtime
from worker.errors import StopError
from worker.settings import Settings
from worker.shell.kafka.admin import Admin

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.faults,
    pytest.mark.slow,
    pytest.mark.xdist_group("security"),
]

PASSWORD = "a pass word"
SECRET = "the-secret-of-a-client"
ANSWER_S = 90.0
LINE = re.compile(
    r"    (worker|feed|verdicts|verify|topics) +(topic|group|transactional-id) +(\S+) +([A-Z][A-Za-z ]+)"
)
JAAS = "org.apache.kafka.common.security"


class Acl(NamedTuple):
    """One line's resource with one of its operations."""

    command: str
    resource: str
    name: str
    operation: str


def acls() -> list[Acl]:
    """What the README lists."""
    lines = [
        LINE.fullmatch(line)
        for line in (REPOSITORY / "deploy" / "README.md").read_text().splitlines()
    ]
    return [
        Acl(found[1], found[2], found[3], operation)
        for found in lines
        if found
        for operation in found[4].split()
    ]


WORKER = [acl for acl in acls() if acl.command == "worker"]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an authority, and by it one certificate for the broker and one for a client."""
    folder = tmp_path_factory.mktemp("certificates")

    def openssl(name: str, *options: str) -> None:
        command = [
            "openssl",
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
        ]
        command += [
            "-days",
            "2",
            "-subj",
            f"/CN={name}",
            "-keyout",
            f"{name}.key",
            "-out",
            f"{name}.pem",
            *options,
        ]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)

    openssl("ca")
    for name in ("broker", "certified"):
        openssl(name, "-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "subjectAltName=IP:127.0.0.1")
    (folder / "store.pem").write_text(
        (folder / "broker.key").read_text() + (folder / "broker.pem").read_text()
    )
    return folder


@pytest.fixture(scope="module")
def secure(broker_runtime: Runtime, certificates: Path) -> Iterator[EmbeddedKafka]:
    """
    A broker that lets nobody do anything but through its first listener, which is the tests' own.
    """
    users = [
        "plain",
        "nothing",
        "notopics",
        "describes",
        "looks",
        *(f"without{number}" for number in range(len(WORKER))),
    ]
    plain = " ".join(f'user_{user}="{PASSWORD}"' for user in users)
    extras = Extras(
        {
            "SCRAM": "SASL_SSL",
            "PLAIN": "SASL_PLAINTEXT",
            "MUTUAL": "SSL",
            "TOKEN": "SASL_PLAINTEXT",
        },
        {
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "super.users": "User:ANONYMOUS",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(certificates / "store.pem"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(certificates / "ca.pem"),
            "listener.name.mutual.ssl.client.auth": "required",
            "listener.name.scram.sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512",
            "listener.name.scram.scram-sha-256.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule "
            f"required;",
            "listener.name.scram.scram-sha-512.sasl.jaas.config": f"{JAAS}.scram.ScramLoginModule "
            f"required;",
            "listener.name.token.sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.token.oauthbearer.sasl.jaas.config": f"{JAAS}.oauthbearer."
            f"OAuthBearerLoginModule required;",
            "listener.name.plain.sasl.enabled.mechanisms": "PLAIN",
            "listener.name.plain.plain.sasl.jaas.config": f"{JAAS}.plain.PlainLoginModule "
            f"required {plain};",
        },
    )
    with EmbeddedKafka(runtime=broker_runtime, extras=extras) as kafka:
        client = AdminClient({"bootstrap.servers": kafka.bootstrap})
        for user, kind in (
            ("sha512", ScramMechanism.SCRAM_SHA_512),
            ("sha256", ScramMechanism.SCRAM_SHA_256),
        ):
            change = UserScramCredentialUpsertion(
                user, ScramCredentialInfo(kind, 4096), PASSWORD.encode()
            )
            client.alter_user_scram_credentials([change])[user].result(ANSWER_S)
        yield kafka


def _login(kafka: EmbeddedKafka, certificates: Path, user: str) -> dict[str, Any]:
    """Return the settings of a user, by the listener that is theirs."""
    if user == "certified":
        return {
            "bootstrap": kafka.extra_bootstrap("MUTUAL"),
            "kafka": {
                "security.protocol": "SSL",
                "ssl.ca.location": str(certificates / "ca.pem"),
                "ssl.certificate.location": str(certificates / "certified.pem"),
                "ssl.key.location": str(certificates / "certified.key"),
            },
        }
    login = {"sasl.username": user, "sasl.password": PASSWORD}
    if user.startswith("sha"):
        scram = {
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(certificates / "ca.pem"),
            "sasl.mechanism": f"SCRAM-SHA-{user[3:]}",
        }
        return {"bootstrap": kafka.extra_bootstrap("SCRAM"), "kafka": scram | login}
    plain = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    return {"bootstrap": kafka.extra_bootstrap("PLAIN"), "kafka": plain | login}


def _changed(login: dict[str, Any], properties: dict[str, str]) -> dict[str, Any]:
    """Return the settings of a user with other properties."""
    return login | {"kafka": login["kafka"] | properties}


class TokenServer(BaseHTTPRequestHandler):
    """Gives a token to whoever knows the secret, as a server of OpenID Connect does."""

    def do_POST(self) -> None:
        """Answer a request for a token, by the client's credentials."""
        self.rfile.read(int(self.headers["Content-Length"]))
        given = self.headers.get("Authorization", "")
        if given != f"Basic {base64.b64encode(f'bearer:{SECRET}'.encode()).decode()}":
            self._send(401, {"error": "invalid_client"})
            return
        now_s = int(time.time())
        parts = {"alg": "none"}, {"sub": "bearer", "iat": now_s, "exp": now_s + 3_600}
        encoded = (
            base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=") for part in parts
        )
        # Without a signature, which the broker of these tests does not ask for.
        token = b".".join([*encoded, b""]).decode()
        answer = {"access_token": token, "token_type": "Bearer", "expires_in": 3_600}
        self._send(200, answer)

    def _send(self, status: int, fields: dict[str, Any]) -> None:
        body = json.dumps(fields).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def token_address() -> Iterator[str]:
    """Where a token server answers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), TokenServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()


def _token_login(kafka: EmbeddedKafka, token_address: str, secret: str = SECRET) -> dict[str, Any]:
    """Return the settings of who logs in by a token, as deploy/README.md has them."""
    return {
        "bootstrap": kafka.extra_bootstrap("TOKEN"),
        "kafka": {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "OAUTHBEARER",
            "sasl.oauthbearer.method": "oidc",
            "sasl.oauthbearer.client.id": "bearer",
            "sasl.oauthbearer.client.secret": secret,
            "sasl.oauthbearer.token.endpoint.url": token_address,
        },
    }


def test_a_worker_logs_in_by_a_token(
    secure: EmbeddedKafka, token_address: str, tmp_path: Path
) -> None:
    """It judges everything as whom the token names; the secret is in no line of its log."""
    with Deployment(secure.bootstrap, tmp_path) as deployment:
        _grant(deployment, "bearer", WORKER)
        deployment.feed(crawl(seed=1, count=20))
        login = _token_login(secure, token_address)
        worker = deployment.start("one", **login)
        deployment.until_all_committed()
        assert SECRET not in worker.log_path.read_text()


def test_a_token_that_is_not_given_is_named(secure: EmbeddedKafka, token_address: str) -> None:
    """The token server refuses the secret: the error has its answer, and not the secret."""
    login = _token_login(secure, token_address, "wrong secret")
    with pytest.raises(StopError) as raised:
        Admin(Settings(**login), 3).cluster_id()
    assert "authentication failed" in str(raised.value)
    assert "invalid_client" in str(raised.value) and "wrong secret" not in str(raised.value)


def _names(deployment: Deployment) -> dict[str, str]:
    """Return what the README's names are in a deployment."""
    settings = deployment.settings
    return {
        "documents": settings.topic_documents, "fingerprints": settings.topic_fingerprints,
        "neardup": settings.group, "verdicts": settings.topic_verdicts,
        "documents.dead-letter": settings.topic_dead_letter, "neardup/*": f"{settings.group}/",
    }  # fmt: skip


def _grant(deployment: Deployment, user: str, granted: Sequence[Acl]) -> None:
    """Allow a user these, under the deployment's names."""
    names = _names(deployment)
    bindings = [
        AclBinding(
            getattr(ResourceType, acl.resource.upper().replace("-", "_")),
            names[acl.name],
            ResourcePatternType.PREFIXED if acl.name.endswith("*") else ResourcePatternType.LITERAL,
            "User:CN=certified" if user == "certified" else f"User:{user}",
            "*",
            getattr(AclOperation, re.sub(r"(?<!^)(?=[A-Z])", "_", acl.operation).upper()),
            AclPermissionType.ALLOW,
        )
        for acl in granted
    ]
    client = AdminClient({"bootstrap.servers": deployment.settings.bootstrap})
    for made in client.create_acls(bindings).values():
        made.result(ANSWER_S)


def _run(deployment: Deployment, login: dict[str, Any], *command: str) -> str:
    """Run a command of neardup's with this login; return what it prints."""
    values = {**deployment.values, **login}
    given = {"PATH": "/usr/bin:/bin", **variables(values)}
    done = ran(*command, environment=given)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_command_works_with_exactly_its_acls(
    secure: EmbeddedKafka, certificates: Path, tmp_path: Path
) -> None:
    """
    Workers by SCRAM and by a certificate, and who feeds, reads and verifies by each of the others.
    """
    with Deployment(secure.bootstrap, tmp_path) as deployment:
        who = {"feed": "plain", "worker": "sha512", "verify": "sha256", "verdicts": "certified"}
        for command, user in who.items():
            _grant(deployment, user, [acl for acl in acls() if acl.command == command])
        logins = {command: _login(secure, certificates, user) for command, user in who.items()}
        documents = tmp_path / "documents.jsonl"
        documents.write_bytes(
            b"\n".join(
                value for _, value in crawl(seed=1, count=60) if value and b'"text"' in value
            )
        )
        deployment.start("one", **logins["worker"])
        _run(deployment, logins["feed"], "feed", str(documents))
        deployment.until(lambda: deployment.committed() > 0, "documents are answered")
        _grant(deployment, "certified", WORKER)
        deployment.start("two", **logins["verdicts"])
        deployment.until(
            lambda: deployment.processes[1].said("partitions assigned"), "the second one takes part"
        )
        deployment.until_all_committed()
        assert '"verdict"' in _run(deployment, logins["verdicts"], "verdicts", "--json")
        assert '"clean":true' in _run(deployment, logins["verify"], "verify", "--json").replace(
            " ", ""
        )


def test_topics_are_created_with_exactly_their_acls(
    secure: EmbeddedKafka, certificates: Path, tmp_path: Path
) -> None:
    """Without a right over the whole cluster."""
    deployment = Deployment(secure.bootstrap, tmp_path)
    _grant(deployment, "sha512", [acl for acl in acls() if acl.command == "topics"])
    assert deployment.settings.topic_verdicts in _run(
        deployment, _login(secure, certificates, "sha512"), "topics", "create"
    )


def test_without_any_one_of_its_acls_a_worker_names_it(
    secure: EmbeddedKafka, certificates: Path, tmp_path: Path
) -> None:
    """Its error says the resource, and that access to it is denied."""
    with Deployment(secure.bootstrap, tmp_path) as deployment:
        deployment.feed(crawl(seed=1, count=20))
        unnamed = []
        for number, acl in enumerate(WORKER):
            user = f"without{number}"
            _grant(deployment, user, [other for other in WORKER if other != acl])
            worker = deployment.start("one", **_login(secure, certificates, user))
            code, said = worker.wait(), worker.log_path.read_text().splitlines()[-1]
            name = _names(deployment)[acl.name]
            if (
                code != 1
                or name not in said
                or "denied" not in said
                or "deploy/README.md" not in said
            ):
                unnamed.append((acl, code, said))
        assert not unnamed, "\n".join(map(str, unnamed))


@pytest.mark.parametrize(
    ("user", "denied"),
    [
        ("nothing", {"topic", "group", "transactional-id"}),
        ("notopics", {"topic"}),
        ("describes", {"topic"}),
    ],
)
def test_a_worker_without_any_acl_on_its_topics_says_that_access_is_denied(
    secure: EmbeddedKafka, certificates: Path, tmp_path: Path, user: str, denied: set[str]
) -> None:
    """
    Its last line is that, and no traceback: with no ACL at all, with those of the group and the id,
    and where it may only describe the topics.
    """
    with Deployment(secure.bootstrap, tmp_path) as deployment:
        deployment.feed(crawl(seed=1, count=20))
        granted = [acl for acl in WORKER if acl.resource not in denied]
        if user == "describes":
            topics = [acl for acl in WORKER if acl.operation == "DescribeConfigs"]
            granted += [*topics, *(acl._replace(operation="Describe") for acl in topics)]
        if granted:
            _grant(deployment, user, granted)
        worker = deployment.start("one", **_login(secure, certificates, user))
        code = worker.wait()
        said = worker.log_path.read_text()
        last = said.splitlines()[-1]
        assert code == 1 and "Traceback" not in said and '"exception"' not in said, said
        assert "denied" in last and "deploy/README.md" in last, said


def test_who_may_not_write_documents_is_told_so(
    secure: EmbeddedKafka, certificates: Path, tmp_path: Path
) -> None:
    """`feed` ends in a sentence where the user may look at the topic and no more."""
    documents = tmp_path / "documents.jsonl"
    documents.write_text('{"doc_id": "a", "text": "t", "fetched_at": "2026-01-31T12:00:00Z"}\n')
    with Deployment(secure.bootstrap, tmp_path) as deployment:
        acl = Acl("feed", "topic", "documents", "Describe")
        _grant(deployment, "looks", [acl, acl._replace(operation="DescribeConfigs")])
        values = {**deployment.values, **_login(secure, certificates, "looks")}
        given = {"PATH": "/usr/bin:/bin", **variables(values), "NEARDUP_LOG_FORMAT": "auto"}
        fed = ran("feed", "--quiet", documents, environment=given)
        last = fed.stderr.splitlines()[-1]
        assert fed.returncode == 1 and "Traceback" not in fed.stderr, fed.stderr
        assert last.startswith("neardup: writing to ") and "denied" in last, fed.stderr


@pytest.mark.parametrize("user", ["sha512", "plain"])
def test_a_wrong_password_is_named(secure: EmbeddedKafka, certificates: Path, user: str) -> None:
    """And is not shown."""
    login = _changed(_login(secure, certificates, user), {"sasl.password": "wrong secret"})
    with pytest.raises(StopError) as raised:
        Admin(Settings(**login), 3).cluster_id()
    assert "authentication failed" in str(raised.value) and "wrong secret" not in str(raised.value)


def test_a_broker_whose_certificate_is_not_ours_is_named(
    secure: EmbeddedKafka, certificates: Path
) -> None:
    """Its authority is not the one that was given."""
    login = _changed(
        _login(secure, certificates, "certified"),
        {"ssl.ca.location": str(certificates / "certified.pem")},
    )
    with pytest.raises(StopError, match="certificate"):
        Admin(Settings(**login), 3).cluster_id()
