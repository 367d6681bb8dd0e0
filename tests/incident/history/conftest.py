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


@pytest.fixture(params=["file", "memory"])
def history(keep, request):
    """Open a history, in a file and in memory."""
    return keep(None if request.param == "file" else "")
