"""The state file: made once, replaced whole, never lost to a mistake."""

import base64
import fcntl
import json
import os
import stat
import subprocess
import sys
from datetime import UTC, datetime

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.errors import ConfigError
from looptrap.gateway import keys
from looptrap.gateway.state_file import GatewayState, StateFile, digest_secret, secret_from_env

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
SECRET = base64.b64encode(bytes(range(32))).decode()
KEY = {
    "name": "ci",
    "id": "0123abcd",
    "digest": "ab" * 32,
    "project": "",
    "created": "2026-11-15T12:00:00Z",
    "revoked": None,
}
WHOLE = {"looptrap": 1, "secret": SECRET, "keys": [KEY]}


@pytest.fixture
def file(tmp_path):
    return StateFile(tmp_path / "looptrap.state", lock_timeout=30)


def mode(file):
    return stat.S_IMODE(file.path.stat().st_mode)


def error_of(action):
    with pytest.raises(ConfigError) as caught:
        action()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_secret_is_made_on_first_use_and_kept(file):
    secret = file.secret()
    assert len(secret) == 32
    assert StateFile(file.path).secret() == secret


def test_two_files_have_different_secrets(tmp_path):
    assert StateFile(tmp_path / "a").secret() != StateFile(tmp_path / "b").secret()


def test_reading_makes_no_file(file):
    assert file.read() is None
    assert not file.path.exists()


def test_only_the_owner_can_open_it_and_nothing_else_is_left_in_the_folder(file):
    previous = os.umask(0)
    try:
        file.secret()
    finally:
        os.umask(previous)
    assert mode(file) == 0o600
    assert list(file.path.parent.iterdir()) == [file.path]


def test_a_file_open_to_others_is_reported_and_closed_by_the_next_write(file):
    file.secret()
    assert file.exposure() is None
    file.path.chmod(0o644)
    assert "mode 0644" in file.exposure()
    keys.add(file, "ci", now=NOW)
    assert mode(file) == 0o600
    assert file.exposure() is None


def test_a_link_stays_a_link_to_the_file_that_is_replaced(tmp_path):
    (tmp_path / "real").mkdir()
    link = tmp_path / "looptrap.state"
    link.symlink_to(tmp_path / "real" / "state")
    secret = StateFile(link).secret()
    keys.add(StateFile(link), "ci", now=NOW)
    assert link.is_symlink()
    assert StateFile(tmp_path / "real" / "state").secret() == secret


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_key_added_by_root_leaves_the_file_to_its_owner(file):
    file.secret()
    os.chown(file.path, 12345, 12345)
    keys.add(file, "ci", now=NOW)
    assert (file.path.stat().st_uid, file.path.stat().st_gid) == (12345, 12345)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        pytest.param(b"", "is not a Looptrap state file", id="empty"),
        pytest.param(b"\x00\xff\xfe", "is not a Looptrap state file", id="binary"),
        pytest.param(b"[gateway]\nlisten = 1\n", "is not a Looptrap state file", id="TOML"),
        pytest.param(b"[]", "is not a Looptrap state file", id="other JSON"),
        pytest.param(b"[" * 100_000, "is not a Looptrap state file", id="deeply nested"),
        pytest.param(b'{"name": "package"}', "is not a Looptrap state file", id="foreign"),
        pytest.param(json.dumps(WHOLE)[:-9].encode(), "is not a Looptrap state file", id="cut off"),
        pytest.param({"looptrap": 2}, "has format 2, this version of Looptrap reads 1", id="newer"),
        pytest.param({"looptrap": 1}, "is damaged", id="without a secret"),
        pytest.param({**WHOLE, "secret": "c2hvcnQ="}, "is damaged", id="short secret"),
        pytest.param({**WHOLE, "more\n": 1}, "is damaged", id="unknown field"),
        pytest.param(
            {**WHOLE, "keys": [KEY, KEY]}, "two keys have the same id or name", id="twice"
        ),
        pytest.param({**WHOLE, "keys": [{**KEY, "name": "a b"}]}, "is damaged", id="bad name"),
        pytest.param({**WHOLE, "keys": [{**KEY, "digest": "ab"}]}, "is damaged", id="short digest"),
        pytest.param({**WHOLE, "keys": [{**KEY, "id": "0123ABC\n"}]}, "is damaged", id="bad id"),
    ],
)
def test_a_file_that_is_not_ours_or_not_whole_is_an_error_and_stays_as_it_is(file, content, says):
    content = content if isinstance(content, bytes) else json.dumps(content).encode()
    file.path.write_bytes(content)
    for action in (
        file.read,
        file.secret,
        lambda: keys.add(file, "other", now=NOW),
        lambda: keys.revoke(file, "ci", now=NOW),
        lambda: keys.KeyRing(file),
    ):
        message = error_of(action)
        assert message.startswith(f"{file.path}: {says}") or says in message
        assert SECRET not in message
    assert file.path.read_bytes() == content


def test_the_table_of_damages_starts_from_a_whole_file(file):
    file.path.write_text(json.dumps(WHOLE))
    assert [key.name for key in file.read().keys] == ["ci"]


def test_what_is_no_file_is_an_error_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert error_of(StateFile(tmp_path / "pipe").read).endswith("is not a regular file")
    assert error_of(StateFile(tmp_path).read).endswith("is not a regular file")


def test_a_folder_that_does_not_exist_is_named(tmp_path):
    message = error_of(StateFile(tmp_path / "none" / "state").secret)
    assert message == f"{tmp_path}/none/state: cannot be written: No such file or directory"


def test_a_failed_write_leaves_the_old_content_and_no_temporary_file(file, monkeypatch):
    file.secret()
    before = file.path.read_bytes()

    def no_space(descriptor):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", no_space)
    message = error_of(lambda: keys.add(file, "ci", now=NOW))
    assert message.endswith("cannot be written: No space left on device")
    assert file.path.read_bytes() == before
    assert list(file.path.parent.iterdir()) == [file.path]


def test_a_lock_that_is_never_given_back_ends_in_an_error(tmp_path):
    folder = os.open(tmp_path, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        message = error_of(StateFile(tmp_path / "state", lock_timeout=0).secret)
    finally:
        os.close(folder)
    assert "is locked by another process" in message


def test_an_unchanged_state_is_not_written_again(file):
    file.secret()
    stamp = file.stamp()
    file.update(lambda state: state)
    assert file.stamp() == stamp


ADD = """
import sys
from datetime import UTC, datetime
from looptrap.gateway import keys
from looptrap.gateway.state_file import StateFile
file = StateFile(sys.argv[1], lock_timeout=60)
print("ready", flush=True)
sys.stdin.readline()
for i in range(int(sys.argv[3])):
    print(keys.add(file, f"{sys.argv[2]}{i}", now=datetime.now(UTC))[1])
"""


def test_processes_that_add_keys_at_once_lose_none_and_agree_on_the_secret(file):
    workers, each = 4, 12
    running = [
        subprocess.Popen(
            [sys.executable, "-c", ADD, file.path, f"w{i}-", str(each)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(workers)
    ]
    try:
        for one in running:
            assert one.stdout.readline() == "ready\n"
        for one in running:
            one.stdin.write("go\n")
            one.stdin.flush()
        texts = [text for one in running for text in one.communicate(timeout=60)[0].split()]
    finally:
        for one in running:
            one.kill()
            one.wait()
    assert len(set(texts)) == workers * each
    ring = keys.KeyRing(file)
    assert {ring.find(text.encode()).name for text in texts} == {
        f"w{i}-{n}" for i in range(workers) for n in range(each)
    }


def test_the_variable_wins_over_the_file_and_needs_none(file):
    secret = digest_secret(file, {"LOOPTRAP_SECRET": "any text at all"})
    assert len(secret) == 32
    assert not file.path.exists()
    assert digest_secret(file, {}) == file.secret() != secret


@pytest.mark.parametrize("env", [{}, {"LOOPTRAP_SECRET": ""}], ids=["not set", "empty"])
def test_without_the_variable_the_environment_gives_no_secret(env):
    assert secret_from_env(env) is None


@given(one=st.text(min_size=1), other=st.text(min_size=1))
def test_any_text_makes_a_secret_of_its_own(one, other):
    secrets = [secret_from_env({"LOOPTRAP_SECRET": text}) for text in (one, other)]
    assert [len(secret) for secret in secrets] == [32, 32]
    assert (secrets[0] == secrets[1]) == (one == other)


@given(secret=st.binary(min_size=32, max_size=32))
def test_no_representation_shows_the_secret_or_a_digest(secret):
    state = msgspec.convert({**WHOLE, "secret": base64.b64encode(secret).decode()}, GatewayState)
    shown = repr(state) + str(state) + repr(StateFile("x"))
    assert base64.b64encode(secret).decode() not in shown
    assert repr(secret) not in shown
    assert "abab" not in shown
