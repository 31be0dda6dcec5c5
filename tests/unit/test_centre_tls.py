"""Links over TLS: the daemon's certificate is checked, and the token is accepted."""

from __future__ import annotations

import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from control_center.address import Credentials, TlsAddress
from control_center.daemon_link import connect
from control_center.errors import UnreachableError
from tests.fakes.control_daemon import FakeDaemon
from tests.unit.centre_rig import SHAPE, run
from virtio_proto.control.server_settings import TlsConfig, TlsFileError, tls_context


def certified(folder: Path, name: str) -> tuple[Path, Path]:
    """Makes a self-signed certificate for localhost, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = folder / f"{name}.crt", folder / f"{name}.key"
    paths[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    form, plain = serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    return paths


def test_a_link_over_tls_takes_the_right_certificate_and_token(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path, "daemon")
    stranger, _ = certified(tmp_path, "stranger")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)

    async def test() -> None:
        async with FakeDaemon("h1", shape=SHAPE, token="vgc_right", tls=context) as daemon:
            address = TlsAddress("localhost", daemon.port)
            connection = await connect(address, Credentials("vgc_right", certificate))
            assert connection.hello["host"] == "h1"
            await connection.close()
            with pytest.raises(UnreachableError, match="cannot be reached"):
                await connect(address, Credentials("vgc_right", stranger))

    run(test())


def test_malformed_certificate_files_are_named(tmp_path: Path) -> None:
    certificate, key = certified(tmp_path, "centre")
    assert tls_context(TlsConfig(certificate, key, certificate)).verify_mode == ssl.CERT_OPTIONAL
    for config, name in (
        (TlsConfig(tmp_path / "nowhere", key), "nowhere"),
        (TlsConfig(certificate, key, key), "centre.key"),
    ):
        with pytest.raises(TlsFileError, match=f"{name}: .*; allowed: readable PEM files that fit"):
            tls_context(config)
