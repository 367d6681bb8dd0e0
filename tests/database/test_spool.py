"""The spool: records wait in their order, whatever happens to the process that wrote them."""

import os
import subprocess
import sys
import textwrap

import pytest
from hypothesis import given
from hypothesis import strategies as st

from looptrap.database import spool as spool_module
from looptrap.database.spool import Spool, SpoolFullError

MB = 1 << 20


@pytest.fixture
def spool(tmp_path):
    one = Spool.create(tmp_path / "spool", MB)
    yield one
    one.close()


def files(spool):
    return sorted(one.name for one in spool._folder.iterdir())


def test_records_come_out_in_their_order(spool):
    numbers = [spool.append(b"%d" % n) for n in range(5)]
    assert numbers == [1, 2, 3, 4, 5]
    assert spool.first(3, MB) == [(1, b"0"), (2, b"1"), (3, b"2")]
    assert spool.first(100, 2) == [(1, b"0"), (2, b"1")]
    spool.drop(3)
    assert spool.first(100, MB) == [(4, b"3"), (5, b"4")]
    assert spool.waiting == 2


def test_a_large_record_comes_alone(spool):
    spool.append(b"x" * 1000)
    spool.append(b"y")
    assert [number for number, _ in spool.first(10, 10)] == [1]


def test_an_empty_spool_takes_no_room(spool):
    for n in range(3):
        spool.append(b"x" * 100)
        spool.drop(n + 1)
    assert (spool.size, spool.waiting) == (0, 0)
    assert spool.first(10, MB) == []
    assert sum(one.stat().st_size for one in spool._folder.iterdir()) == 0


def test_only_the_owner_can_read_it(spool):
    spool.append(b"x")
    assert spool._folder.stat().st_mode & 0o077 == 0
    assert all(one.stat().st_mode & 0o077 == 0 for one in spool._folder.iterdir())


def test_beyond_its_size_nothing_is_taken(tmp_path):
    spool = Spool.create(tmp_path, 1000)
    spool.append(b"x" * 900)
    with pytest.raises(SpoolFullError):
        spool.append(b"y" * 200)
    assert spool.waiting == 1
    spool.drop(1)
    assert spool.append(b"y" * 200) == 2
    spool.close()


def test_a_record_larger_than_the_spool_waits_alone(tmp_path):
    spool = Spool.create(tmp_path, 1000)
    assert spool.append(b"x" * 2000) == 1
    with pytest.raises(SpoolFullError):
        spool.append(b"y")
    spool.drop(1)
    assert spool.append(b"y") == 2
    spool.close()


def test_many_records_are_in_several_files_and_these_go(tmp_path, monkeypatch):
    monkeypatch.setattr(spool_module, "SEGMENT_BYTES", 200)
    spool = Spool.create(tmp_path, MB)
    for n in range(50):
        spool.append(b"%50d" % n)
    assert len(files(spool)) > 10
    seen = []
    while records := spool.first(7, MB):
        seen += [int(record) for _, record in records]
        spool.drop(records[-1][0])
    assert seen == list(range(50))
    assert len(files(spool)) <= 2
    spool.close()
    assert files(spool) == []


def test_what_a_process_leaves_is_taken_over_once_it_has_ended(tmp_path):
    first = Spool.create(tmp_path, MB)
    first.append(b"one")
    first.append(b"two")
    assert list(Spool.abandoned(tmp_path)) == []
    first.close()
    [again] = Spool.abandoned(tmp_path)
    assert (again.id, again.waiting) == (first.id, 2)
    assert again.first(10, MB) == [(1, b"one"), (2, b"two")]
    assert list(Spool.abandoned(tmp_path)) == []
    again.drop(2)
    again.close()
    assert list(tmp_path.iterdir()) == []


KILLED = """
    import os, signal, sys
    from pathlib import Path
    from looptrap.database.spool import Spool
    spool = Spool.create(Path(sys.argv[1]), 1 << 20)
    for n in range(10):
        spool.append(b"%d" % n)
    spool.drop(3)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_process_loses_nothing(tmp_path):
    subprocess.run([sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path)], timeout=60)
    [left] = Spool.abandoned(tmp_path)
    # Those that were taken come again: the database knows their numbers.
    assert left.first(100, MB)[-7:] == [(n + 1, b"%d" % n) for n in range(3, 10)]
    left.close()


@pytest.mark.parametrize("cut", [1, 10, 17, 30])
def test_of_a_torn_last_record_the_others_stay(tmp_path, cut):
    spool = Spool.create(tmp_path, MB)
    for n in range(3):
        spool.append(b"%20d" % n)
    [path] = tmp_path.glob("*.spool")
    spool.close()
    os.truncate(path, path.stat().st_size - cut)
    [left] = Spool.abandoned(tmp_path)
    assert [int(record) for _, record in left.first(10, MB)] == [0, 1]
    assert (left.waiting, left.damaged) == (2, 1)
    left.drop(2)
    left.close()


def test_a_damaged_record_is_left_out(tmp_path):
    spool = Spool.create(tmp_path, MB)
    for n in range(3):
        spool.append(b"%20d" % n)
    [path] = tmp_path.glob("*.spool")
    spool.close()
    content = bytearray(path.read_bytes())
    content[16 + 20 + 16 + 5] ^= 1
    path.write_bytes(content)
    [left] = Spool.abandoned(tmp_path)
    assert [int(record) for _, record in left.first(10, MB)] == [0, 2]
    assert left.damaged == 1
    left.close()


@pytest.mark.parametrize("left", [0, 5, 25], ids=["emptied", "in a header", "in a record"])
def test_after_somebody_has_cut_its_file_the_rest_goes_through(spool, left):
    for n in range(2):
        spool.append(b"%40d" % n)
    [path] = spool._folder.glob("*.spool")
    os.truncate(path, left)
    assert spool.append(b"later") == 3
    assert spool.first(10, MB) == [(3, b"later")]
    spool.drop(3)
    assert spool.first(10, MB) == []
    assert (spool.waiting, spool.damaged) == (0, 2)
    assert spool.append(b"again") == 4
    assert spool.first(10, MB) == [(4, b"again")]


def test_what_cannot_be_read_is_left_and_the_others_are_taken_over(tmp_path):
    for name in ("aa", "bb", "cc"):
        spool = Spool.create(tmp_path, MB)
        spool.append(name.encode())
        spool.close()
    unlockable, unreadable, fine = sorted(tmp_path.glob("*.lock"))
    unlockable.unlink()
    unlockable.mkdir()
    segment = next(tmp_path.glob(f"{unreadable.stem}.*.spool"))
    segment.unlink()
    segment.mkdir()
    errors = []
    [left] = Spool.abandoned(tmp_path, errors.append)
    assert (left.id, left.waiting) == (fine.stem, 1)
    assert {error.filename for error in errors} == {str(unlockable), str(segment)}
    left.close()


def test_a_full_disk_leaves_the_spool_whole(spool, monkeypatch):
    spool.append(b"one")
    whole = os.pwrite

    def half(file, content, offset):
        return whole(file, content[: len(content) // 2], offset)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwrite", half)
        with pytest.raises(OSError, match="No space left"):
            spool.append(b"two")
    spool.append(b"three")
    assert spool.first(10, MB) == [(1, b"one"), (2, b"three")]


@given(st.lists(st.one_of(st.binary(min_size=1, max_size=300), st.integers(1, 5)), max_size=60))
def test_it_is_a_queue(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("spool")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(spool_module, "SEGMENT_BYTES", 400)
        spool, expected = Spool.create(folder, MB), []
        for step in steps:
            if isinstance(step, bytes):
                expected.append((spool.append(step), step))
            elif expected:
                taken = expected[:step]
                assert spool.first(step, MB) == taken
                spool.drop(taken[-1][0])
                del expected[:step]
            assert spool.waiting == len(expected)
        assert spool.first(1000, MB) == expected
        spool.close()
