"""Whatever strangers send to the port of the agents, none gets past Join, and agents still can."""

import contextlib
import json
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from muster.executors.fleet.authority import new_request
from muster.executors.fleet.executor import FleetExecutor
from muster.executors.fleet.identities import Identities
from muster.files.cluster.classify import Classifier
from muster.store.store import open_store
from muster.wire.agents.agent_codec import FROM_AGENT, TO_AGENT
from muster.wire.agents.agent_messages import Admitted, AgentHello, AgentRefused, Join, RenewCertificate
from muster.wire.agents.pinned import trusting

PROMPT = 10.0


@dataclass
class Port:
    """A daemon's port for agents, and what strangers know of it."""

    number: int
    identities: Identities
    executor: FleetExecutor

    def say(self, data: bytes, tls: bool = True) -> bytes:
        """Send bytes; return the answer, all of it."""
        context, answer = trusting(self.identities._authority.trusted), b""
        plain = socket.create_connection(("127.0.0.1", self.number), PROMPT)
        with context.wrap_socket(plain) if tls else plain as sock, contextlib.suppress(OSError):
            sock.sendall(data)
            if not tls:
                sock.shutdown(socket.SHUT_WR)
            while part := sock.recv(65536):
                answer += part
        return answer

    def join(self, secret: str, node: str) -> Admitted | AgentRefused:
        answer = self.say(FROM_AGENT.encode(Join(secret, node, new_request(node)[1])))
        found = TO_AGENT.decode(answer.splitlines()[0])
        assert isinstance(found, Admitted | AgentRefused)
        return found


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Port]:
    folder: Path = tmp_path_factory.mktemp("port")
    store = open_store(str(folder / "muster.db"))
    identities = Identities(store, ["localhost"])
    sock = socket.create_server(("127.0.0.1", 0))
    number = int(sock.getsockname()[1])
    executor = FleetExecutor(folder, sock, identities, Classifier().classify, 1, lost_after=30.0)
    executor.listen(lambda: None)
    yield Port(number, identities, executor)
    executor.close()
    store.close()


texts = st.text(max_size=100)
records = st.dictionaries(
    st.sampled_from(["kind", "token", "node", "request", "version", "epoch", "run", "offer", "task"]),
    st.one_of(
        texts,
        st.integers(),
        st.floats(),
        st.none(),
        st.lists(texts),
        st.sampled_from(["Join", "AgentHello", "AgentReport", "RenewCertificate", "Admitted"]),
    ),
)
lines = st.one_of(
    st.binary(max_size=500),
    records.map(lambda each: json.dumps(each).encode()),
    st.builds(lambda *given: FROM_AGENT.encode(Join(*given))[:-1], texts, texts, texts),
    st.builds(lambda node: FROM_AGENT.encode(AgentHello(node, "r", 0, {}))[:-1], texts),
    st.builds(lambda text: FROM_AGENT.encode(RenewCertificate(text))[:-1], texts),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(said=st.lists(lines, min_size=1, max_size=4), tls=st.booleans())
def test_no_stranger_becomes_a_node_and_the_port_goes_on(
    port: Port, said: list[bytes], tls: bool
) -> None:
    answer = port.say(b"\n".join(said) + b"\n", tls)
    if tls:
        for line in answer.splitlines():
            assert isinstance(TO_AGENT.decode(line), AgentRefused)
    assert not port.executor.connected()
    assert not port.identities.identities()


def test_a_line_without_an_end_is_cut_off(port: Port) -> None:
    assert b"Admitted" not in port.say(b"x" * 2_000_000)
    assert not port.executor.connected()


def test_after_all_that_an_agent_joins(port: Port) -> None:
    for _ in range(20):
        port.say(b"\x16\x03\x01" + b"\0" * 100, tls=False)
    token = port.identities.invite("gpu1")
    wrong = port.join("guess", "gpu1")
    assert isinstance(wrong, AgentRefused) and "unknown join token" in wrong.why
    found = port.join(token.secret, "gpu1")
    assert isinstance(found, Admitted)
    assert port.identities.admitted(ssl.PEM_cert_to_DER_cert(found.certificate)) == "gpu1"
