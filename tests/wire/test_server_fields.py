"""Header fields: what ends at a proxy stays there."""

import pytest

from looptrap.wire.fields import end_to_end, tokens

KEPT = [(b"Content-Type", b"text/event-stream"), (b"X-Request-Id", b"1"), (b"set-cookie", b"a=b")]


@pytest.mark.parametrize(
    "dropped",
    [
        pytest.param([], id="nothing to drop"),
        pytest.param([(b"Content-Length", b"5")], id="length"),
        pytest.param([(b"TRANSFER-ENCODING", b"chunked"), (b"Trailer", b"T")], id="framing"),
        pytest.param(
            [(b"Connection", b"keep-alive"), (b"Keep-Alive", b"timeout=5")], id="persistence"
        ),
        pytest.param(
            [(b"connection", b"Close, X-Hop"), (b"x-hop", b"1")], id="named in Connection"
        ),
        pytest.param(
            [(b"X-Hop", b"1"), (b"Connection", b"close"), (b"Connection", b"\tx-HOP ,")],
            id="named in a second Connection, further down",
        ),
        pytest.param([(b"Upgrade", b"h2c"), (b"Proxy-Authenticate", b"Basic")], id="the rest"),
    ],
)
def test_only_end_to_end_headers_pass(dropped):
    first, *others = KEPT
    kept, names = end_to_end([first, *dropped, *others])
    assert kept == KEPT
    assert len(names) == len(dropped) + len(others) + 1


def test_a_list_is_read_without_case_and_white_space():
    assert tokens(b"Keep-Alive,\tCLOSE , x") == {b"keep-alive", b"close", b"x"}
