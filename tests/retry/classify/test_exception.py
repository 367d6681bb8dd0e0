"""Exceptions of HTTP libraries and of Python's own network."""

import asyncio
import concurrent.futures
import errno
import http.client
import json
import socket
import ssl
import urllib.error
from email.message import Message

import aiohttp
import httpx2
import openai
import pytest
import requests
from yarl import URL

from looptrap.retry.classify import classify

REQUEST = httpx2.Request("POST", "https://api.example.com/v1/chat/completions")


def answer(status, body=None, headers=None):
    return httpx2.Response(status, json=body, headers=headers, request=REQUEST)


def made(package, name, *ancestors):
    """An exception class of that name, as if that package were installed."""
    bases = (made(package, *ancestors),) if ancestors else (Exception,)
    return type(name, bases, {"__module__": f"{package}._exceptions"})


def caused(error, cause):
    error.__cause__ = cause
    return error


def connector(cls, error):
    key = aiohttp.client_reqrep.ConnectionKey("h", 443, True, True, None, None, None)
    return cls(key, error)


def requested(status, body=b"", headers=None):
    response = requests.Response()
    response.status_code = status
    response._content = body
    response.headers.update(headers or {})
    return requests.HTTPError("no", response=response)


def client_response(status, headers=None):
    info = aiohttp.RequestInfo(URL("http://h/"), "POST", headers or {}, URL("http://h/"))
    return aiohttp.ClientResponseError(info, (), status=status, message="no", headers=headers)


def url_answered(status, retry_after):
    headers = Message()
    headers["Retry-After"] = retry_after
    return urllib.error.HTTPError("http://h/", status, "no", headers, None)


QUOTA = {"error": {"message": "no", "type": "insufficient_quota", "code": "insufficient_quota"}}


@pytest.mark.parametrize(
    ("error", "bucket", "reason", "trips"),
    [
        # httpx2, and httpx by its names
        *(
            pytest.param(cls("no"), bucket, reason, trips, id=f"httpx2 {cls.__name__}")
            for cls, bucket, reason, trips in [
                (httpx2.ConnectError, "server", "connection", "provider"),
                (httpx2.ReadError, "server", "dropped", "provider"),
                (httpx2.WriteError, "server", "connection", "provider"),
                (httpx2.RemoteProtocolError, "server", "dropped", "provider"),
                (httpx2.ProxyError, "server", "connection", "provider"),
                (httpx2.ConnectTimeout, "server", "timeout", "provider"),
                (httpx2.ReadTimeout, "server", "timeout", "provider"),
                (httpx2.WriteTimeout, "server", "timeout", "provider"),
                (httpx2.PoolTimeout, "server", "busy", ""),
                (httpx2.DecodingError, "server", "protocol", "provider"),
                (httpx2.LocalProtocolError, "permanent", "bad_request", ""),
                (httpx2.UnsupportedProtocol, "permanent", "bad_request", ""),
                (httpx2.InvalidURL, "permanent", "bad_request", ""),
            ]
        ),
        pytest.param(
            httpx2.HTTPStatusError("no", request=REQUEST, response=answer(503)),
            "server",
            "http_503",
            "provider",
            id="httpx2 HTTPStatusError",
        ),
        pytest.param(
            httpx2.HTTPStatusError("no", request=REQUEST, response=answer(429, QUOTA)),
            "permanent",
            "insufficient_quota",
            "credential",
            id="httpx2, quota in the body",
        ),
        *(
            pytest.param(
                made("httpx", *line)("no"), "server", reason, "provider", id=f"httpx {line[0]}"
            )
            for line, reason in [
                (("ConnectError", "NetworkError", "TransportError"), "connection"),
                (("ReadError", "NetworkError", "TransportError"), "dropped"),
                (("ReadTimeout", "TimeoutException", "TransportError"), "timeout"),
                (("RemoteProtocolError", "ProtocolError", "TransportError"), "dropped"),
            ]
        ),
        # requests
        pytest.param(requested(502), "server", "http_502", "provider", id="requests 502"),
        pytest.param(
            requested(429, json.dumps(QUOTA).encode()),
            "permanent",
            "insufficient_quota",
            "credential",
            id="requests, quota",
        ),
        *(
            pytest.param(cls("no"), bucket, reason, trips, id=f"requests {cls.__name__}")
            for cls, bucket, reason, trips in [
                (requests.ConnectionError, "server", "connection", "provider"),
                (requests.ConnectTimeout, "server", "timeout", "provider"),
                (requests.ReadTimeout, "server", "timeout", "provider"),
                (requests.exceptions.ChunkedEncodingError, "server", "dropped", "provider"),
                (requests.exceptions.SSLError, "server", "connection", "provider"),
                (requests.exceptions.MissingSchema, "permanent", "bad_request", ""),
                (requests.TooManyRedirects, "permanent", "bad_request", ""),
            ]
        ),
        pytest.param(
            requests.JSONDecodeError("no", "x", 0),
            "permanent",
            "bad_output",
            "",
            id="requests JSON",
        ),
        # aiohttp
        pytest.param(client_response(503), "server", "http_503", "provider", id="aiohttp 503"),
        pytest.param(client_response(401), "permanent", "http_401", "", id="aiohttp 401"),
        pytest.param(
            aiohttp.ServerDisconnectedError(), "server", "dropped", "provider", id="disconnected"
        ),
        pytest.param(
            aiohttp.ClientPayloadError("cut"), "server", "dropped", "provider", id="payload"
        ),
        pytest.param(
            aiohttp.ServerTimeoutError(), "server", "timeout", "provider", id="aiohttp timeout"
        ),
        pytest.param(
            aiohttp.SocketTimeoutError(), "server", "timeout", "provider", id="aiohttp socket"
        ),
        pytest.param(
            aiohttp.ClientConnectionResetError("no"),
            "server",
            "connection",
            "provider",
            id="aiohttp reset",
        ),
        pytest.param(
            connector(aiohttp.ClientConnectorError, OSError(111, "refused")),
            "server",
            "connection",
            "provider",
            id="aiohttp refused",
        ),
        pytest.param(
            connector(aiohttp.ClientConnectorCertificateError, ssl.CertificateError("no")),
            "permanent",
            "tls",
            "",
            id="aiohttp certificate",
        ),
        pytest.param(aiohttp.InvalidURL("x"), "permanent", "bad_request", "", id="aiohttp URL"),
        # Python
        pytest.param(ConnectionRefusedError(), "server", "connection", "provider", id="refused"),
        pytest.param(ConnectionResetError(), "server", "connection", "provider", id="reset"),
        pytest.param(BrokenPipeError(), "server", "connection", "provider", id="pipe"),
        pytest.param(TimeoutError(), "server", "timeout", "provider", id="TimeoutError"),
        pytest.param(
            concurrent.futures.TimeoutError(), "server", "timeout", "provider", id="futures'"
        ),
        pytest.param(socket.gaierror(-2, "no"), "server", "connection", "provider", id="DNS"),
        pytest.param(
            OSError(errno.EHOSTUNREACH, "no"), "server", "connection", "provider", id="unreachable"
        ),
        pytest.param(
            asyncio.IncompleteReadError(b"", 1), "server", "dropped", "provider", id="incomplete"
        ),
        pytest.param(
            http.client.IncompleteRead(b""), "server", "dropped", "provider", id="http.client cut"
        ),
        pytest.param(
            http.client.RemoteDisconnected(), "server", "dropped", "provider", id="http.client end"
        ),
        pytest.param(
            http.client.BadStatusLine("x"), "server", "protocol", "provider", id="http.client line"
        ),
        pytest.param(url_answered(503, "2"), "server", "http_503", "provider", id="urllib 503"),
        pytest.param(
            urllib.error.URLError(ConnectionRefusedError()),
            "server",
            "connection",
            "provider",
            id="urllib refused",
        ),
        pytest.param(
            urllib.error.URLError(TimeoutError()), "server", "timeout", "provider", id="urllib late"
        ),
        pytest.param(
            urllib.error.URLError(ssl.SSLCertVerificationError(1, "no")),
            "permanent",
            "tls",
            "",
            id="urllib certificate",
        ),
        pytest.param(ssl.SSLError(1, "no"), "server", "connection", "provider", id="TLS, cut"),
        pytest.param(ssl.SSLCertVerificationError(1, "no"), "permanent", "tls", "", id="TLS, bad"),
        pytest.param(
            caused(
                openai.APIConnectionError(request=REQUEST),
                caused(httpx2.ConnectError("no"), ssl.SSLCertVerificationError(1, "no")),
            ),
            "permanent",
            "tls",
            "",
            id="a certificate, wrapped twice",
        ),
    ],
)
def test_the_exception_of_a_library(error, bucket, reason, trips):
    failure = classify(error)
    assert (failure.bucket, failure.reason, failure.trips) == (bucket, reason, trips)
    assert failure.is_timeout is (reason == "timeout")


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(requested(429, b"", {"Retry-After": "1.5"}), id="requests"),
        pytest.param(client_response(429, {"Retry-After": "1.5"}), id="aiohttp"),
        pytest.param(url_answered(429, "1.5"), id="urllib"),
    ],
)
def test_every_library_tells_when_to_come_again(error):
    assert classify(error).retry_after == 1.5


def test_an_answer_whose_body_was_never_read_is_classified_without_it():
    streamed = httpx2.Response(503, stream=httpx2.ByteStream(b"{}"), request=REQUEST)
    error = httpx2.HTTPStatusError("no", request=REQUEST, response=streamed)
    assert classify(error).reason == "http_503"
