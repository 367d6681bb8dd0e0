"""Sentinels: the primary is found by its name, and found again after a failover."""

import subprocess
import time

import pytest
import redis
from tests.store.driving import eventually, hit
from tests.store.serving import KINDS, Server, free_port, until

from looptrap.store.redis.address import parse_store_url
from looptrap.store.redis.sentinel import Sentinels, servers_of

NAME = "counts"
PASSWORD, SENTINEL_PASSWORD = "primary-password", "sentinel-password"


class Group:
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


@pytest.fixture(params=KINDS)
def group(request):
    one = Group(request.param)
    try:
        yield one.start()
    finally:
        one.close()


@pytest.mark.slow
async def test_the_primary_is_found_and_again_after_a_failover(group, connect):
    store = await connect(group.url)
    assert await hit(store, b"\0\0k") == (1, False)
    primary, replica = group.servers
    assert store.configuration._server.address.port == primary.port
    group.fail_over()
    await eventually(lambda: store.configuration._server.address.port == replica.port)
    await eventually(lambda: not store.is_degraded)
    assert await hit(store, b"\0\0k") == (2, False), "the replica had what was counted"


@pytest.mark.slow
async def test_after_the_primary_died_the_replica_counts(group, connect):
    store = await connect(group.url, timeout=0.25)
    assert await hit(store, b"\0\0k") == (1, False)
    group.sentinels[0].kill()  # two of three are enough
    group.servers[0].kill()
    began = time.monotonic()
    assert await hit(store, b"\0\0k") == (1, True), "meanwhile each counts alone"
    await eventually(lambda: not store.is_degraded)
    assert await hit(store, b"\0\0k") == (2, False)
    assert time.monotonic() - began > 0.4, "sentinels wait for half a second"


async def test_who_is_asked_and_what_is_said_if_nobody_knows(group):
    first = f"127.0.0.1:{free_port()}"  # nobody is there
    url = group.url.replace("@", f"@{first},")
    sentinels = Sentinels(parse_store_url(url))
    place = await sentinels.locate()
    assert (place.port, place.password) == (group.servers[0].port, PASSWORD)
    assert sentinels._sentinels[0].port == group.sentinels[0].port, "it is asked first from now on"
    assert await servers_of(parse_store_url(url)) == (place,)
    for wrong, message in (
        (url.replace(f"/{NAME}", "/others"), "it watches no primary of that name"),
        (url.replace(SENTINEL_PASSWORD, "wrong"), "it refuses the user name or password"),
    ):
        with pytest.raises(OSError, match=message) as raised:
            await servers_of(parse_store_url(wrong))
        assert "password=" not in str(raised.value)
        assert f"redis://{first}: cannot connect" in str(raised.value)
