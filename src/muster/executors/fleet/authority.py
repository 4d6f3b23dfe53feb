"""The daemon's own certificate authority: it signs the daemon's certificate and those of its agents.

An authority is replaced without a moment at which anybody is locked out. The old one endorses the new
one (a cross-signed certificate), so who trusts either accepts the daemon; certificates of both are
accepted from agents, until all have renewed theirs. The old private key is deleted at once.
"""

import hashlib
import ipaddress
import json
import ssl
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Self

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 3650
"""Ten years: it is replaced by `muster token rotate`, not by its end."""
AGENT_DAYS = 30
SERVER_DAYS = 7
"""Signed again when two thirds are over, at the next connection."""
SKEW = timedelta(hours=1)
"""How far a node's clock may be behind the daemon's when it gets a certificate."""
LONGEST_REQUEST = 8192
"""Characters of a signing request: those of the largest keys take some 2,000."""


class BadRequestError(ValueError):
    """A signing request that cannot be signed."""


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate that an authority has signed."""

    pem: str
    serial: str
    """In hex."""
    key: str
    """SHA-256 of the public key, in hex."""
    issued: float
    expires: float


@dataclass(frozen=True, slots=True)
class Authority:
    """A key that signs, and what proves it; PEM all of them, so that it can be stored."""

    key: str
    certificate: str
    previous: str = ""
    """Certificate of the authority that this one replaces; empty: none is still accepted."""
    endorsement: str = ""
    """This authority's key in a certificate signed by the previous one."""

    @classmethod
    def new(cls, now: float) -> Self:
        """Return an authority with a new key."""
        key = ec.generate_private_key(ec.SECP256R1())
        # The key's identifier in the name tells two authorities apart while both are trusted.
        name = _name(f"muster authority {_key_digest(key.public_key())[:16]}")
        draft = _draft(name, name, key.public_key(), now, AUTHORITY_DAYS)
        return cls(_private(key), _public(_as_authority(draft).sign(key, hashes.SHA256())))

    @classmethod
    def load(cls, text: str) -> Self:
        """Read what `dump` wrote."""
        return cls(**json.loads(text))

    def dump(self) -> str:
        """Return it as text, with its private key."""
        record = {name: getattr(self, name) for name in self.__slots__}
        return json.dumps(record)

    @property
    def fingerprint(self) -> str:
        """SHA-256 of its certificate, in hex: how a join token names it."""
        return _fingerprint(self.certificate)

    @property
    def accepted(self) -> tuple[str, ...]:
        """Fingerprints of all authorities whose certificates are accepted now."""
        return tuple(_fingerprint(each) for each in (self.certificate, self.previous) if each)

    @property
    def trusted(self) -> str:
        """Certificates of all authorities that are accepted now."""
        return self.certificate + self.previous

    def replaced(self, now: float) -> "Authority":
        """Return a new authority that this one endorses."""
        new = Authority.new(now)
        subject, key = new._own.subject, new._signer.public_key()
        draft = _draft(subject, self._own.subject, key, now, AUTHORITY_DAYS)
        endorsement = _as_authority(draft).sign(self._signer, hashes.SHA256())
        return replace(new, previous=self.certificate, endorsement=_public(endorsement))

    def alone(self) -> "Authority":
        """Return it without the one that it replaced."""
        return replace(self, previous="", endorsement="")

    def sign_agent(self, request: str, node: str, now: float, days: float = AGENT_DAYS) -> Signed:
        """Sign an agent's certificate for this node; whatever else the request names is ignored."""
        draft = _draft(_name(node), self._own.subject, _requested_key(request), now, days)
        return self._signed(draft, ExtendedKeyUsageOID.CLIENT_AUTH)

    def sign_server(
        self, names: Iterable[str], now: float, days: float = SERVER_DAYS
    ) -> tuple[str, str]:
        """Return a chain for the daemon, with certificates of all authorities, and its new key."""
        key = ec.generate_private_key(ec.SECP256R1())
        draft = _draft(_name("muster"), self._own.subject, key.public_key(), now, days)
        draft = draft.add_extension(_alternatives(names), critical=False)
        leaf = self._signed(draft, ExtendedKeyUsageOID.SERVER_AUTH)
        # Also those that agents already have: one with a token only knows a fingerprint.
        return leaf.pem + self.endorsement + self.certificate + self.previous, _private(key)

    def _signed(self, draft: x509.CertificateBuilder, usage: x509.ObjectIdentifier) -> Signed:
        draft = draft.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        draft = draft.add_extension(_usage(digital_signature=True), critical=True)
        draft = draft.add_extension(x509.ExtendedKeyUsage([usage]), critical=True)
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._signer.public_key())
        draft = draft.add_extension(issuer, critical=False)
        found = draft.sign(self._signer, hashes.SHA256())
        begin, end = found.not_valid_before_utc + SKEW, found.not_valid_after_utc
        return Signed(
            _public(found),
            serial_of(found),
            _key_digest(found.public_key()),
            begin.timestamp(),
            end.timestamp(),
        )

    @property
    def _own(self) -> x509.Certificate:
        return x509.load_pem_x509_certificate(self.certificate.encode())

    @property
    def _signer(self) -> ec.EllipticCurvePrivateKey:
        key = load_pem_private_key(self.key.encode(), None)
        assert isinstance(key, ec.EllipticCurvePrivateKey)
        return key


def self_signed(names: Iterable[str], now: float, days: float) -> tuple[str, str]:
    """Return a server's certificate that proves itself, for clients to pin, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    draft = _draft(_name("muster"), _name("muster"), key.public_key(), now, days)
    draft = draft.add_extension(_alternatives(names), critical=False)
    draft = draft.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return _public(draft.sign(key, hashes.SHA256())), _private(key)


def serving(chain: str, key: str) -> ssl.SSLContext:
    """Return a server's context with this certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    # Sessions would outlive certificates, and revocations.
    context.num_tickets = 0
    with tempfile.TemporaryDirectory() as folder:  # ssl reads keys from files alone; 0700
        where = Path(folder) / "server.pem"
        where.touch(mode=0o600)
        where.write_text(chain + key, encoding="ascii")
        context.load_cert_chain(where)
    return context


def new_request(node: str) -> tuple[str, str]:
    """Return a new private key and a request for its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    draft = x509.CertificateSigningRequestBuilder().subject_name(_name(node))
    request = draft.sign(key, hashes.SHA256()).public_bytes(Encoding.PEM).decode()
    return _private(key), request


def serial_of(certificate: x509.Certificate) -> str:
    """Return a certificate's serial number in hex."""
    return f"{certificate.serial_number:x}"


def node_of(certificate: x509.Certificate) -> str:
    """Return the node that an agent's certificate names; empty: none."""
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    return str(names[0].value) if len(names) == 1 else ""


def key_of(request: str) -> str:
    """Return the SHA-256 of a request's public key, in hex."""
    return _key_digest(_requested_key(request))


_PublicKey = ec.EllipticCurvePublicKey | ed25519.Ed25519PublicKey


def _requested_key(request: str) -> _PublicKey:
    """Return the key of a request, after checking that the sender has the private one."""
    if len(request) > LONGEST_REQUEST:
        raise BadRequestError("the certificate request is too long")
    try:
        found = x509.load_pem_x509_csr(request.encode())
        valid, key = found.is_signature_valid, found.public_key()
    except (ValueError, TypeError, InvalidSignature, UnsupportedAlgorithm) as problem:
        raise BadRequestError("the certificate request cannot be read") from problem
    if not valid:
        raise BadRequestError("the certificate request is not signed with its own key")
    strong = isinstance(key, ec.EllipticCurvePublicKey) and isinstance(
        key.curve, ec.SECP256R1 | ec.SECP384R1
    )
    if strong or isinstance(key, ed25519.Ed25519PublicKey):
        assert isinstance(key, _PublicKey)
        return key
    raise BadRequestError("the certificate request must have a P-256, P-384 or Ed25519 key")


def _draft(
    subject: x509.Name, issuer: x509.Name, key: _PublicKey, now: float, days: float
) -> x509.CertificateBuilder:
    moment = datetime.fromtimestamp(now, UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    builder = builder.not_valid_before(moment - SKEW).not_valid_after(moment + timedelta(days=days))
    return builder.add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)


def _as_authority(draft: x509.CertificateBuilder) -> x509.CertificateBuilder:
    draft = draft.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    return draft.add_extension(_usage(key_cert_sign=True), critical=True)


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternatives(names: Iterable[str]) -> x509.SubjectAlternativeName:
    """Return the names that a certificate can have: a machine may be called anything."""
    return x509.SubjectAlternativeName([_general_name(each) for each in names if each.isascii()])


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _fingerprint(certificate: str) -> str:
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(certificate)).hexdigest()


def _key_digest(key: object) -> str:
    assert hasattr(key, "public_bytes")
    data: bytes = key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(data).hexdigest()


def _private(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _public(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()
