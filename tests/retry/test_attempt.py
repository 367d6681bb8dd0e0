"""One owner of retries: what runs inside an attempt makes one of its own."""

import asyncio
import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from tests.retry.failing import Answer, Fake, down

from looptrap.errors import GiveUp
from looptrap.retry import RetryPolicy, Turn, attempts, call, retrying, testing
from looptrap.retry.turn import current_turn


def by_decorator(fn):
    return retrying(RetryPolicy())(fn)


def by_loop(fn):
    def looped():
        for attempt in attempts(RetryPolicy()):
            with attempt:
                return fn()
        return None

    return looped


def by_turn(fn):
    def turned():
        with Turn() as turn:
            return turn.call(fn)

    return turned


LAYERS = [by_decorator, by_loop, by_turn]


@pytest.mark.parametrize("outer", LAYERS, ids=lambda layer: layer.__name__)
@pytest.mark.parametrize("middle", LAYERS, ids=lambda layer: layer.__name__)
@pytest.mark.parametrize("inner", LAYERS, ids=lambda layer: layer.__name__)
def test_three_layers_of_retries_make_three_attempts_at_the_leaf(outer, middle, inner):
    leaf = Fake(always=down())
    with testing(), pytest.raises((Answer, GiveUp)):
        outer(middle(inner(leaf)))()
    assert leaf.calls == 3


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)
def test_the_owner_still_succeeds_where_a_retry_helps(layer):
    leaf = Fake(down(), down())
    with testing():
        assert layer(layer(layer(leaf)))() == "answer"
    assert leaf.calls == 3


async def test_three_asynchronous_layers_make_three_attempts_at_the_leaf():
    leaf = Fake(always=down())

    async def c():
        async with Turn() as turn:
            return await turn.call(leaf.later)

    @retrying
    async def b():
        return await c()

    async def a():
        async with Turn() as turn:
            return await turn.call(b)

    with testing(), pytest.raises(GiveUp) as raised:
        await a()
    assert leaf.calls == 3
    assert (raised.value.marker.attempts, raised.value.marker.reason) == (3, "http_503")


async def test_tasks_inside_an_attempt_leave_retries_to_it():
    leaf = Fake(always=down())

    @retrying
    async def together():
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(call(leaf.later))

    with testing(), pytest.raises(ExceptionGroup):
        await together()
    assert leaf.calls == 3


async def test_a_task_that_outlives_the_attempt_retries_for_itself():
    leaf = Fake(down())
    go = asyncio.Event()

    async def later():
        await go.wait()
        return await call(leaf.later)

    @retrying
    async def start():
        return asyncio.create_task(later())

    with testing():
        task = await start()
        go.set()
        assert await task == "answer"
    assert leaf.calls == 2


def test_after_an_attempt_others_retry_again():
    with testing():
        assert call(Fake(down())) == "answer"
        assert call(Fake(down())) == "answer"


class Hop:
    """A server whose answer is what its handler returns, or the status of what that raises."""

    def __init__(self, handle):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                try:
                    with testing():
                        status, body = 200, handle(self.headers)
                except Answer as error:
                    status, body = error.status_code, ""
                answer = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_args):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = False
        self._thread = threading.Thread(target=self._server.serve_forever)

    def get(self):
        """Ask it, as a part of the current turn."""
        url = f"http://127.0.0.1:{self._server.server_port}/"
        turn = current_turn()
        request = urllib.request.Request(url, headers=turn.headers() if turn else {})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return json.load(answer)
        except urllib.error.HTTPError as error:
            error.close()
            raise Answer(error.code) from None

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_error):
        self._server.shutdown()
        self._thread.join(20)
        self._server.server_close()


def test_agents_that_call_each_other_over_http_make_three_attempts_at_the_leaf():
    leaf = Fake(always=down())

    def c(headers):
        with Turn.from_headers(headers) as turn:
            return turn.call(leaf)

    def b(headers):
        with Turn.from_headers(headers) as turn:
            return turn.call(hop_c.get)

    def a():
        with Turn(id="a-b-c") as turn:
            turn.call(hop_b.get)

    with Hop(c) as hop_c, Hop(b) as hop_b, testing(), pytest.raises(GiveUp) as raised:
        a()
    assert leaf.calls == 3
    assert (raised.value.marker.turn, raised.value.marker.attempts) == ("a-b-c", 3)


def test_without_the_headers_they_would_make_27():
    leaf = Fake(always=down())

    def c(_headers):
        return call(leaf)

    def b(_headers):
        return call(hop_c.get)

    with Hop(c) as hop_c, Hop(b) as hop_b, testing(), pytest.raises(Answer):
        call(hop_b.get)
    assert leaf.calls == 27
