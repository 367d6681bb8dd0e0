"""Where a history is: a SQLite file, or the URL of a PostgreSQL database."""

from __future__ import annotations

import re
from importlib.util import find_spec
from urllib.parse import parse_qsl, urlsplit

from looptrap.database.database import Database
from looptrap.database.sqlite import SqliteDatabase
from looptrap.schema.wording import quoted

POSTGRES_SCHEMES = ("postgresql", "postgres")

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]{0,30}):")
_SHOWN = (
    "application_name|channel_binding|connect_timeout|dbname|gssencmode|host|hostaddr|keepalives\\w*"
    "|options|port|service|sslcert|sslmode|sslrootcert|target_session_attrs|tcp_user_timeout|user"
)
_SECRETS = re.compile(rf"([?&](?!(?:{_SHOWN})=)[^&=]*=)[^&]*")
"""Any other option may be a mistyped password."""

_BAD_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")

FORM = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE"

MISSING_PACKAGE = "needs the extra: pip install 'looptrap[postgres]'"


def is_postgres(place: str) -> bool:
    """Return whether a history is in PostgreSQL."""
    return place.partition("://")[0].lower() in POSTGRES_SCHEMES and "://" in place


def place_problem(place: str) -> str:
    """Return what is wrong with a place, without any password; empty for nothing."""
    found = _SCHEME.match(place)
    scheme = found[1].lower() if found else ""
    if "://" not in place:
        if scheme in POSTGRES_SCHEMES:
            return f"is not a URL of PostgreSQL: write {FORM}"
        return ""
    if scheme not in POSTGRES_SCHEMES:
        shown = f"{scheme}://" if scheme else quoted(place.partition("://")[0] + "://")
        return f"{shown} is no place for a history: it can be a SQLite file or {FORM}"
    return _url_problem(place)


def _url_problem(url: str) -> str:
    escapes = "%40 for @, %2F for / and %25 for %"
    wrong = f"is not a URL of PostgreSQL: write {FORM}, with {escapes} in a password"
    try:
        parts = urlsplit(url)
        hosts = parts.netloc.rpartition("@")[2].split(",")
        ports = [host.rpartition("]")[2].partition(":")[2] for host in hosts]
        parse_qsl(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        return wrong
    is_wrong = (
        "@" in parts.path
        or "#" in url
        or any(port and not _is_port(port) for port in ports)
        or _BAD_PERCENT.search(url) is not None
        or " " in url
        or not url.isprintable()
    )
    return wrong if is_wrong else ""


def _is_port(text: str) -> bool:
    return re.fullmatch(r"[0-9]{1,5}", text) is not None and 0 < int(text) < 65_536


def shown_place(place: str) -> str:
    """Return a place without the password in it."""
    if "://" not in place:
        return place
    scheme, _, rest = place.partition("://")
    # The last one: whatever stands before it may be part of the password.
    entry, at, address = rest.rpartition("@")
    user, colon, _ = entry.partition(":")
    shown = f"{user}:***@{address}" if at and colon else rest
    return f"{scheme}://" + _SECRETS.sub(r"\1***", shown)


def has_driver() -> bool:
    """Return whether the package that speaks to PostgreSQL is installed."""
    return find_spec("psycopg") is not None


def database_at(place: str, history_id: str, *, timeout: float = 5.0) -> Database:
    """Return the database at a place; `history_id` is for a new one."""
    if is_postgres(place):
        from looptrap.database.postgres import PostgresDatabase

        scheme, separator, rest = place.partition("://")
        return PostgresDatabase(scheme.lower() + separator + rest, history_id, timeout=timeout)
    return SqliteDatabase(place, history_id)
