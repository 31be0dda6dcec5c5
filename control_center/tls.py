"""What the control centre shows to clients over TLS, and how it knows them."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from control_center.errors import ConfigError
from virtio_proto.control.api import Role


@dataclass(frozen=True, slots=True)
class TlsConfig:
    certificate: Path
    key: Path
    client_ca: Path | None = None
    """Signs certificates of clients; None: none are asked for."""
    clients: Mapping[str, Role] = field(default_factory=dict)
    """By the common name of a client's certificate."""


def tls_context(config: TlsConfig) -> ssl.SSLContext:
    """A server's context.

    :raise ConfigError: a file cannot be read or is none of its kind.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    path = config.certificate
    try:
        context.load_cert_chain(config.certificate, config.key)
        if config.client_ca is not None:
            path = config.client_ca
            context.load_verify_locations(config.client_ca)
            context.verify_mode = ssl.CERT_OPTIONAL
    except OSError as error:  # ssl.SSLError is one
        raise ConfigError([f"tls: {path}: {error.strerror or error}; allowed: readable PEM files that fit"]) from None
    return context
