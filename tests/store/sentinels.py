"""A primary with a replica, and real sentinels that watch them."""

import subprocess
from contextlib import contextmanager

import redis
from tests.store.serving import Server, free_port, until

NAME = "counts"
PASSWORD, SENTINEL_PASSWORD = "primary-password", "sentinel-password"


class SentinelGroup:
    """A primary, its replica, and three sentinels that watch them."""

    def __init__(self, kind):
        self.servers = [self._server(kind) for _ in range(2)]
        self.sentinels = [_Sentinel(kind) for _ in range(3)]
        places = ",".join(f"127.0.0.1:{one.port}" for one in self.sentinels)
        self.url = (
            f"redis+sentinel://:{PASSWORD}@{places}/{NAME}?sentinel_password={SENTINEL_PASSWORD}"
        )

    def _server(self, kind):
        return Server(
            kind,
            port=free_port(),
            requirepass=PASSWORD,
            masterauth=PASSWORD,
            repl_diskless_sync_delay=0,
        )

    def start(self):
        primary, replica = [one.start() for one in self.servers]
        with replica.client(password=PASSWORD) as client:
            client.execute_command("REPLICAOF", "127.0.0.1", primary.port)
            until(lambda: client.info("replication").get("master_link_status") == "up")
        for one in self.sentinels:
            one.start(primary.port)
        until(lambda: all(one.knows_all() for one in self.sentinels))
        return self

    def fail_over(self):
        """Make the replica the primary, as an operator does."""
        with self.sentinels[0].client() as client:
            # It was told of the replica, but may not have heard from it yet.
            until(lambda: _succeeds(client, "SENTINEL", "FAILOVER", NAME))

    def close(self):
        for one in (*self.sentinels, *self.servers):
            one.close()


def _succeeds(client, *command):
    try:
        client.execute_command(*command)
    except redis.ResponseError:
        return False
    return True


class _Sentinel(Server):
    def __init__(self, kind):
        super().__init__(kind, port=free_port())
        self.file = self.folder / "sentinel.conf"

    def start(self, primary):
        self.file.write_text(
            f"port {self.port}\nbind 127.0.0.1\ndir {self.folder}\n"
            f"unixsocket {self.socket}\nrequirepass {SENTINEL_PASSWORD}\n"
            f"sentinel monitor {NAME} 127.0.0.1 {primary} 2\n"
            f"sentinel auth-pass {NAME} {PASSWORD}\n"
            f"sentinel down-after-milliseconds {NAME} 500\n"
            f"sentinel failover-timeout {NAME} 5000\n"
        )
        with (self.folder / "log").open("ab") as log:
            command = [self.program, self.file, "--sentinel"]
            self.process = subprocess.Popen(command, stdout=log, stderr=log)
        until(self._is_up)

    def client(self, **options):
        return redis.Redis(port=self.port, password=SENTINEL_PASSWORD, **options)

    def knows_all(self):
        with self.client() as client:
            others = client.execute_command("SENTINEL", "SENTINELS", NAME)
            replicas = client.execute_command("SENTINEL", "REPLICAS", NAME)
        return (len(others), len(replicas)) == (2, 1)


@contextmanager
def sentinel_group(kind="valkey"):
    """Run a group for as long as the context lasts."""
    one = SentinelGroup(kind)
    try:
        yield one.start()
    finally:
        one.close()
