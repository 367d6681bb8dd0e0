"""Paths as a lenient server understands them."""

import pytest

from looptrap.dialect.path import folded_path, folded_prefix, normal_path


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        pytest.param("/v1/chat/completions", "/v1/chat/completions", id="plain"),
        pytest.param("/v1/Chat", "/v1/Chat", id="case is kept"),
        pytest.param("/v1/chat/", "/v1/chat", id="a final slash"),
        pytest.param("//v1///chat", "/v1/chat", id="empty segments"),
        pytest.param("/v1/./chat/.", "/v1/chat", id="single dots"),
        pytest.param("/v1/x/../chat", "/v1/chat", id="double dots"),
        pytest.param("/../../v1", "/v1", id="dots beyond the root"),
        pytest.param("/v1;a=b/chat;c", "/v1/chat", id="parameters"),
        pytest.param("/v1%2fch%61t", "/v1/chat", id="escapes"),
        pytest.param("/v1/%252e%252e/v2", "/v2", id="escapes of escapes"),
        pytest.param("/v1\\\\chat", "/v1/chat", id="backslashes"),
        pytest.param("/v1/chat%00%0a ", "/v1/chat", id="what cannot be seen"),
        pytest.param("/v1/chat%3fa=b%23c", "/v1/chat", id="an escaped query"),
        pytest.param("", "/", id="nothing"),
        pytest.param("chat", "/chat", id="no slash at all"),
    ],
)
def test_one_place_has_one_path(path: str, expected: str) -> None:
    assert normal_path(path) == expected


@pytest.mark.parametrize(
    ("prefix", "path", "is_below"),
    [
        ("/v1/", "/V1/Chat", True),
        ("/v1/", "/v1", True),
        ("/v1/", "/v12", False),
        ("/v1/chat", "/v1/chat/completions", True),
        ("/v1/ch", "/v1/%63hat", True),
        ("/v1/chat/", "/v1/chats", False),
        ("/", "/anything", True),
        ("/v1/files", "/v1/x/..//files/f", True),
        ("/v1/files", "/v1/files/../chat", False),
    ],
)
def test_a_prefix_binds_what_is_below_it(prefix: str, path: str, is_below: bool) -> None:
    assert folded_path(path).startswith(folded_prefix(prefix)) is is_below
