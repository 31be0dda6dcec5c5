"""SQLite and PostgreSQL behind one interface: the same SQL (``?`` for parameters), transactions, bulk inserts."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Protocol, TypeAlias
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import psycopg

Value: TypeAlias = int | str | bytes
Row: TypeAlias = tuple[Any, ...]

_LOCK_KEY: Final = 0x7667_6372
"""Key of the PostgreSQL advisory lock that the writer holds."""


class StoreError(OSError):
    """Raised when the store cannot be opened, is full, or has gone away. The text says which and why."""


class Database(Protocol):
    """One connection, used by one thread at a time. Every method raises `StoreError` when the store does not work."""

    bytes_type: str
    """SQL type of a column of bytes in this dialect."""

    def lock(self) -> None:
        """Makes this the only connection that may write, until it is closed."""

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> None: ...

    def fetch(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]: ...

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> None: ...

    def transaction(self) -> contextlib.AbstractContextManager[None]:
        """Context manager: commits at its end, rolls back on an exception."""

    def give_back(self) -> None:
        """Returns space of deleted rows to the file system, a part with each call."""

    def close(self) -> None: ...


class Sqlite:
    """An SQLite file with a write-ahead log: a killed writer leaves it as it was after its last transaction."""

    bytes_type = "BLOB"

    def __init__(self, path: Path, *, read_only: bool = False) -> None:
        self._path = path
        self._lock_file: IO[bytes] | None = None
        with self._errors():
            if not read_only:
                path.parent.mkdir(parents=True, exist_ok=True)
            mode = "ro" if read_only else "rwc"
            name = f"file:{path.absolute().as_posix().replace('?', '%3f').replace('#', '%23')}?mode={mode}"
            self._connection = sqlite3.connect(name, uri=True, isolation_level=None, check_same_thread=False)
            self._set_up(read_only)

    def _set_up(self, read_only: bool) -> None:
        pragmas = ["busy_timeout=5000", "case_sensitive_like=ON"]
        if not read_only:
            pragmas += ["auto_vacuum=INCREMENTAL", "journal_mode=WAL", "synchronous=NORMAL"]
            pragmas += ["journal_size_limit=16777216", "wal_autocheckpoint=512"]
        for pragma in pragmas:
            self._connection.execute(f"PRAGMA {pragma}").fetchall()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError) as error:
            raise StoreError(f"recording {self._path}: {error}") from error

    def lock(self) -> None:
        with self._errors():
            self._lock_file = Path(f"{self._path}.lock").open("ab")  # noqa: SIM115  held until close()
            try:
                fcntl.flock(self._lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise StoreError(f"recording {self._path} is in use by another recorder") from None

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> None:
        with self._errors():
            self._connection.execute(sql, parameters)

    def fetch(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        with self._errors():
            return self._connection.execute(sql, parameters).fetchall()

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> None:
        places = ", ".join("?" * len(columns))
        with self._errors():
            self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)  # noqa: S608  names of our own

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self.execute("BEGIN IMMEDIATE")
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with contextlib.suppress(StoreError):
                self.execute("ROLLBACK")
            raise

    def give_back(self) -> None:
        with self._errors():
            self._connection.execute("PRAGMA incremental_vacuum(4096)").fetchall()

    def close(self) -> None:
        with self._errors():
            self._connection.close()
        if self._lock_file is not None:
            self._lock_file.close()


class Postgres:
    """Connection to a PostgreSQL server, whose autovacuum makes the space of deleted rows free for later rows."""

    bytes_type = "BYTEA"

    def __init__(self, url: str) -> None:
        try:
            import psycopg
        except ImportError:
            raise StoreError("a recording in PostgreSQL needs psycopg: pip install 'psycopg[binary]'") from None
        self._error = psycopg.Error
        self._name = without_password(url)
        with self._errors():
            self._connection: psycopg.Connection[Row] = psycopg.connect(url, autocommit=True, connect_timeout=5)

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except self._error as error:
            raise StoreError(f"recording {self._name}: {str(error).strip()}") from error

    def lock(self) -> None:
        if not self.fetch("SELECT pg_try_advisory_lock(?)", (_LOCK_KEY,))[0][0]:
            raise StoreError(f"recording {self._name} is in use by another recorder")

    def execute(self, sql: str, parameters: Sequence[Value] = ()) -> None:
        with self._errors():
            self._connection.execute(sql.replace("?", "%s").encode(), parameters)

    def fetch(self, sql: str, parameters: Sequence[Value] = ()) -> list[Row]:
        with self._errors():
            return self._connection.execute(sql.replace("?", "%s").encode(), parameters).fetchall()

    def insert(self, table: str, columns: Sequence[str], rows: Sequence[Sequence[Value]]) -> None:
        copy_in = f"COPY {table} ({', '.join(columns)}) FROM STDIN (FORMAT BINARY)"
        types = [{int: "int8", str: "text", bytes: "bytea"}[type(value)] for value in rows[0]] if rows else []
        with self._errors(), self._connection.cursor() as cursor, cursor.copy(copy_in.encode()) as copy:
            copy.set_types(types)
            for values in rows:
                copy.write_row(values)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._errors(), self._connection.transaction():
            yield

    def give_back(self) -> None:
        pass

    def close(self) -> None:
        with contextlib.suppress(self._error):  # the server's own end of the connection would release it later
            self._connection.execute("SELECT pg_advisory_unlock_all()")
        with self._errors():
            self._connection.close()


def without_password(url: str) -> str:
    """Replaces the password in `url` by ``***``, for logs and messages."""
    url = re.sub(r"(//[^/@:]*):[^/@]*@", r"\1:***@", url)
    return re.sub(r"([?&](?:ssl)?password=)[^&#]*", r"\1***", url)


def connect(url: str, *, read_only: bool = False) -> Database:
    """Opens a connection to the store at `url`. With `read_only`, an SQLite file that does not exist is not created.

    :raise ValueError: the URL does not name a store.
    :raise StoreError: the store cannot be opened.
    """
    check_url(url)
    if not url.startswith("sqlite:"):
        return Postgres(url)
    return Sqlite(sqlite_path(url), read_only=read_only)


def sqlite_path(url: str) -> Path:
    """File of the store at an ``sqlite:`` URL."""
    path = url.removeprefix("sqlite:")
    return Path("/" + path.lstrip("/") if path.startswith("/") else path)


def free_bytes(url: str) -> int | None:
    """Free space on the disk of the store at `url`; None if the store is a server's, or its folder does not answer."""
    if not url.startswith("sqlite:"):
        return None
    try:
        disk = os.statvfs(sqlite_path(url).absolute().parent)
    except OSError:
        return None
    return disk.f_bavail * disk.f_frsize


def check_url(url: str) -> None:
    """:raise ValueError: `url` does not name a store; the text says what is allowed."""
    parts = urlsplit(url)
    if parts.scheme not in ("sqlite", "postgresql", "postgres") or (
        parts.scheme == "sqlite" and not parts.path.strip("/")
    ):
        allowed = "sqlite:///absolute/path, sqlite:relative/path or postgresql://user@host/database"
        raise ValueError(f"recording {without_password(url)!r}; allowed: {allowed}")
