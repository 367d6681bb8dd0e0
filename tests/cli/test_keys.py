"""`looptrap keys`: a key is printed once, listed without its secret, and revoked by name."""

import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.store.sentinels import PASSWORD, sentinel_group
from tests.store.serving import free_port, server

from looptrap.cli import main
from looptrap.config.gateway import GatewaySettings
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.state_file import StateFile

LOOPTRAP = Path(sys.executable).with_name("looptrap")


@pytest.fixture
def keys(tmp_path):
    state = str(tmp_path / "state")

    def run(*arguments):
        return CliRunner().invoke(main, ["keys", *arguments, "--state", state])

    run.file = StateFile(state)
    return run


def added(result):
    assert result.exit_code == 0, result.stderr
    return result.stdout.strip()


def test_add_prints_the_key_alone_on_standard_output(keys):
    result = keys("add", "ci", "--project", "research")
    key = KeyRing(keys.file).find(added(result).encode())
    assert (key.name, key.project) == ("ci", "research")
    assert result.stdout.count("\n") == 1
    assert "Copy the key now" in result.stderr
    assert stat.S_IMODE(keys.file.path.stat().st_mode) == 0o600


def test_list_shows_every_key_and_no_secret(keys):
    texts = [added(keys("add", "ci", "--project", "research")), added(keys("add", "laptop"))]
    keys("revoke", "laptop")
    lines = keys("list").stdout.splitlines()
    assert lines[0].split() == ["NAME", "ID", "PROJECT", "CREATED", "(UTC)", "STATUS"]
    assert [line.split()[:3] for line in lines[1:]] == [
        ["ci", texts[0][3:11], "research"],
        ["laptop", texts[1][3:11], "–"],
    ]
    assert lines[1].endswith("active")
    assert "revoked 20" in lines[2]
    starts = [line.index(part) for line, part in zip(lines, ("ID", texts[0][3:11]), strict=False)]
    assert starts[0] == starts[1], "columns are aligned"
    for text in texts:
        assert text[12:] not in "".join(lines)


def test_json_is_for_programs(keys):
    made = json.loads(keys("add", "ci", "--json").stdout)
    text = made.pop("key")
    assert text.startswith(f"lt-{made['id']}-")
    assert json.loads(keys("list", "--json").stdout) == [made]
    revoked = json.loads(keys("revoke", "ci", "--json").stdout)
    assert revoked["revoked"] is not None
    assert json.loads(keys("list", "--json").stdout) == [revoked]
    assert set(revoked) == {"name", "id", "project", "created", "revoked"}


def test_an_empty_list_says_what_to_do_and_makes_no_file(keys):
    result = keys("list")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "looptrap keys add NAME" in result.stderr
    assert json.loads(keys("list", "--json").stdout) == []
    assert not keys.file.path.exists()


def test_a_revoked_key_is_refused(keys):
    text = added(keys("add", "ci"))
    result = keys("revoke", "ci")
    assert result.exit_code == 0
    assert result.stdout == f"Key ci ({text[3:11]}) is revoked.\n"
    assert KeyRing(keys.file).find(text.encode()).revoked is not None


def test_rotate_prints_another_key_and_may_leave_the_earlier_one_valid(keys):
    first = added(keys("add", "ci", "--project", "research"))
    result = keys("rotate", "ci", "--grace", "3600")
    second = added(result)
    assert "stays valid for 3600 seconds" in result.stderr
    lines = keys("list").stdout.splitlines()
    assert "valid until 20" in lines[1]
    assert lines[2].endswith("active")
    third = json.loads(keys("rotate", "ci", "--json").stdout)
    assert (third["name"], third["project"]) == ("ci", "research")
    ring = KeyRing(keys.file)
    assert [ring.is_revoked(ring.find(one.encode())) for one in (first, second)] == [True, True]
    assert ring.find(third["key"].encode()).revoked is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["rotate", "cli"], 'there is no key named "cli", did you mean ci?'),
        (["add", "ci"], 'there is a key named "ci" already: revoke it first'),
        (["add", "no spaces"], 'NAME: is the text "no spaces", must be a name of'),
        (["add", "x", "--project", "a b"], 'project: is the text "a b", must be a name of'),
        (["revoke", "cli"], 'there is no key named "cli", did you mean ci?'),
        (["revoke", "lt-0123abcd-secret"], "NAME: begins with lt-, as only keys themselves do"),
    ],
    ids=[
        "nothing to rotate",
        "duplicate",
        "bad name",
        "bad project",
        "unknown",
        "a key instead of its name",
    ],
)
def test_mistakes_are_one_line_and_exit_2(keys, arguments, says):
    keys("add", "ci")
    result = keys(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(says)
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", [["add", "x"], ["list"], ["revoke", "x"]], ids=lambda c: c[0])
def test_a_foreign_file_is_one_line_and_stays(keys, command):
    keys.file.path.write_text("precious")
    result = keys(*command)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(f"{keys.file.path}: is not a Looptrap state file")
    assert result.stderr.count("\n") == 1
    assert keys.file.path.read_text() == "precious"


def test_list_warns_of_a_file_that_others_can_open(keys):
    keys("add", "ci")
    assert keys("list").stderr == ""
    keys.file.path.chmod(0o640)
    result = keys("list")
    assert result.exit_code == 0
    assert result.stderr.startswith(f"warning: {keys.file.path}: open to others (mode 0640)")


def test_the_help_names_the_file_that_the_gateway_uses():
    for command in ("add", "list", "revoke"):
        shown = CliRunner().invoke(main, ["keys", command, "--help"]).stdout
        assert f"[{GatewaySettings().state}]" in " ".join(shown.split())


def test_the_installed_command_keeps_keys_in_the_working_folder(tmp_path):
    def run(*arguments):
        return subprocess.run(
            [LOOPTRAP, "keys", *arguments],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    text = run("add", "ci").stdout.strip()
    assert list(tmp_path.iterdir()) == [tmp_path / GatewaySettings().state]
    assert KeyRing(StateFile(tmp_path / GatewaySettings().state)).find(text.encode()).name == "ci"
    assert "active" in run("list").stdout
    assert run("revoke", "ci").returncode == 0
    again = run("revoke", "ci")
    assert again.returncode == 2
    assert "Traceback" not in again.stderr


@pytest.fixture(scope="module")
def valkey():
    with server() as one:
        yield one


class TestInASharedStore:
    @pytest.fixture
    def shared(self, valkey):
        def run(*arguments, **options):
            return CliRunner().invoke(main, ["keys", *arguments, "--store", valkey.url], **options)

        yield run
        valkey.client().flushall()

    def test_a_key_is_added_listed_and_revoked(self, shared, valkey):
        result = shared("add", "ci", "--project", "research")
        text = added(result)
        assert f"The digest of key ci is in the store {valkey.url}" in result.stderr
        assert [one["name"] for one in json.loads(shared("list", "--json").stdout)] == ["ci"]
        assert "research" in shared("list").stdout
        assert shared("revoke", "ci").stdout == f"Key ci ({text[3:11]}) is revoked.\n"
        assert "revoked" in shared("list").stdout
        assert added(shared("add", "ci")) != text

    @pytest.mark.parametrize(
        ("arguments", "says"),
        [
            (["add", "ci"], 'there is a key named "ci" already: revoke it first'),
            (["add", "no spaces"], 'NAME: is the text "no spaces", must be a name of'),
            (["add", "x", "--project", "a b"], 'project: is the text "a b", must be a name of'),
            (["revoke", "cli"], 'there is no key named "cli", did you mean ci?'),
            (["list", "--state", "x"], "--state and --store: give one or the other"),
        ],
        ids=["duplicate", "bad name", "bad project", "unknown", "two places"],
    )
    def test_mistakes_are_one_line_and_exit_2(self, shared, arguments, says):
        shared("add", "ci")
        result = shared(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert result.stderr.startswith(says)
        assert result.stderr.count("\n") == 1

    def test_an_empty_store_says_what_to_do(self, shared):
        result = shared("list")
        assert (result.exit_code, result.stdout) == (0, "")
        assert "looptrap keys add NAME" in result.stderr

    def test_the_gateways_variable_names_it_too_and_a_named_file_wins(self, keys, valkey):
        env = {"LOOPTRAP_STORE": valkey.url}
        CliRunner().invoke(main, ["keys", "add", "there"], env=env)
        listed = CliRunner().invoke(main, ["keys", "list", "--json"], env=env)
        assert [one["name"] for one in json.loads(listed.stdout)] == ["there"]
        state = ["--state", str(keys.file.path)]
        CliRunner().invoke(main, ["keys", "add", "here", *state], env=env)
        assert [key.name for key in keys.file.read().keys] == ["here"]
        valkey.client().flushall()


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("http://x", "--store: the store's URL begins with 'http://'"),
        ("redis://:s3cret@127.0.0.1:{}", "the store redis://:***@127.0.0.1:{}: cannot connect"),
    ],
    ids=["no store's URL", "nobody there"],
)
def test_a_store_that_cannot_be_reached_is_one_line(url, says):
    port = free_port()
    url, says = url.format(port), says.format(port)
    result = CliRunner().invoke(main, ["keys", "add", "ci", "--store", url])
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(says)
    assert result.stderr.count("\n") == 1
    assert "s3cret" not in result.stderr


def test_a_store_with_sentinels_that_cannot_be_reached_is_one_line_too():
    url = f"redis+sentinel://:s3cret@127.0.0.1:{free_port()}/main"
    result = CliRunner().invoke(main, ["keys", "add", "ci", "--store", url])
    assert (result.exit_code, result.stdout) == (2, "")
    assert "no sentinel knows 'main'" in result.stderr
    assert result.stderr.count("\n") == 1
    assert "s3cret" not in result.stderr


@pytest.mark.slow
def test_keys_are_in_the_primary_that_sentinels_name():
    with sentinel_group() as group:
        added(CliRunner().invoke(main, ["keys", "add", "ci", "--store", group.url]))
        with group.servers[0].client(password=PASSWORD) as primary:
            assert primary.dbsize() > 0


def test_keys_are_where_the_configuration_of_the_gateway_says(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("looptrap.toml").write_text("[gateway]\nstate = 'there.state'\n")
    result = CliRunner().invoke(main, ["keys", "add", "ci", "--config", "looptrap.toml"])
    added(result)
    assert "there.state" in result.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["looptrap.toml", "there.state"]


def test_a_shared_store_of_the_configuration_has_the_keys(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("looptrap.toml").write_text(f"store = 'redis://127.0.0.1:{free_port()}'\n")
    result = CliRunner().invoke(main, ["keys", "list", "--config", "looptrap.toml"])
    assert result.exit_code == 2
    assert "the store redis://127.0.0.1:" in result.stderr
    assert "nothing was changed" in result.stderr


def test_a_mistake_in_the_configuration_is_said(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("looptrap.toml").write_text("store = 7\n")
    result = CliRunner().invoke(main, ["keys", "list", "--config", "looptrap.toml"])
    assert (result.exit_code, result.stderr.startswith("store: is 7")) == (2, True)
