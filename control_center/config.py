"""The control centre's configuration: YAML in, frozen dataclasses out.

Every problem is reported, not only the first, and each names file and line, key path, value and what is allowed.
``docs/control-center.example.yaml`` shows every key.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import urlsplit

from control_center import address
from control_center.address import Address, Credentials, UnixAddress, is_local
from control_center.errors import ConfigError
from control_center.host import HostConfig
from control_center.tls import TlsConfig
from virtio_proto.control.api import ROLES, Role
from virtio_proto.yaml_values import (
    MIB,
    NS_PER_S,
    SIZE_UNITS,
    TIB,
    TIME_UNITS,
    Located,
    Parser,
    Problems,
    choice,
    integer,
    path_of,
    read_yaml,
    scaled,
    table_of,
)

MAX_HOSTS: Final = 1024
DAY_NS: Final = 24 * 3600 * NS_PER_S
DEFAULT_SIZE: Final = 2 << 30
"""Of a recording whose size nobody has said: it must not fill a disk."""
DEFAULT_LISTEN: Final = ("127.0.0.1", 7070)
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_LISTEN: Final = re.compile(r"(\[[0-9a-fA-F:]+\]|[A-Za-z0-9_.-]+):(\d{1,5})")
_STORES: Final = ("sqlite", "postgresql", "postgres")


@dataclass(frozen=True, slots=True)
class RecorderConfig:
    url: str
    retention_s: float | None = None
    """None: as long as there is room."""
    size_bytes: int = DEFAULT_SIZE


@dataclass(frozen=True, slots=True)
class CentreConfig:
    """What a control centre serves, and to whom."""

    hosts: tuple[HostConfig, ...]
    listen: tuple[str, int] = DEFAULT_LISTEN
    tls: TlsConfig | None = None
    tokens: Path | None = None
    recorder: RecorderConfig | None = None
    max_pe_series: int = 10_000
    """Of ``/metrics``: so many elements have series of their own at most."""


# ---- parsers of single values --------------------------------------------------------------------


def _listen(problems: Problems, path: str, at: Located) -> tuple[str, int] | None:
    match = _LISTEN.fullmatch(at.value) if isinstance(at.value, str) else None
    if match is None or int(match[2]) > 65535:
        problems.add(at, path, "an address and a port such as 127.0.0.1:7070 or [::1]:7070")
        return None
    return match[1].strip("[]"), int(match[2])


def _name(problems: Problems, path: str, at: Located) -> str | None:
    if isinstance(at.value, str) and _NAME.fullmatch(at.value):
        return at.value
    problems.add(at, path, "1 to 63 of A-Z a-z 0-9 _ . -")
    return None


def _address(problems: Problems, path: str, at: Located) -> Address | None:
    try:
        return address.parse(at.value if isinstance(at.value, str) else "")
    except ValueError:
        problems.add(at, path, address.ALLOWED)
        return None


def _token(problems: Problems, path: str, at: Located) -> str | None:
    if isinstance(at.value, str) and 8 <= len(at.value) <= 256 and at.value.isprintable():
        return at.value
    problems.note(at.line, f"{path} is none; allowed: a token of the daemon, 8 to 256 characters")  # it stays secret
    return None


def _store(problems: Problems, path: str, at: Located) -> str | None:
    if isinstance(at.value, str) and at.value.partition(":")[0] in _STORES:
        return at.value
    problems.add(at, path, "sqlite:///path or postgresql://user:password@host/database")
    return None


def _labels(problems: Problems, path: str, at: Located) -> Mapping[str, str] | None:
    if not isinstance(at.value, dict) or not all(isinstance(item.value, str | int) for item in at.value.values()):
        problems.add(at, path, "a mapping of names to text")
        return None
    return {name: str(item.value) for name, item in at.value.items()}


def _clients(problems: Problems, path: str, at: Located) -> Mapping[str, Role] | None:
    if not isinstance(at.value, dict):
        problems.add(at, path, "a mapping of common names to roles")
        return None
    role = choice(*ROLES)
    found = {name: role(problems, f"{path}.{name}", item) for name, item in at.value.items()}
    return {name: cast("Role", value) for name, value in found.items() if value is not None}


# ---- sections ------------------------------------------------------------------------------------


def _tls(problems: Problems, path: str, at: Located) -> TlsConfig | None:
    keys: dict[str, Parser[Any]] = {"certificate": path_of, "key": path_of, "client_ca": path_of, "clients": _clients}
    table = table_of(problems, path, at, keys)
    missing = [key for key in ("certificate", "key") if key not in table]
    if missing:
        problems.note(at.line, f"{path} lacks {' and '.join(missing)}; allowed: both of certificate and key")
        return None
    if ("clients" in table) != ("client_ca" in table):
        problems.note(at.line, f"{path} has one of clients and client_ca; allowed: both, or neither")
    return TlsConfig(**table)


def _recorder(problems: Problems, path: str, at: Located) -> RecorderConfig | None:
    keys: dict[str, Parser[Any]] = {
        "url": _store,
        "retention": scaled({**TIME_UNITS, "d": DAY_NS}, NS_PER_S, 3660 * DAY_NS, "a time such as 12h or 7d"),
        "size": scaled(SIZE_UNITS, MIB, 64 * TIB, "a size such as 512M or 2G"),
    }
    table = table_of(problems, path, at, keys)
    if "url" not in table:
        problems.note(at.line, f"{path} lacks url; allowed: sqlite:///path or postgresql://...")
        return None
    retention = table.get("retention")
    return RecorderConfig(
        table["url"], None if retention is None else retention / NS_PER_S, table.get("size", DEFAULT_SIZE)
    )


_HOST_KEYS: Final[dict[str, Parser[Any]]] = {
    "name": _name,
    "url": _address,
    "token": _token,
    "ca": path_of,
    "certificate": path_of,
    "key": path_of,
    "labels": _labels,
}


def _host(problems: Problems, path: str, at: Located) -> HostConfig | None:
    table = table_of(problems, path, at, _HOST_KEYS)
    missing = [key for key in ("name", "url") if key not in table]
    if missing:
        problems.note(
            at.line, f"{path} lacks {' and '.join(missing)}; allowed: a name, and a url such as {address.ALLOWED}"
        )
        return None
    if ("certificate" in table) != ("key" in table):
        problems.note(at.line, f"{path} has one of certificate and key; allowed: both, or neither")
    credentials = Credentials(*(table.get(key) for key in ("token", "ca", "certificate", "key")))
    return HostConfig(table["name"], table["url"], credentials, table.get("labels", {}))


def _hosts(problems: Problems, path: str, at: Located) -> tuple[HostConfig, ...] | None:
    if not isinstance(at.value, list) or not 1 <= len(at.value) <= MAX_HOSTS:
        problems.add(at, path, f"a list of 1 to {MAX_HOSTS} hosts, each with a name and a url")
        return None
    found: dict[str, HostConfig] = {}
    for index, item in enumerate(at.value):
        host = _host(problems, f"{path}.{index}", item)
        if host is not None and host.name in found:
            problems.note(item.line, f"{path}.{index}.name is {host.name!r} again; allowed: each name once")
        elif host is not None:
            found[host.name] = host
    return tuple(found.values())


_KEYS: Final[dict[str, Parser[Any]]] = {
    "listen": _listen,
    "hosts": _hosts,
    "tls": _tls,
    "tokens": path_of,
    "recorder": _recorder,
    "max_pe_series": integer(0, 1_000_000),
}


def parse(text: str, file: str = "config") -> CentreConfig:
    """The configuration in `text`; `file` is its name in messages.

    :raise ConfigError: with every problem found.
    """
    problems = Problems(file, numbered=True)
    root = read_yaml(text, problems)
    if problems.found:
        raise ConfigError(problems.found)
    table = table_of(problems, "", root, _KEYS)
    if "hosts" not in root.value:
        problems.note(1, f"hosts is missing; allowed: a list of 1 to {MAX_HOSTS} hosts, each with a name and a url")
    if problems.found:
        raise ConfigError(list(dict.fromkeys(problems.found)))
    return checked(CentreConfig(**table), file)


def load(path: Path) -> CentreConfig:
    """The configuration in the file `path`.

    :raise ConfigError: the file cannot be read, or is wrong.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError([f"{path}: cannot be read: {reason}; allowed: a readable YAML file"]) from None
    return parse(text, str(path))


def checked(config: CentreConfig, where: str) -> CentreConfig:
    """`config`, if it lets in nobody by accident.

    :raise ConfigError: it listens on more than this machine without asking who is there, or tokens would be seen.
    """
    address_text = f"listen is {config.listen[0]}:{config.listen[1]}"
    asks = config.tokens is not None or bool(config.tls and config.tls.clients)
    if not is_local(config.listen[0]) and not asks:
        raise ConfigError(
            [f"{where}: {address_text} without tokens and tls.clients; allowed: 127.0.0.1, or one of them"]
        )
    if not is_local(config.listen[0]) and config.tls is None:
        raise ConfigError(
            [f"{where}: {address_text} without tls; allowed: 127.0.0.1, or tls, as tokens must not be seen"]
        )
    return config


# ---- the command line ----------------------------------------------------------------------------


@dataclass(slots=True)
class _Given:
    """What the command line says, in the file's terms."""

    problems: Problems = field(default_factory=lambda: Problems("command line", numbered=False))

    def parse(self, parser: Parser[Any], option: str, text: str) -> Any:
        return parser(self.problems, option, Located(text, 0))


def from_arguments(path: Path | None, hosts: Sequence[str], listen: str | None, record: str | None) -> CentreConfig:
    """The configuration of the file, if there is one, with what the command line adds to it.

    :raise ConfigError: one of them is wrong, or there is no host at all.
    """
    given = _Given()
    added = tuple(host for index, text in enumerate(hosts, 1) if (host := _named_host(given, text, index)) is not None)
    address_given = None if listen is None else given.parse(_listen, "--listen", listen)
    store = None if record is None else given.parse(_store, "--record", record)
    if given.problems.found:
        raise ConfigError(given.problems.found)
    if path is None and not added:
        raise ConfigError(["no host is named; allowed: --host unix:/run/vgc/control.sock, or --config with hosts"])
    base = CentreConfig(()) if path is None else load(path)
    names = [host.name for host in (*base.hosts, *added)]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError([f"command line: host {twice[0]} twice; allowed: each name once, as NAME=URL"])
    config = replace(base, hosts=base.hosts + added, listen=address_given or base.listen)
    if store is not None:
        config = replace(config, recorder=replace(base.recorder or RecorderConfig(store), url=store))
    return checked(config, "command line" if path is None else str(path))


def _named_host(given: _Given, text: str, index: int) -> HostConfig | None:
    """``NAME=URL``, or a URL alone: a UNIX socket is called by the name of its file, or of this machine."""
    name, equals, url = text.partition("=")
    if not equals:
        name, url = "", text
    where = given.parse(_address, "--host", url)
    if where is None:
        return None
    name = name or _default_name(where, index)
    return HostConfig(name, where) if given.parse(_name, "--host", name) is not None else None


def _default_name(where: Address, index: int) -> str:
    if not isinstance(where, UnixAddress):
        return urlsplit(str(where)).hostname or f"host{index}"
    stem = where.path.stem
    return socket.gethostname() if stem in ("control", "vgcd", "") else stem
