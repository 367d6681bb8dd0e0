"""The scripts in the manifests make a cluster, and one whose pods all moved finds itself again."""

import os
import signal
import subprocess

import pytest
import redis
from tests.deploy.files import manifests
from tests.store.serving import PATIENCE, free_port, program, until

NAME = "looptrap-valkey"
ALL = manifests()
FILES = ALL["ConfigMap", NAME]["data"]
PODS = ALL["StatefulSet", NAME]["spec"]["replicas"]
PASSWORD = "0123456789abcdef"

GETENT = """#!/bin/sh
grep " $2$" {folder}/hosts
"""
CLI = """#!/bin/sh
# As the pods' names are known to no resolver here, and their own address is not 127.0.0.1.
export REDISCLI_AUTH="$VALKEYCLI_AUTH"
if [ "$1" = -h ]; then host=$(getent hosts "$2"); shift 2; else host=$POD_IP; fi
case "$1" in
  --cluster) exec redis-cli "$@" ;;
  *) exec redis-cli -h "${{host%% *}}" -p {port} "$@" ;;
esac
"""


class Pods:
    """Pods of the set: each has an address of its own, and a volume that it comes back to."""

    def __init__(self, folder):
        self.folder, self.port = folder, free_port()
        self.running, self.at = {}, {}
        self._install("getent", GETENT)
        self._install("valkey-cli", CLI)
        (folder / "bin" / "valkey-server").symlink_to(program("valkey"))

    def _install(self, name, text):
        path = self.folder / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text.format(folder=self.folder, port=self.port))
        path.chmod(0o700)

    def _env(self, **more):
        path = f"{self.folder}/bin:{os.environ['PATH']}"
        return {"PATH": path, "VALKEY_PASSWORD": PASSWORD, "VALKEYCLI_AUTH": PASSWORD, **more}

    def _written(self, name, folder):
        """Write one of the files with the paths and the port of this test."""
        text = FILES[name].replace("/data", str(folder)).replace("/etc/valkey", str(folder))
        text = text.replace("6379", str(self.port))
        (folder / name).write_text(text)
        return folder / name

    def start(self, first):
        """Start all pods, at addresses from this one on."""
        self.at = {number: f"127.0.0.{first + number}" for number in range(PODS)}
        lines = [f"{address} {NAME}-{number}.{NAME}\n" for number, address in self.at.items()]
        (self.folder / "hosts").write_text("".join(lines))
        for number, address in self.at.items():
            volume = self.folder / str(number)
            volume.mkdir(exist_ok=True)
            conf = self._written("valkey.conf", volume)
            conf.write_text(f"{conf.read_text()}port {self.port}\nbind {address}\n")
            script = self._written("start.sh", volume)
            env = self._env(POD_IP=address, POD_NAME=f"{NAME}-{number}")
            with (volume / "log").open("ab") as log:
                self.running[number] = subprocess.Popen(
                    ["sh", script], env=env, stdout=log, stderr=log, start_new_session=True
                )

    def create(self):
        """Run the Job, and return what it said."""
        script = self._written("create.sh", self.folder)
        done = subprocess.run(
            ["sh", script], env=self._env(), capture_output=True, text=True, timeout=4 * PATIENCE
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def client(self, number):
        return redis.Redis(self.at[number], self.port, password=PASSWORD)

    def are_one(self):
        """Whether every pod sees all slots served and all pods where they are now."""
        for number in self.at:
            try:
                with self.client(number) as client:
                    info = client.execute_command("CLUSTER", "INFO")
                    nodes = str(client.execute_command("CLUSTER", "NODES"))
            except redis.RedisError:
                return False
            state = info["cluster_state"] if isinstance(info, dict) else info
            if "ok" not in str(state) or not all(address in nodes for address in self.at.values()):
                return False
        return True

    def kill(self):
        """End all pods at once."""
        for process in self.running.values():
            os.killpg(process.pid, signal.SIGKILL)  # its script may still be saying hello
            process.wait(PATIENCE)
        self.running.clear()


@pytest.fixture
def pods(tmp_path, needs):
    needs("redis-cli", "redis-tools")
    some = Pods(tmp_path)
    yield some
    some.kill()


def test_the_scripts_make_a_cluster_that_outlives_its_addresses(pods):
    pods.start(11)
    assert "[OK] All 16384 slots covered" in pods.create()
    until(pods.are_one)
    with pods.client(0) as client:
        roles = str(client.execute_command("CLUSTER", "SLOTS"))
        replicas = str(client.execute_command("CLUSTER", "NODES")).count("slave")
    assert f"{NAME}-0.{NAME}" in roles, "clients are told addresses, which change"
    assert replicas == PODS // 2
    assert "there already" in pods.create()
    pods.kill()
    pods.start(31)
    until(pods.are_one, 2 * PATIENCE)
