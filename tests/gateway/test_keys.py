"""Gateway keys: shown once, kept as digests, known again, refused when revoked."""

import os
import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.errors import ConfigError
from looptrap.gateway import keys
from looptrap.gateway.keys import KeyRing
from looptrap.gateway.state_file import StateFile

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


@pytest.fixture
def file(tmp_path):
    return StateFile(tmp_path / "looptrap.state")


def add(file, name, project=""):
    return keys.add(file, name, project=project, now=NOW)[1].encode()


def test_a_key_is_recognisable_and_long_enough(file):
    key, text = keys.add(file, "ci", project="research", now=NOW)
    assert re.fullmatch(r"lt-[0-9a-f]{8}-[A-Za-z0-9_-]{43}", text)
    assert text.startswith(f"lt-{key.id}-")
    assert (key.name, key.project, key.created, key.revoked) == ("ci", "research", NOW, None)


def test_nothing_of_a_keys_secret_rests_in_the_file_or_shows(file):
    key, text = keys.add(file, "ci", now=NOW)
    secret = text.split("-", 2)[2]
    ring = KeyRing(file)
    for shown in (
        file.path.read_text(),
        repr(key),
        repr(file.read()),
        repr(ring),
        repr(vars(ring)),
    ):
        assert secret not in shown
        assert secret[:12] not in shown


def test_every_key_is_found_by_its_own_text(file):
    texts = {name: add(file, name) for name in ("a", "b", "c")}
    ring = KeyRing(file)
    assert {name: ring.find(text).name for name, text in texts.items()} == {
        name: name for name in texts
    }


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(lambda text: text[:-1], id="cut short"),
        pytest.param(lambda text: text + b"x", id="longer"),
        pytest.param(lambda text: text[:12] + b"A" * 43, id="right id, wrong secret"),
        pytest.param(lambda text: b"lt-00000000" + text[11:], id="wrong id, right secret"),
        pytest.param(lambda text: text.upper(), id="upper case"),
        pytest.param(lambda text: b"lt-", id="nothing but the prefix"),
        pytest.param(lambda text: b"", id="empty"),
    ],
)
def test_any_other_text_is_not_a_key(file, wrong):
    text = add(file, "ci")
    ring = KeyRing(file)
    assert ring.find(text) is not None
    assert ring.find(wrong(text)) is None


@given(text=st.binary())
def test_a_ring_without_keys_knows_no_text(text):
    assert KeyRing().find(text) is None
    assert KeyRing().find(b"lt-" + text) is None


@pytest.mark.parametrize("case", ["unknown id", "wrong secret", "right"])
def test_every_look_up_costs_one_digest_and_one_comparison(file, monkeypatch, case):
    text = add(file, "ci")
    ring = KeyRing(file)
    presented = {
        "unknown id": b"lt-ffffffff" + text[11:],
        "wrong secret": text[:-4] + b"----",
        "right": text,
    }[case]
    done = []
    for name in ("_digest", "compare_digest"):
        real = getattr(keys, name)
        monkeypatch.setattr(
            keys, name, lambda *given, real=real, name=name: done.append(name) or real(*given)
        )
    assert (ring.find(presented) is not None) == (case == "right")
    assert done == ["_digest", "compare_digest"]


def test_a_revoked_key_is_known_as_revoked(file):
    text = add(file, "ci")
    later = NOW + timedelta(days=1)
    assert keys.revoke(file, "ci", now=later).revoked == later
    assert KeyRing(file).find(text).revoked == later


def test_a_name_is_free_again_after_its_key_is_revoked(file):
    old = add(file, "ci")
    keys.revoke(file, "ci", now=NOW)
    new = add(file, "ci")
    ring = KeyRing(file)
    assert (ring.find(old).revoked, ring.find(new).revoked) == (NOW, None)
    later = NOW + timedelta(days=1)
    keys.revoke(file, "ci", now=later)
    assert [key.revoked for key in file.read().keys] == [NOW, later]


@pytest.mark.parametrize(
    ("action", "says"),
    [
        (lambda file: add(file, "ci"), 'there is a key named "ci" already: revoke it first'),
        (lambda file: add(file, ""), 'NAME: is the text "", must be a name of letters'),
        (lambda file: add(file, "a b"), 'NAME: is the text "a b", must be a name of letters'),
        (lambda file: add(file, "ci\n"), 'NAME: is the text "ci\\n", must be a name of letters'),
        (lambda file: add(file, "x" * 65), "must be a name of letters"),
        (lambda file: add(file, "new", "a b"), 'project: is the text "a b", must be a name'),
        (lambda file: keys.revoke(file, "cli", now=NOW), 'no key named "cli", did you mean ci?'),
        (lambda file: keys.revoke(file, "old", now=NOW), 'key "old" was revoked on 2026-11-15'),
    ],
    ids=[
        "duplicate", "empty name", "space", "line break", "too long", "bad project", "unknown",
        "revoked already",
    ],
)  # fmt: skip
def test_mistakes_are_one_clear_line_and_change_nothing(file, action, says):
    add(file, "ci")
    add(file, "old")
    keys.revoke(file, "old", now=NOW)
    before = file.path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        action(file)
    assert says in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert file.path.read_bytes() == before


def test_revoking_where_there_is_no_file_makes_none(file):
    with pytest.raises(ConfigError, match=r'no key named "ci": .* does not exist'):
        keys.revoke(file, "ci", now=NOW)
    assert not file.path.exists()


def test_a_key_pasted_as_a_name_is_not_repeated(file):
    text = add(file, "ci").decode()
    for action in (keys.add, keys.revoke):
        with pytest.raises(ConfigError) as caught:
            action(file, text, now=NOW)
        assert text[4:20] not in str(caught.value)


def test_a_clash_of_ids_is_avoided(file, monkeypatch):
    drawn = iter(["00000001", "00000001", "00000002"])
    monkeypatch.setattr(keys.secrets, "token_hex", lambda size: next(drawn))
    add(file, "a")
    add(file, "b")
    assert [key.id for key in file.read().keys] == ["00000001", "00000002"]


class TestRefresh:
    def test_follows_keys_made_and_revoked_by_others(self, file):
        ring = KeyRing(file)
        assert not ring.has_keys
        text = add(file, "ci")
        assert ring.find(text) is None
        assert ring.refresh()
        assert ring.has_keys
        assert ring.find(text).revoked is None
        keys.revoke(file, "ci", now=NOW)
        assert ring.refresh()
        assert ring.find(text).revoked == NOW

    def test_reads_nothing_while_nothing_changed(self, file, monkeypatch):
        add(file, "ci")
        ring = KeyRing(file)
        generation = ring.generation
        monkeypatch.setattr(file, "read_stamped", lambda: pytest.fail("was read again"))
        assert not ring.refresh()
        assert ring.generation == generation

    def test_a_change_raises_the_generation(self, file):
        ring = KeyRing(file)
        before = ring.generation
        add(file, "ci")
        ring.refresh()
        assert ring.generation > before

    @pytest.mark.parametrize("fault", ["gone", "damaged", "a folder now"])
    def test_a_lost_file_is_reported_once_and_the_keys_stay(self, file, fault):
        text = add(file, "ci")
        whole = file.path.read_bytes()
        ring = KeyRing(file)
        file.path.unlink()
        if fault == "damaged":
            file.path.write_bytes(whole[:40])
        elif fault == "a folder now":
            file.path.mkdir()
        with pytest.raises(ConfigError, match=str(file.path)):
            ring.refresh()
        assert not ring.refresh()
        assert ring.has_keys
        assert ring.find(text).name == "ci"

    def test_recovers_when_the_file_is_whole_again(self, file):
        add(file, "ci")
        whole = file.path.read_bytes()
        ring = KeyRing(file)
        file.path.unlink()
        with pytest.raises(ConfigError):
            ring.refresh()
        file.path.write_bytes(whole)
        other = add(file, "other")
        assert ring.refresh()
        assert ring.find(other).name == "other"

    def test_sees_a_change_that_keeps_size_and_time(self, file):
        text = add(file, "ci")
        ring = KeyRing(file)
        status = file.path.stat()
        other = file.path.with_name("other")
        other.write_bytes(file.path.read_bytes().replace(b'"ci"', b'"cd"'))
        os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
        other.replace(file.path)
        assert ring.refresh()
        assert ring.find(text).name == "cd"

    def test_a_ring_without_a_file_has_nothing_to_follow(self):
        assert not KeyRing().refresh()


def test_keys_stay_required_when_the_last_one_is_revoked_or_taken_out(file):
    add(file, "ci")
    keys.revoke(file, "ci", now=NOW)
    ring = KeyRing(file)
    assert ring.has_keys
    ring.replace(())
    assert ring.has_keys


class TestKeysOfASharedStore:
    def test_count_beside_those_of_the_file(self, file, tmp_path):
        shared = StateFile(tmp_path / "shared")
        texts = [add(file, "ci"), add(shared, "ci")]
        ring = KeyRing(file)
        ring.share(shared.read().keys)
        assert [ring.find(text).name for text in texts] == ["ci", "ci"]
        ring.refresh()
        ring.replace(())
        assert [ring.find(text) is not None for text in texts] == [False, True]
        ring.share(())
        assert ring.find(texts[1]) is None
        assert ring.has_keys

    def test_revoked_in_one_place_are_revoked(self, file):
        text = add(file, "ci")
        before = file.read().keys
        keys.revoke(file, "ci", now=NOW)
        after = file.read().keys
        for own, shared in ((before, after), (after, before)):
            ring = KeyRing()
            ring.replace(own)
            ring.share(shared)
            assert ring.find(text).revoked == NOW

    def test_can_be_required_before_they_are_known(self):
        ring = KeyRing()
        before = ring.generation
        ring.require()
        assert ring.has_keys
        assert ring.generation > before


class TestRotation:
    @pytest.mark.parametrize(
        ("after", "is_valid"),
        [(0, True), (59, True), (60, False), (61, False)],
    )
    def test_the_earlier_key_ends_with_the_grace(self, file, after, is_valid):
        now = NOW.timestamp()
        text = add(file, "ci", project="lab")
        keys.rotate(file, "ci", grace=60, now=NOW)
        ring = KeyRing(file, lambda: now)
        now += after
        assert ring.is_revoked(ring.find(text)) is not is_valid

    def test_what_follows_from_a_key_is_void_when_its_grace_ends(self, file):
        now = NOW.timestamp()
        add(file, "ci")
        keys.rotate(file, "ci", grace=60, now=NOW)
        ring = KeyRing(file, lambda: now)
        seen = []
        for _ in range(3):
            ring.expire()
            seen.append(ring.generation)
            now += 40
        assert seen[0] == seen[1] < seen[2]
        ring.expire()
        assert ring.generation == seen[2]

    def test_the_new_key_has_the_name_and_the_project(self, file):
        text = add(file, "ci", project="lab")
        key, other = keys.rotate(file, "ci", now=NOW)
        assert (key.name, key.project, key.revoked) == ("ci", "lab", None)
        assert other.encode() != text
        assert KeyRing(file).find(text).revoked == NOW

    def test_to_revoke_ends_the_grace_too(self, file):
        texts = [add(file, "ci")]
        texts += [keys.rotate(file, "ci", grace=3_600, now=NOW)[1].encode() for _ in range(2)]
        keys.revoke(file, "ci", now=NOW)
        ring = KeyRing(file, NOW.timestamp)
        assert all(ring.is_revoked(ring.find(text)) for text in texts)

    @pytest.mark.parametrize(
        ("name", "says"),
        [("cli", "no key named"), ("old", "was revoked on"), ("lt-x", "begins with lt-")],
    )
    def test_only_a_valid_key_is_replaced(self, file, name, says):
        add(file, "old")
        keys.revoke(file, "old", now=NOW)
        with pytest.raises(ConfigError, match=says):
            keys.rotate(file, name, now=NOW)
