"""A real PostgreSQL for the tests: a temporary cluster, and a schema of its own for each test."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import psycopg
from tests.patience import PATIENCE
from tests.store.serving import until

OWNER = "postgres"
"""The user that the server runs as where the tests run as root: it refuses root."""

FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")


def programs():
    """Return the folder of the newest installed server; None without one."""
    found = sorted(
        Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda one: int(one.parts[-3])
    )
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    return Path(program).parent if program else None


class PostgresServer:
    """A server on a Unix socket and a port of 127.0.0.1, in a folder of its own."""

    def __init__(self, *, port=None, password=None, host="127.0.0.1"):
        self.programs = programs()
        self.folder = Path(tempfile.mkdtemp(prefix="lt-pg-"))
        self.port = free_port() if port is None else port
        self.password = password
        self.host = host
        self.process = None
        self._names = count(1)
        self._as_owner = {"user": OWNER, "group": OWNER} if os.getuid() == 0 else {}
        if self._as_owner:
            shutil.chown(self.folder, OWNER, OWNER)
        given = self.folder / "password"
        given.write_text(password or "")
        given.chmod(0o644)
        method = ["-A", "scram-sha-256", f"--pwfile={given}"] if password else ["-A", "trust"]
        self._run(
            "initdb", "-D", self.data, "-U", "postgres", "--no-sync", "-E", "UTF8",
            "--locale=C.UTF-8", *method,
        )  # fmt: skip

    @property
    def data(self):
        return self.folder / "data"

    def url(self, schema="", *, user="postgres", password=None, database="postgres", host=None):
        """Return the URL of a schema, through the port of 127.0.0.1."""
        given = self.password if password is None else password
        entry = f"{user}:{given}" if given else user
        options = f"?options=-csearch_path%3D{schema}" if schema else ""
        return f"postgresql://{entry}@{host or self.host}:{self.port}/{database}{options}"

    def start(self, *settings):
        """Run it, and wait until it answers."""
        command = [self.programs / "postgres", "-D", self.data, "-p", str(self.port)]
        for one in (*FAST, f"unix_socket_directories={self.folder}", "max_connections=200",
                    f"listen_addresses={self.host}", *settings):  # fmt: skip
            command += ["-c", one]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, **self._as_owner
            )
        until(self._is_up)
        return self

    def _is_up(self):
        assert self.process.poll() is None, (self.folder / "log").read_text()
        try:
            self.client().close()
        except psycopg.OperationalError:
            return False
        return True

    def client(self, **options):
        """Return an ordinary connection, to look behind the history's back."""
        return psycopg.connect(self.url(), autocommit=True, connect_timeout=5, **options)

    def execute(self, statement, *values):
        """Run a statement; return its rows, if it has any."""
        with self.client() as client:
            cursor = client.execute(statement, values or None)
            return cursor.fetchall() if cursor.description else []

    def new_schema(self):
        """Make an empty schema; return its URL."""
        name = f"test_{os.getpid()}_{next(self._names)}"
        self.execute(f"CREATE SCHEMA {name}")
        return self.url(name)

    def stop(self, number=signal.SIGINT):
        """End it: fast, or like a power cut with SIGQUIT."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(number)
            self.process.wait(PATIENCE)

    def kill(self):
        """End it like a power cut, with all its processes."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE)
        (self.data / "postmaster.pid").unlink(missing_ok=True)

    def signal_all(self, number):
        """Send a signal to all its processes, the ones of connections too."""
        parent = self.process.pid
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(stat.parent.name) == parent or int(fields[1]) == parent:
                os.kill(int(stat.parent.name), number)

    def close(self):
        """End it, whatever state it is in, and remove its folder."""
        if self.process is not None and self.process.poll() is None:
            self.signal_all(signal.SIGCONT)
            self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _run(self, program, *arguments):
        done = subprocess.run(
            [self.programs / program, *map(str, arguments)],
            capture_output=True, text=True, timeout=PATIENCE, **self._as_owner,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


@contextmanager
def postgres_server(**settings):
    """Run a server for as long as the context lasts."""
    one = PostgresServer(**settings)
    try:
        yield one.start()
    finally:
        one.close()


def standby_of(primary):
    """Return a server that follows another one, started."""
    standby = PostgresServer.__new__(PostgresServer)
    standby.__dict__.update(primary.__dict__, process=None, port=free_port(), _names=count(1))
    standby.folder = Path(tempfile.mkdtemp(prefix="lt-pg-"))
    if standby._as_owner:
        shutil.chown(standby.folder, OWNER, OWNER)
    standby._run("pg_basebackup", "-d", primary.url(), "-D", standby.data, "-R", "-c", "fast")
    return standby.start()
