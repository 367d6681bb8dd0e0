"""BatchSpool: batches wait on disk for a shared database, which takes each exactly once."""

from __future__ import annotations

import logging
from pathlib import Path

import msgspec

from looptrap.database.database import Connection, Database, encode_struct
from looptrap.database.spool import Spool, SpoolFullError
from looptrap.errors import ConfigError, DatabaseError, Problem
from looptrap.incident.history.batch import StorableBatch, in_bursts

MAX_RECORDS, MAX_BYTES = 64, 2 << 20
"""Batches written in one transaction."""

SPOOL_KEEP_S = 400 * 86_400
"""Seconds for which the database remembers how far a spool was written."""

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(StorableBatch).decode

log = logging.getLogger("looptrap")


class BatchSpool:
    """The spool of this process, and those that killed processes left in the same folder.

    Batches are numbered. The transaction that writes some also stores the number of the last, and
    leaves out what is written already: a connection that breaks in a commit, or a process that is
    killed, makes no batch count twice.
    """

    def __init__(self, database: Database, folder: str, max_size: int) -> None:
        self.lost = 0
        """Batches that could not be read, or that the database refused."""
        self.is_full = False
        """Whether the latest batch had no room."""
        self._database = database
        self._folder = Path(folder)
        self._max_size = max_size
        self._own: Spool | None = None
        self._adopted: list[Spool] = []
        self._unreadable: set[str] = set()

    @property
    def id(self) -> str:
        """Unique to this process."""
        return self._opened().id

    @property
    def waiting(self) -> int:
        """Batches that wait."""
        return sum(spool.waiting for spool in self._spools())

    @property
    def size(self) -> int:
        """Bytes on disk."""
        return sum(spool.size for spool in self._spools())

    def open(self) -> None:
        """Make the spool of this process; raise ConfigError if that cannot be done."""
        try:
            self._own = Spool.create(self._folder, self._max_size)
        except OSError as error:
            message = f"{self._folder}: cannot write there: {error.strerror}"
            raise ConfigError([Problem("history_spool", message)]) from None
        self.adopt()

    def adopt(self) -> None:
        """Take over what killed processes left behind."""
        for spool in Spool.abandoned(self._folder, self._report):
            self.lost += spool.damaged
            if spool.waiting:
                log.info("history: %d batches of an earlier process wait", spool.waiting)
            if spool.damaged:
                log.warning("history: %d damaged batches of an earlier process", spool.damaged)
            self._adopted.append(spool)

    def _report(self, error: OSError) -> None:
        """Log, once for each file, that it cannot be taken over."""
        if error.filename not in self._unreadable:
            self._unreadable.add(error.filename)
            log.warning("history: a spool of an earlier process is left as it is: %s", error)

    def close(self) -> None:
        """Leave what waits to the next process."""
        for spool in self._spools():
            spool.close()
        self._own, self._adopted = None, []

    def append(self, batch: StorableBatch) -> None:
        """Put a batch behind those that wait; raise OSError if that cannot be done."""
        record = encode_struct(_encode, batch)[1]
        try:
            self._opened().append(record)
        except SpoolFullError:
            self.is_full = True
            raise
        self.is_full = False

    def drain(self) -> int:
        """Write what waits, the oldest first; return how many batches that were."""
        number = 0
        for spool in self._spools():
            damaged = spool.damaged
            while records := spool.first(MAX_RECORDS, MAX_BYTES):
                number += self._write(spool, records)
            if spool.damaged > damaged:
                self.lost += spool.damaged - damaged
                log.error("history: %d batches are lost, their file was changed", self.lost)
        for spool in self._adopted:
            spool.close()
        self._adopted = []
        return number

    def _write(self, spool: Spool, records: list[tuple[int, bytes]]) -> int:
        try:
            with self._database.write() as connection:
                _put(connection, spool.id, records)
        except DatabaseError as error:
            if not error.is_refusal:
                raise
            if len(records) > 1:  # find the one
                return self._write(spool, records[:1])
            self.lost += 1
            log.error("history: a batch is lost, the database refused it: %s", error)
            with self._database.write() as connection:
                _put(connection, spool.id, [(records[0][0], _encode(StorableBatch()))])
        spool.drop(records[-1][0])
        return len(records)

    def _spools(self) -> list[Spool]:
        return [*self._adopted, *([self._own] if self._own is not None else [])]

    def _opened(self) -> Spool:
        if self._own is None:
            raise DatabaseError("the history is closed")
        return self._own


def _put(connection: Connection, spool_id: str, records: list[tuple[int, bytes]]) -> None:
    """Write records that are not written yet, and up to which number they are."""
    connection.execute(
        "INSERT INTO spool (id, last) VALUES (?, 0) ON CONFLICT DO NOTHING", (spool_id,)
    )
    # Locked: a transaction of a killed process may still be on its way.
    [(last,)] = connection.execute("SELECT last FROM spool WHERE id = ? FOR UPDATE", (spool_id,))
    waiting = [record for number, record in records if number > last]
    batches = [_decoded(record) for [record] in in_bursts(waiting, 1)]
    try:
        StorableBatch.joined(batches).put(connection)
    except (TypeError, ValueError, OverflowError) as error:
        # Rows of wrong types: a file that somebody changed.
        raise DatabaseError(f"cannot be written: {error}", is_refusal=True) from None
    connection.execute(
        "UPDATE spool SET last = greatest(last, ?), seen = now() WHERE id = ?",
        (records[-1][0], spool_id),
    )


def _decoded(record: bytes) -> StorableBatch:
    try:
        return _decode(record)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DatabaseError(f"cannot be read: {error}", is_refusal=True) from None


def drop_old_spools(connection: Connection) -> None:
    """Forget spools that nobody has written from for long."""
    connection.execute(
        "DELETE FROM spool WHERE seen < now() - ? * interval '1 second'", (SPOOL_KEEP_S,)
    )
