"""Who may be a node: joining once, renewing, being revoked, over real stores and real TLS."""

import ssl
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given, settings
from hypothesis import strategies as st

from muster.executors.fleet.authority import Authority, new_request
from muster.executors.fleet.identities import Identities
from muster.executors.fleet.join_error import JoinError
from muster.store.store import Store, open_store
from muster.wire.agents.pinned import WrongDaemonError
from tests.unit.executors.fleet.handshakes import Credentials, ask, fetched, joined, listening

DAY = 86400.0
START = 1_900_000_000.0


class Clock:
    def __init__(self, now: float = START) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = open_store(str(tmp_path / "muster.db"))
    yield opened
    opened.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def identities(store: Store, clock: Clock) -> Identities:
    return Identities(store, ["localhost", "127.0.0.1"], ["127.0.0.1:7433"], clock)


def der(held: Credentials) -> bytes:
    return ssl.PEM_cert_to_DER_cert(held.certificate)


def test_a_node_joins_once_with_a_token(identities: Identities) -> None:
    token = identities.invite()
    assert identities.admitted(der(joined(identities, token, "gpu1"))) == "gpu1"
    with pytest.raises(JoinError, match=r"was used on 2030-03-17 .* by gpu1; create another one"):
        joined(identities, token, "gpu2")


def test_a_token_for_several_nodes_counts_its_uses(identities: Identities) -> None:
    token = identities.invite(uses=2)
    joined(identities, token, "gpu1")
    joined(identities, token, "gpu2")
    with pytest.raises(JoinError, match="by gpu2"):
        joined(identities, token, "gpu3")
    assert [each.used for each in identities.invitations()] == [2]


def test_a_lost_answer_may_be_asked_for_again_with_the_same_key(identities: Identities) -> None:
    token = identities.invite()
    key, request = new_request("gpu1")
    identities.join(token.secret, "gpu1", request, "")
    again = identities.join(token.secret, "gpu1", request, "")
    held = Credentials(key, again.certificate, again.authority)
    assert identities.admitted(der(held)) == "gpu1"


@pytest.mark.parametrize(
    ("node", "late", "why"),
    [
        ("gpu2", 0.0, "for node gpu1, not gpu2"),
        ("gpu1", 3601.0, "expired on 2030-03-17"),
        ("", 0.0, "is not a name for a node"),
        ("../gpu1", 0.0, "is not a name for a node"),
        ("g" * 64, 0.0, "is not a name for a node"),
    ],
)
def test_who_may_not_join_is_told_why(
    identities: Identities, clock: Clock, node: str, late: float, why: str
) -> None:
    token = identities.invite("gpu1")
    clock.now += late
    with pytest.raises(JoinError, match=why):
        identities.join(token.secret, node, new_request("x")[1], "")
    assert not identities.identities()


def test_a_withdrawn_or_unknown_token_is_refused(identities: Identities) -> None:
    token = identities.invite()
    assert identities.withdraw(identities.invitations()[0].name)
    with pytest.raises(JoinError, match="unknown join token; create one: muster token create"):
        joined(identities, token, "gpu1")


def test_nobody_takes_the_place_of_a_node_unless_the_administrator_names_it(
    identities: Identities,
) -> None:
    first = joined(identities, identities.invite(), "gpu1")
    with pytest.raises(JoinError, match=r"joined already.*muster token create --agent --node gpu1"):
        joined(identities, identities.invite(), "gpu1")
    second = joined(identities, identities.invite("gpu1"), "gpu1")
    assert identities.admitted(der(second)) == "gpu1"
    with pytest.raises(JoinError, match="another agent joined as gpu1"):
        identities.admitted(der(first))


def test_an_engine_brings_agents_to_its_own_nodes_again_and_to_no_others(
    identities: Identities,
) -> None:
    joined(identities, identities.invite(engine="slurm"), "n1")
    joined(identities, identities.invite(engine="slurm"), "n1")
    joined(identities, identities.invite(), "byhand")
    with pytest.raises(JoinError, match="joined already"):
        joined(identities, identities.invite(engine="slurm"), "byhand")
    with pytest.raises(JoinError, match="joined already"):
        joined(identities, identities.invite("byhand", engine="slurm"), "byhand")


def test_a_revoked_node_is_refused_until_the_administrator_lets_it_join_again(
    identities: Identities, clock: Clock
) -> None:
    told: list[str] = []
    identities.revoked.append(told.append)
    before = identities.invite("gpu1")
    held = joined(identities, identities.invite(), "gpu1")
    clock.now += 1
    identities.revoke("gpu1")
    assert told == ["gpu1"]
    with pytest.raises(JoinError, match="was revoked on 2030-03-17"):
        identities.admitted(der(held))
    with pytest.raises(JoinError, match="no valid certificate"):
        identities.renew("gpu1", new_request("gpu1")[1])
    for token in (before, identities.invite(), identities.invite("gpu1", engine="slurm")):
        with pytest.raises(JoinError, match="was revoked on"):
            joined(identities, token, "gpu1")
    again = joined(identities, identities.invite("gpu1"), "gpu1")
    assert identities.admitted(der(again)) == "gpu1"


def test_the_last_certificate_is_good_until_the_new_one_is_used(identities: Identities) -> None:
    old = joined(identities, identities.invite(), "gpu1")
    key, request = new_request("gpu1")
    renewed = identities.renew("gpu1", request)
    new = Credentials(key, renewed.certificate, renewed.authority)
    assert identities.admitted(der(old)) == "gpu1"
    assert identities.admitted(der(new)) == "gpu1"
    with pytest.raises(JoinError):
        identities.admitted(der(old))


def test_another_daemon_of_the_store_knows_the_same_nodes(
    identities: Identities, store: Store, clock: Clock
) -> None:
    held = joined(identities, identities.invite(), "gpu1")
    token = identities.invite()
    identities.revoke(joined_node(identities, "gpu9"))
    standby = Identities(store, clock=clock)
    assert standby.admitted(der(held)) == "gpu1"
    assert standby.fingerprint == token.fingerprint
    joined(standby, token, "gpu2")
    with pytest.raises(JoinError, match="revoked"):
        joined(standby, standby.invite(), "gpu9")


def joined_node(identities: Identities, node: str) -> str:
    joined(identities, identities.invite(), node)
    return node


def test_a_request_cannot_choose_its_name_nor_become_an_authority(identities: Identities) -> None:
    key, request = new_request("root")
    found = identities.join(identities.invite().secret, "gpu1", request, "")
    certificate = x509.load_pem_x509_certificate(found.certificate.encode())
    assert certificate.subject.rfc4514_string() == "CN=gpu1"
    assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    usage = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert [each._name for each in usage] == ["clientAuth"]
    assert key


def weak_request() -> str:
    key = rsa.generate_private_key(65537, 1024)
    draft = x509.CertificateSigningRequestBuilder().subject_name(x509.Name([]))
    return draft.sign(key, SHA256()).public_bytes(Encoding.PEM).decode()


def forged_request() -> str:
    """A request with the signature of another."""
    mine, other = (x509.load_pem_x509_csr(new_request(name)[1].encode()) for name in "ab")
    data = mine.public_bytes(Encoding.DER)
    data = data[: -len(mine.signature)] + other.signature[: len(mine.signature)]
    return ssl.DER_cert_to_PEM_cert(data).replace("CERTIFICATE", "CERTIFICATE REQUEST")


@pytest.mark.parametrize("request_", ["", "no request", "x" * 10_000, weak_request(), forged_request()])
def test_a_bad_request_costs_no_use_of_the_token(identities: Identities, request_: str) -> None:
    token = identities.invite()
    with pytest.raises(JoinError, match="the certificate request"):
        identities.join(token.secret, "gpu1", request_, "")
    joined(identities, token, "gpu1")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Identities]:
    opened = open_store(str(tmp_path_factory.mktemp("shared") / "muster.db"))
    yield Identities(opened)
    opened.close()


@settings(max_examples=60, deadline=None)
@given(data=st.binary(max_size=300), text=st.text(max_size=200))
def test_random_input_is_refused_in_one_line(shared: Identities, data: bytes, text: str) -> None:
    identities = shared
    with pytest.raises(JoinError) as refused:
        identities.admitted(data)
    assert "\n" not in str(refused.value)
    with pytest.raises(JoinError) as refused:
        identities.join(text, text, text, "")
    assert "\n" not in str(refused.value)
    with pytest.raises(JoinError):
        identities.renew(text, text)


# --- over TLS ---


@pytest.fixture
def real(store: Store) -> Identities:
    """By the real clock: OpenSSL has no other."""
    return Identities(store, ["localhost"], ["127.0.0.1:1"])


def test_an_agent_checks_the_daemon_then_joins_and_connects(real: Identities, tmp_path: Path) -> None:
    token = real.invite()
    with listening(real.context(), real) as port:
        authority = fetched(port, token)
        assert ask(port, authority, None, tmp_path) == "nobody"
        held = joined(real, token, "gpu1")
        assert ask(port, held.authority, held, tmp_path) == "gpu1"


def test_another_daemon_is_not_taken_for_the_tokens(real: Identities, tmp_path: Path) -> None:
    other = open_store(str(tmp_path / "other.db"))
    stranger = Identities(other, ["localhost"])
    token = real.invite()
    with listening(stranger.context(), stranger) as port:
        with pytest.raises(WrongDaemonError, match="is not the daemon of this token"):
            fetched(port, token)
        with pytest.raises(ssl.SSLError, match="certificate verify failed"):
            ask(port, real._authority.trusted, None, tmp_path)
    other.close()


def test_a_certificate_of_another_authority_or_an_expired_one_is_refused_by_tls(
    real: Identities, tmp_path: Path
) -> None:
    held = joined(real, real.invite(), "gpu1")
    key, request = new_request("gpu1")
    now = START - 20 * 365 * DAY
    foreign = Authority.new(now).sign_agent(request, "gpu1", now, 3650).pem
    expired = real._authority.sign_agent(request, "gpu1", now, 30).pem
    with listening(real.context(), real) as port:
        for certificate in (foreign, expired):
            with pytest.raises(ssl.SSLError, match="alert"):
                ask(port, held.authority, Credentials(key, certificate, ""), tmp_path)
        assert ask(port, held.authority, held, tmp_path) == "gpu1"


def test_an_agents_certificate_cannot_play_the_daemon(real: Identities, tmp_path: Path) -> None:
    held = joined(real, real.invite(), "gpu1")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    pem = tmp_path / "stolen.pem"
    pem.write_text(held.certificate + held.key)
    context.load_cert_chain(pem)
    with (
        listening(context, real) as port,
        pytest.raises(ssl.SSLError, match=r"(?i)purpose"),
    ):
        ask(port, held.authority, None, tmp_path)


def test_a_revoked_node_is_told_so_over_tls(real: Identities, tmp_path: Path) -> None:
    held = joined(real, real.invite(), "gpu1")
    real.revoke("gpu1")
    with listening(real.context(), real) as port:
        assert "was revoked on" in ask(port, held.authority, held, tmp_path)


def test_an_authority_is_replaced_while_agents_stay_connected_and_join(
    real: Identities, tmp_path: Path
) -> None:
    token = real.invite()
    one, two = (joined(real, real.invite(), node) for node in ("gpu1", "gpu2"))
    with listening(real.context(), real) as port:
        assert real.rotate() == ("gpu1", "gpu2")
        assert real.stale("gpu1")
        # Who only knows the old authority is still let in, and a token that names it still works.
        assert ask(port, one.authority, one, tmp_path) == "gpu1"
        three = joined(real, token, "gpu3")
        assert ask(port, fetched(port, token), three, tmp_path) == "gpu3"
        renewed = {}
        for node in ("gpu1", "gpu2"):
            key, request = new_request(node)
            found = real.renew(node, request)
            renewed[node] = Credentials(key, found.certificate, found.authority)
        assert not real.stale("gpu1")
        assert ask(port, renewed["gpu1"].authority, renewed["gpu1"], tmp_path) == "gpu1"
        # An agent that died before it had its new one comes with the old one.
        assert ask(port, two.authority, two, tmp_path) == "gpu2"
        # All have shown theirs: the old authority is gone, on the port that listens already too.
        assert ask(port, renewed["gpu2"].authority, renewed["gpu2"], tmp_path) == "gpu2"
        assert ask(port, three.authority, three, tmp_path) == "gpu3"
        with pytest.raises(ssl.SSLError):
            ask(port, two.authority, None, tmp_path)
        with pytest.raises(ssl.SSLError, match="alert"):
            ask(port, renewed["gpu1"].authority, two, tmp_path)


def test_a_rotation_waits_for_the_one_before(real: Identities) -> None:
    joined(real, real.invite(), "gpu1")
    real.rotate()
    with pytest.raises(JoinError, match="the last rotation is not over: gpu1"):
        real.rotate()
    real.revoke("gpu1")
    real.rotate()


def test_at_once_means_that_every_agent_joins_again(real: Identities, tmp_path: Path) -> None:
    told: list[str] = []
    real.revoked.append(told.append)
    held = joined(real, real.invite(), "gpu1")
    real.rotate(at_once=True)
    assert told == ["gpu1"]
    with listening(real.context(), real) as port:
        with pytest.raises(ssl.SSLError):
            ask(port, held.authority, held, tmp_path)
        again = joined(real, real.invite(), "gpu1")
        assert ask(port, again.authority, again, tmp_path) == "gpu1"


def test_the_daemons_certificate_is_renewed_without_a_restart(store: Store, tmp_path: Path) -> None:
    clock = Clock(time.time() - 8 * DAY)
    identities = Identities(store, ["localhost"], clock=clock)
    held = joined(identities, identities.invite(), "gpu1")
    with listening(identities.context(), identities) as port:
        with pytest.raises(ssl.SSLError, match="expired"):
            ask(port, held.authority, held, tmp_path)
        clock.now = time.time()
        assert ask(port, held.authority, held, tmp_path) == "gpu1"
