"""Whose account a call is charged to."""

import pytest
from tests.money.calling import call

from looptrap.money.meter import AccountKey, account_descriptors

SECRET = b"s" * 32


def account(by, one):
    whose = AccountKey(SECRET, ("budget", "b"), by)
    values = whose.values(one)
    return None if values is None else whose.key(values)


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        pytest.param(["caller"], ("caller",), id="by caller"),
        pytest.param([], ("caller",), id="by nothing"),
        pytest.param(["header:x"], ("caller", "header:x"), id="a header vouches for nobody"),
        pytest.param(["session"], ("caller", "session"), id="a session is its caller's"),
        pytest.param(["project"], ("project",), id="a project is counted as one"),
        pytest.param(["gateway"], ("gateway",), id="the whole gateway is counted as one"),
        pytest.param(["jwt:org", "header:x"], ("jwt:org", "header:x"), id="a claim vouches"),
    ],
)
def test_callers_are_kept_apart_unless_somebody_vouches(by, expected):
    assert account_descriptors(by) == expected


@pytest.mark.parametrize(
    ("by", "one", "other", "is_same"),
    [
        pytest.param(["caller"], {}, {"session": "s"}, True, id="one caller, two sessions"),
        pytest.param(["caller"], {}, {"caller": "d"}, False, id="two callers"),
        pytest.param(
            ["session"],
            {"session": "s"},
            {"session": "s", "text": "Other"},
            True,
            id="one session",
        ),
        pytest.param(
            ["session"],
            {"session": "s"},
            {"session": "s", "caller": "d"},
            False,
            id="one name of a session, two callers",
        ),
        pytest.param(["session"], {}, {}, True, id="a session that is derived"),
        pytest.param(["session"], {}, {"text": "Other"}, False, id="two that are derived"),
        pytest.param(
            ["project"],
            {"project": "p"},
            {"project": "p", "caller": "d"},
            True,
            id="one project, two callers",
        ),
        pytest.param(["project"], {}, {"caller": "d"}, False, id="no project, two callers"),
        pytest.param(["gateway"], {}, {"caller": "d"}, True, id="one gateway, two callers"),
        pytest.param(
            ["project"],
            {"project": "c", "caller": "x"},
            {"caller": "c"},
            False,
            id="a project that is called like a caller",
        ),
        pytest.param(["turn"], {"turn": "t"}, {"turn": "t", "session": "s"}, True, id="one turn"),
        pytest.param(["turn"], {"turn": "t"}, {"turn": "u"}, False, id="two turns"),
        pytest.param(
            ["jwt:org"],
            {"claims": {"org": "o"}},
            {"claims": {"org": "o"}, "caller": "d"},
            True,
            id="one claim, two callers",
        ),
        pytest.param(["jwt:org"], {}, {"caller": "d"}, False, id="claims that are not there"),
        pytest.param(
            ["jwt:org", "header:x"],
            {"claims": {"org": "o"}, "headers": {"x": "1"}},
            {"claims": {"org": "o"}, "headers": {"x": "2"}},
            False,
            id="one claim, two headers",
        ),
    ],
)
def test_who_shares_an_account(by, one, other, is_same):
    assert (account(by, call(**one)) == account(by, call(**other))) is is_same


def test_without_a_turn_there_is_nobody_to_charge():
    assert account(["turn"], call()) is None
    assert account(["turn"], call(turn="t")) is not None


def test_names_and_secrets_tell_accounts_apart():
    def key(secret, *name):
        whose = AccountKey(secret, name, ["caller"])
        return whose.key(whose.values(call()))

    keys = {key(SECRET, "a", "b"), key(SECRET, "ab"), key(SECRET, "a"), key(b"t" * 32, "a")}
    assert len(keys) == 4
