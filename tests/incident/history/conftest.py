import pytest
from tests.incident.history.keeping import Clock, opened_history


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def keep(tmp_path, clock):
    """Open histories on the same file, or another; close them in the end."""
    found = []

    def start(path=None, **settings):
        history = opened_history(
            tmp_path / "looptrap.db" if path is None else path, clock=clock, **settings
        )
        found.append(history)
        return history

    yield start
    for history in found:
        history.close()


@pytest.fixture(params=["file", "memory", "postgres"])
def place(request, tmp_path):
    """Return where a history is kept: a file, memory or PostgreSQL."""
    match request.param:
        case "file":
            return tmp_path / "looptrap.db"
        case "memory":
            return ""
        case "postgres":
            return request.getfixturevalue("postgres").new_schema()


@pytest.fixture
def history(keep, place):
    """Open a history in each of these places."""
    return keep(place)
