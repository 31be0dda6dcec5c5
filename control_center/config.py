"""Configuration of the control centre: YAML in, frozen dataclasses out.

Every problem is reported, not only the first, and each names file and line, key path, value and what is allowed.
``docs/control-center.example.yaml`` shows every key.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from control_center import address
from control_center.address import Address, Credentials, UnixAddress, is_local
from control_center.errors import ConfigError
from control_center.host import HostConfig
from virtio_proto.control.server_settings import TlsConfig, listen_address, parse_tls
from virtio_proto.yaml_values import (
    MIB,
    NS_PER_S,
    SIZE_UNITS,
    TIB,
    TIME_UNITS,
    Located,
    Parser,
    Problems,
    integer,
    path_of,
    plain_name,
    read_text,
    read_yaml,
    scaled,
    table_of,
)

MAX_HOSTS: Final = 1024
DAY_NS: Final = 24 * 3600 * NS_PER_S
DEFAULT_SIZE: Final = 2 << 30
"""Size of a recording if the configuration gives none: it must not fill the disk."""
DEFAULT_LISTEN: Final = ("127.0.0.1", 7070)
_listen: Final = listen_address("127.0.0.1:7070")
_STORES: Final = ("sqlite", "postgresql", "postgres")


@dataclass(frozen=True, slots=True)
class RecorderConfig:
    url: str
    retention_s: float | None = None
    """Age at which entries are deleted; None: only `size_bytes` bounds the recording."""
    size_bytes: int = DEFAULT_SIZE


@dataclass(frozen=True, slots=True)
class CentreConfig:
    """Configuration of a control centre: its hosts, its listening address, and its clients' authentication."""

    hosts: tuple[HostConfig, ...]
    listen: tuple[str, int] = DEFAULT_LISTEN
    tls: TlsConfig | None = None
    tokens: Path | None = None
    recorder: RecorderConfig | None = None
    max_pe_series: int = 10_000
    """Most processing elements with series of their own in ``/metrics``."""


# ---- parsers of single values --------------------------------------------------------------------


def _address(problems: Problems, path: str, at: Located) -> Address | None:
    try:
        return address.parse(at.value if isinstance(at.value, str) else "")
    except ValueError:
        problems.add(at, path, address.ALLOWED)
        return None


def _token(problems: Problems, path: str, at: Located) -> str | None:
    if isinstance(at.value, str) and 8 <= len(at.value) <= 256 and at.value.isprintable():
        return at.value
    problems.note(at.line, f"{path} is not a token; allowed: a token of the daemon, 8 to 256 characters")  # not shown
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


# ---- sections ------------------------------------------------------------------------------------


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
    "name": plain_name,
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
    "tls": parse_tls,
    "tokens": path_of,
    "recorder": _recorder,
    "max_pe_series": integer(0, 1_000_000),
}


def parse(text: str, file: str = "config") -> CentreConfig:
    """Parses the configuration in `text`; `file` is its name in messages.

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
    """Reads the configuration file `path`.

    :raise ConfigError: the file cannot be read, or has errors.
    """
    problems = Problems(str(path), numbered=True)
    text = read_text(path, problems)
    if problems.found:
        raise ConfigError(problems.found)
    return parse(text, str(path))


def checked(config: CentreConfig, where: str) -> CentreConfig:
    """Returns `config` unless it would let clients in by accident.

    :raise ConfigError: it listens on more than the loopback without tokens and client certificates, or without TLS.
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
class _OptionParser:
    """Parser of command line options, by the rules of the file's keys."""

    problems: Problems = field(default_factory=lambda: Problems("command line", numbered=False))

    def parse(self, parser: Parser[Any], option: str, text: str) -> Any:
        return parser(self.problems, option, Located(text, 0))


def from_arguments(path: Path | None, hosts: Sequence[str], listen: str | None, record: str | None) -> CentreConfig:
    """Reads the file, if one is given, and adds the options of the command line.

    :raise ConfigError: the file or an option is wrong, or no host is given.
    """
    given = _OptionParser()
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


def _named_host(given: _OptionParser, text: str, index: int) -> HostConfig | None:
    """Parses ``NAME=URL``, or a URL alone: then a host with a UNIX socket is named after the file, or after this machine
    if the file has the usual name.
    """
    name, equals, url = text.partition("=")
    if not equals:
        name, url = "", text
    where = given.parse(_address, "--host", url)
    if where is None:
        return None
    name = name or _default_name(where, index)
    return HostConfig(name, where) if given.parse(plain_name, "--host", name) is not None else None


def _default_name(where: Address, index: int) -> str:
    if not isinstance(where, UnixAddress):
        return urlsplit(str(where)).hostname or f"host{index}"
    stem = where.path.stem
    return socket.gethostname() if stem in ("control", "vgcd", "") else stem
