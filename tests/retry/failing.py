"""Functions that fail as a test says, and count how often they were called."""

from collections import deque


class Answer(Exception):
    """An error with a status, as HTTP clients raise them."""

    def __init__(self, status, **headers):
        super().__init__(f"status {status}")
        self.status_code = status
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class Fake:
    """Raises what it was given, one after the other, then answers; counts its calls."""

    def __init__(self, *errors, answer="answer", always=None):
        self._errors = deque(errors)
        self._answer = answer
        self._always = always
        self.calls = 0
        self.got = []

    def __call__(self, *args, **kwargs):
        self.calls += 1
        self.got.append((args, kwargs))
        if self._errors:
            raise self._errors.popleft()
        if self._always is not None:
            raise self._always
        return self._answer

    async def later(self, *args, **kwargs):
        """Do the same asynchronously."""
        return self(*args, **kwargs)


def down():
    """Return the error of a server that is down."""
    return Answer(503)


def forbidden():
    """Return an error that no retry helps against."""
    return Answer(403)
