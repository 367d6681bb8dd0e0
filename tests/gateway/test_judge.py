"""A judge writes notes to the store that it judges by."""

from tests.store.driving import recall
from tests.store.serving import server

from looptrap.gateway.judge import Judge
from looptrap.store.memory import MemoryStore
from looptrap.store.model import Note
from looptrap.store.redis import RedisStore

T = 1_800_000_000.0
KEY = b"\0\1key"


def test_notes_are_written_to_the_memory_of_the_process():
    store = MemoryStore()
    Judge(store).remember([Note(KEY, b"ab", 3), Note(KEY, b"cd", 3)], T)
    assert store.recall([KEY], T) == [b"bcd"]


async def test_notes_are_written_to_a_shared_store_by_the_clock_of_its_server():
    with server() as one:
        store = RedisStore(one.url, timeout=5)
        await store.start()
        Judge(store).remember([Note(KEY, b"ab", 3), Note(KEY, b"cd", 3)], T)
        assert await recall(store, KEY) == ([b"bcd"], False)
        await store.stop()
