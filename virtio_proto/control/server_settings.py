"""Settings that daemon and control centre have in common: listening address, TLS files, clients' certificates.

Both parse their YAML files with the same parsers (`virtio_proto.yaml_values` for single values), so that neither
accepts what the other refuses.
"""

from __future__ import annotations

import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from virtio_proto.control.api import ROLES, Role
from virtio_proto.yaml_values import Located, Parser, Problems, choice, path_of, table_of

_LISTEN: Final = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+):(\d{1,5})")


@dataclass(frozen=True, slots=True)
class TlsConfig:
    """Certificate and key of a server, and how it authenticates clients. `client_ca` and `clients` come together."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    """Certificate of the authority that signs clients' certificates; None: clients are not asked for one."""
    clients: Mapping[str, Role] = field(default_factory=dict)
    """Roles by the common name of a client's certificate."""


class TlsFileError(Exception):
    """A certificate or key cannot be used; the text names the file, the reason and what is allowed."""


def listen_address(example: str) -> Parser[tuple[str, int]]:
    """Parser of an address and a port. `example` appears in the text of problems."""

    def parse(problems: Problems, path: str, at: Located) -> tuple[str, int] | None:
        match = _LISTEN.fullmatch(at.value) if isinstance(at.value, str) else None
        if match is None or int(match[2]) > 65535:
            problems.add(at, path, f"an address and a port such as {example} or [::1]:{example.rpartition(':')[2]}")
            return None
        return match[1].strip("[]"), int(match[2])

    return parse


def _clients(problems: Problems, path: str, at: Located) -> Mapping[str, Role] | None:
    if not isinstance(at.value, dict):
        problems.add(at, path, "a mapping of common names to roles")
        return None
    role = choice(*ROLES)
    found = {name: role(problems, f"{path}.{name}", item) for name, item in at.value.items()}
    return {name: cast("Role", value) for name, value in found.items() if value is not None}


_TLS_KEYS: Final[Mapping[str, Parser[Any]]] = {
    "certificate": path_of,
    "key": path_of,
    "client_ca": path_of,
    "clients": _clients,
}


def parse_tls(problems: Problems, path: str, at: Located) -> TlsConfig | None:
    """Parser of a ``tls`` section."""
    table = table_of(problems, path, at, _TLS_KEYS)
    missing = [key for key in ("certificate", "key") if key not in table]
    if not isinstance(at.value, dict) or any(key in at.value for key in missing):
        return None  # these problems have been reported
    if missing:
        problems.note(at.line, f"{path} lacks {' and '.join(missing)}; allowed: both of certificate and key")
        return None
    for one, other in (("clients", "client_ca"), ("client_ca", "clients")):
        if one in at.value and other not in at.value:
            problems.note(at.line, f"{path}.{one} is there without {other}; allowed: both, or neither")
    return TlsConfig(**table)


def tls_context(config: TlsConfig) -> ssl.SSLContext:
    """Makes a server's TLS context.

    :raise TlsFileError: a file cannot be read, or holds something else than its setting needs.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load("certificate or key", config.certificate, lambda: context.load_cert_chain(config.certificate, config.key))
    if config.client_ca is not None:
        authority = config.client_ca
        _load("client_ca", authority, lambda: context.load_verify_locations(authority))
        context.verify_mode = ssl.CERT_OPTIONAL
    return context


def _load(what: str, path: Path, load: Callable[[], None]) -> None:
    try:
        load()
    except OSError as error:  # ssl.SSLError is one
        text = f"tls: {what} of {path}: {error.strerror or error}; allowed: readable PEM files that fit"
        raise TlsFileError(text) from None
