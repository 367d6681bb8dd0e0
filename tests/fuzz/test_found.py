"""What fuzzing has found, each once more: inputs that broke a law, and what they meant."""

import logging
import time

import pytest
from fuzz.target import seed
from fuzz.targets import TARGETS

from looptrap.config import load
from looptrap.detect.signals.chant import Chant
from looptrap.dialect.usage_meter import UsageReader
from looptrap.errors import ConfigError
from looptrap.gateway.jwt_verifier import read_key_file as read_keys
from looptrap.retry.classify import classify_answer, classify_event
from looptrap.store.redis.address import parse_store_url
from looptrap.wire.origin import Proxy

DEEP = b'{"error":{"a":' + b"[" * 100_000
FOUND = {
    "usage beside bytes that are no text": ("usage", seed(1, b'{"usage":{"a":"\xff"}}')),
    "an error in bytes that are no text": ("error", seed(9, b'{"error":{"code":"\xed\xa0\x80"}}')),
    "an error that is nested too deeply": ("error", seed(9, DEEP)),
    "keys in bytes that are no text": ("key_file", b'{"keys":[{"kty":"\xff"}]}'),
    "keys that are nested too deeply": ("key_file", DEEP),
    "a status below 100, and a body": ("reply", seed(0, b"HTTP/1.1 000 OK\r\n\r\nhello")),
    "an interim answer with a body": (
        "reply",
        seed(0, b"HTTP/1.1 199 OK\r\nContent-Length: 5\r\n\r\nhello"),
    ),
    "no status behind a good answer": (
        "reply",
        seed(0, b"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 004 No\r\n\r\n"),
    ),
    "a bare CR behind too many headers": (
        "request",
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 9 + b"C: d\r\r\n\r\n",
    ),
    "a map of lists from a store": ("store_reply", b"*2\r\n%1\r\n*0\r\n:1\r\n:2\r\n"),
    "an entry that is nested too deeply": ("store_entry", b'{"x":' + b"[" * 100_000),
    "brackets before an @": ("public", b"[64:a]@"),
    "a marker that is nested too deeply": ("marker", b'{"x":' + b"[" * 100_000),
}


@pytest.mark.parametrize("what", FOUND)
def test_found_once_is_found_no_more(what):
    name, data = FOUND[what]
    logging.disable()
    try:
        TARGETS[name].check(data)
    finally:
        logging.disable(logging.NOTSET)


@pytest.mark.parametrize("body", [b'{"error":{"code":"\xff"}}', DEEP], ids=["no text", "too deep"])
def test_an_error_that_cannot_be_read_is_still_one(body):
    assert classify_answer(503, [], body).bucket == "server"
    assert classify_event(body) is not None


def test_an_answer_that_is_no_text_leaves_nothing_unsettled():
    reader = UsageReader("openai_chat", False)
    reader.feed(b'{"choices":[],"usage":{"prompt_tokens":7,"note":"\xff"}}')
    assert reader.finish() is None


def test_a_key_whose_algorithm_is_no_name_verifies_nothing(tmp_path):
    file = tmp_path / "keys"
    file.write_text('{"keys":[{"kty":"oct","k":"%s","alg":["HS256"]}]}' % ("c2VjcmV0" * 8))
    with pytest.raises(ConfigError, match="no key that could verify"):
        read_keys(str(file))


@pytest.mark.parametrize(
    "url",
    [
        "redis://:s3c/ret@h",
        "redis://:s3c?ret@h",
        "redis+cluster://:s3c/ret@h",
        "rediss://me:s3c/ret@h:6379/0",
        "unix://:s3c?ret@/run/s",
    ],
)
def test_a_password_that_is_not_escaped_is_not_told_in_part(url):
    with pytest.raises(ValueError) as raised:
        parse_store_url(url)
    assert not any(part in str(raised.value) for part in ("s3c", "ret"))


@pytest.mark.parametrize(
    "url", ["http://me:s3cret@proxy:port", "http://me:s3cret/x@proxy", "me:s3cret@"]
)
def test_a_proxy_that_cannot_be_read_keeps_its_password(url):
    with pytest.raises(ValueError) as raised:
        Proxy.of(url)
    assert "s3cret" not in str(raised.value)


def test_stars_in_a_row_are_one(tmp_path):
    file = tmp_path / "looptrap.toml"
    channel = '[[channels]]\nurl = "https://a.example/h"\nevents = ["{}"]\n'
    file.write_text(channel.format("loop." + "*" * 500))
    assert load(file).channels[0].events == ("loop.*",)
    file.write_text(channel.format("*" * 500 + "x"))
    with pytest.raises(ConfigError, match="fits no event"):
        load(file)


def test_fences_that_are_never_closed_cost_no_more_than_other_lines():
    chant = "the very same words are said here once more. " * 60
    plain, fenced = ("word word word\n" * 350 + chant, "~~~~~~~~~~~~~~x\n" * 350 + "~~~\n" + chant)

    def taken(text):
        began = time.thread_time()
        Chant()(text)
        return time.thread_time() - began

    assert min(taken(fenced) for _ in range(5)) <= 20 * min(taken(plain) for _ in range(5))


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ('store = "redis://me:s3c@s3c@h:1"', "redis://me:***@h:1"),
        ('store = "unix://:s3cret@/run/s"', "unix://:***@/run/s"),
        (
            'store = "redis+sentinel://:s3c@h/m?sentinel_password=s3cret&db=1"',
            "redis+sentinel://:***@h/m?sentinel_password=***&db=1",
        ),
        ('[[channels]]\nurl = "https://h.example:8/s3cret?k=s3cret"', "https://h.example/***"),
        ('[[channels]]\nkind = "apprise"\nurl = "discord://s3cret/s3cret"', "discord://***"),
    ],
    ids=["an @ in a password", "a socket", "sentinels", "a webhook", "a service's own"],
)
def test_what_is_in_effect_is_told_without_what_is_secret(tmp_path, setting, shown):
    file = tmp_path / "looptrap.toml"
    file.write_text(setting)
    told = str([value for _, value, _ in load(file).effective()])
    assert shown in told
    assert "s3c" not in told
