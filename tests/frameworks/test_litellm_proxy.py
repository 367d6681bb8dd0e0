"""LiteLLM's own proxy with Looptrap in it, by the configuration that people deploy."""

import socket
import subprocess
import sys
import time
from collections import deque
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest
import requests
from tests.docs.serving import clean_environment
from tests.frameworks.cast import ENVIRONMENTS, ROOT
from tests.frameworks.scene import ANSWER, EXAMPLES, PASSED, environment, honest, stuck

from looptrap.testing import FakeProvider, Reply, Tokens

pytestmark = [pytest.mark.env("b"), pytest.mark.xdist_group("litellm")]

CONFIG = ROOT / "deploy" / "litellm" / "config.yaml"
KEY = "sk-master"
PATIENCE = 180

BUDGET = """
[[budgets]]
name = "small"
by = ["caller"]
limit_usd = 0.01
period = "1d"
"""


class Proxy:
    """A running proxy, and the provider behind it."""

    def __init__(self, url: str, provider: FakeProvider, folder: Path) -> None:
        self.url = url
        self.provider = provider
        self.folder = folder
        self.script = stuck

    def client(self, **options) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.url}/v1", api_key=KEY, **options)

    def run(self, example: str) -> str:
        """Run an example against the proxy; return its last line."""
        done = subprocess.run(
            [sys.executable, EXAMPLES / example],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=True,
            env={**clean_environment(), **environment(self.url), "OPENAI_API_KEY": KEY},
        )
        return done.stdout.splitlines()[-1]


@contextmanager
def proxy_running(folder: Path, **variables: str):
    """Run `litellm --config` before a provider until the block ends."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    proxy: Proxy
    with FakeProvider.running(lambda received: proxy.script(received)) as provider:
        proxy = Proxy(f"http://127.0.0.1:{port}", provider, folder)
        command = [ENVIRONMENTS / "b" / "bin" / "litellm", "--config", CONFIG]
        log = folder / "log"
        with (
            log.open("wb") as said,
            subprocess.Popen(
                [*command, "--host", "127.0.0.1", "--port", str(port)],
                cwd=folder,
                stdout=said,
                stderr=said,
                env={
                    **clean_environment(),
                    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
                    "LITELLM_MASTER_KEY": KEY,
                    "OPENAI_API_KEY": "sk-provider",
                    "OPENAI_BASE_URL": f"{provider.url}/v1",
                    **variables,
                },
            ) as process,
        ):
            try:
                await_answer(f"{proxy.url}/health/liveliness", process, log)
                yield proxy
            finally:
                process.terminate()
                process.wait(timeout=30)


def await_answer(url: str, process: subprocess.Popen, log: Path) -> None:
    """Wait until somebody answers there."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        assert process.poll() is None, log.read_text("utf-8")
        try:
            if requests.get(url, timeout=5).ok:
                return
        except requests.ConnectionError:
            time.sleep(0.2)
    raise AssertionError(log.read_text("utf-8"))


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    with proxy_running(tmp_path_factory.mktemp("proxy")) as running:
        yield running


def rounds(number: int, part: int) -> list[dict]:
    """Return a conversation in which the same was asked so often, in vain."""
    messages: list[dict] = [{"role": "user", "content": f"Is part {part} in stock?"}]
    for place in range(number):
        function = {"name": "find_part", "arguments": f'{{"number": {part}}}'}
        call = {"id": f"call_{place}", "type": "function", "function": function}
        messages += [
            {"role": "assistant", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"call_{place}", "content": "ERROR: offline"},
        ]
    return messages


def test_a_stuck_agent_is_refused_and_the_provider_is_asked_no_more(proxy):
    before = proxy.provider.calls
    proxy.script = stuck
    told = proxy.run("openai_sdk.py")
    assert told.startswith("stopped: Blocked (recursive_loop_detected): find_part with the same")
    assert proxy.provider.calls - before == PASSED


def test_an_honest_agent_never_notices(proxy):
    before = proxy.provider.calls
    proxy.script = honest()
    assert proxy.run("openai_sdk.py") == f"answer: {ANSWER}"
    assert proxy.provider.calls - before == 4


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_refusal_has_the_code_the_detail_and_the_headers_of_the_gateway(proxy, stream):
    before = proxy.provider.calls
    with pytest.raises(openai.RateLimitError) as caught:
        proxy.client().chat.completions.create(
            model="gpt-5.4-mini", messages=rounds(5, 11 + stream), stream=stream
        )
    error = caught.value
    assert (error.code, error.type) == ("recursive_loop_detected", "loop_detected")
    assert error.body["detail"]["rule"] == "no-progress"
    assert error.response.headers["x-should-retry"] == "false"
    assert error.response.headers["x-looptrap-reason"] == "loop_detected"
    assert int(error.response.headers["retry-after"]) <= 30
    assert proxy.provider.calls == before


def test_a_refusal_of_the_responses_api_is_the_same(proxy):
    items: list[dict] = [{"role": "user", "content": "Is part 21 in stock?"}]
    for place in range(5):
        call = {"call_id": f"c{place}", "name": "find_part", "arguments": '{"number": 21}'}
        items += [
            {"type": "function_call", **call},
            {"type": "function_call_output", "call_id": f"c{place}", "output": "ERROR: offline"},
        ]
    with pytest.raises(openai.RateLimitError, match="find_part") as caught:
        proxy.client().responses.create(model="gpt-5.4-mini", input=items)
    assert caught.value.code == "recursive_loop_detected"


def test_a_refusal_of_the_messages_api_carries_the_detail_too(proxy):
    messages: list[dict] = [{"role": "user", "content": "Is part 31 in stock?"}]
    for place in range(5):
        use = {"type": "tool_use", "id": f"t{place}", "name": "find_part", "input": {"number": 31}}
        result = {"type": "tool_result", "tool_use_id": f"t{place}", "content": "ERROR: offline"}
        messages += [
            {"role": "assistant", "content": [use]},
            {"role": "user", "content": [result]},
        ]
    answer = requests.post(
        f"{proxy.url}/v1/messages",
        json={"model": "claude-opus-4-7", "max_tokens": 100, "messages": messages},
        headers={"x-api-key": KEY, "anthropic-version": "2023-06-01"},
        timeout=60,
    )
    assert answer.status_code == 429
    error = answer.json()["error"]
    assert error["provider_specific_fields"]["detail"]["error"] == "recursive_loop_detected"
    assert answer.headers["x-should-retry"] == "false"


def test_the_same_prompt_is_told_apart_by_the_session_that_litellm_knows(proxy):
    proxy.script = lambda received: Reply.text("hello") if received.call.generates else None
    create = proxy.client().chat.completions.create
    asked = {"model": "gpt-5.4-mini", "messages": [{"role": "user", "content": "Good morning!"}]}
    for number in range(8):
        create(**asked, extra_headers={"x-litellm-session-id": f"run-{number}"})
    for _ in range(5):
        create(**asked, extra_body={"metadata": {"session_id": "run-x"}})
    with pytest.raises(openai.RateLimitError):
        create(**asked, extra_body={"metadata": {"session_id": "run-x"}})


def test_the_same_prompt_without_a_session_is_refused(proxy):
    proxy.script = lambda received: Reply.text("hello") if received.call.generates else None
    create = proxy.client().chat.completions.create
    asked = {"model": "gpt-5.4-mini", "messages": [{"role": "user", "content": "Good evening!"}]}
    for _ in range(5):
        create(**asked)
    with pytest.raises(openai.RateLimitError, match="6 times"):
        create(**asked)


def test_budgets_count_what_litellm_says_a_call_used(tmp_path):
    rules = tmp_path / "looptrap.toml"
    rules.write_text(BUDGET)
    with proxy_running(tmp_path, LOOPTRAP_CONFIG=str(rules)) as proxy:
        proxy.script = lambda received: Reply.text("hello", tokens=Tokens(1000, 1000))
        create = proxy.client().chat.completions.create
        settings = {"model": "gpt-5.4-mini", "max_tokens": 10}
        asked = ({"role": "user", "content": f"Is {number} prime?"} for number in range(100))
        with pytest.raises(openai.APIStatusError) as caught:  # so many pass by what is reserved
            deque((create(**settings, messages=[one]) for one in asked), maxlen=0)
        passed = proxy.provider.calls
        assert (caught.value.status_code, caught.value.code) == (402, "budget_exceeded")
        # LiteLLM tells a hook what was used a moment after the client has its answer.
        assert 2 <= passed < 20
