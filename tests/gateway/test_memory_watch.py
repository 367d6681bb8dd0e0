"""The collector's settings: seldom, but never while memory grows."""

import subprocess
import sys

import pytest

from looptrap.gateway.app import MIN_GROWTH_BYTES, MemoryWatch

MB = 1 << 20


@pytest.mark.parametrize(
    ("sizes", "collections"),
    [
        pytest.param([100, 101, 163], 0, id="grows by less than a step"),
        pytest.param([100, 165], 1, id="grows by a step"),
        pytest.param([100, 165, 165, 228], 1, id="only from there on"),
        pytest.param([100, 165, 230, 295], 3, id="step by step"),
        pytest.param([1000, 1100, 1249], 0, id="large: by less than its share"),
        pytest.param([1000, 1251], 1, id="large: by its share"),
    ],
)
def test_everything_is_looked_through_when_the_process_has_grown(sizes, collections):
    size, ran = [sizes[0] * MB], []
    watch = MemoryWatch(lambda: size[0], lambda: ran.append(1))
    for grown in sizes[1:]:
        size[0] = grown * MB
        watch.look()
    assert len(ran) == collections


CIRCLES = """
import asyncio
from looptrap.gateway import app

class Circle:
    def __init__(self):
        self.itself = self
        self.body = b"x" * 1_000_000

async def main():
    app.MEMORY_CHECK_INTERVAL_S = 0.001
    app.tune_gc()
    before = most = app.resident_bytes()
    for _ in range(1_000):
        Circle()
        most = max(most, app.resident_bytes())
        await asyncio.sleep(0.0005)
    print((most - before) >> 20)

asyncio.run(main())
"""


def test_a_thousand_megabytes_in_circles_never_stay_together():
    ran = subprocess.run([sys.executable, "-c", CIRCLES], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < 2 * MIN_GROWTH_BYTES / MB
