"""Files of runs: plain or gzip, line by line, in bounded memory."""

import gzip
import json
import tracemalloc

import pytest

from looptrap.replay import recorded_run
from looptrap.replay.recorded_run import iter_lines


@pytest.mark.parametrize("name", ["runs.jsonl", "runs.jsonl.gz", "runs"])
@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_lines_are_numbered_as_an_editor_does(tmp_path, name, pack):
    path = tmp_path / name
    path.write_bytes(pack(b'{"a":1}\n\n  \n{"b":2}\r\n{"c":3}'))
    found = [(line.number, (line.text or b"").strip()) for line in iter_lines(path)]
    assert found == [(1, b'{"a":1}'), (4, b'{"b":2}'), (5, b'{"c":3}')]


@pytest.mark.parametrize("pack", [bytes, gzip.compress], ids=["plain", "gzip"])
def test_the_last_line_ends_where_the_file_does(tmp_path, pack):
    path = tmp_path / "runs"
    path.write_bytes(pack(b"1\n2\n3\n"))
    positions = [line.position for line in iter_lines(path)]
    assert positions == sorted(positions)
    assert positions[-1] == path.stat().st_size


def test_an_empty_file_has_no_lines(tmp_path):
    (tmp_path / "empty").touch()
    assert list(iter_lines(tmp_path / "empty")) == []


@pytest.mark.parametrize(
    ("size", "is_kept"), [(9, True), (10, True), (11, False), (35, False)], ids=str
)
def test_a_line_that_is_too_long_is_passed_over(tmp_path, monkeypatch, size, is_kept):
    monkeypatch.setattr(recorded_run, "MAX_LINE_BYTES", 10)
    path = tmp_path / "runs"
    path.write_bytes(b"1\n" + b"x" * (size - 1) + b"\n3\n")
    found = [line.text for line in iter_lines(path)]
    assert found == [b"1\n", b"x" * (size - 1) + b"\n" if is_kept else None, b"3\n"]


@pytest.mark.parametrize(
    "damage",
    [lambda packed: packed[:-20], lambda packed: packed[:40] + b"?" * 40 + packed[80:]],
    ids=["cut off", "overwritten"],
)
def test_a_broken_gzip_file_is_an_error(tmp_path, damage):
    path = tmp_path / "runs.gz"
    path.write_bytes(damage(gzip.compress(json.dumps(list(range(9_000))).encode())))
    with pytest.raises(OSError):
        list(iter_lines(path))


def test_memory_does_not_grow_with_the_file(tmp_path):
    path = tmp_path / "runs.gz"
    with gzip.open(path, "wb", compresslevel=1) as packed:
        for _ in range(300):
            packed.write(b'{"messages":"' + b"x" * 100_000 + b'"}\n')
    tracemalloc.start()
    try:
        count = sum(1 for _ in iter_lines(path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert count == 300
    assert peak < 2_000_000
