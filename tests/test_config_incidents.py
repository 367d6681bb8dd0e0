"""Channels, indicators and the history: what can be set, and what is said of mistakes."""

import pytest

from looptrap.config import load
from looptrap.errors import ConfigError

HOOK = '[[channels]]\nurl = "https://ops.example.com/hook"\n'


def loaded(tmp_path, toml, **options):
    file = tmp_path / "looptrap.toml"
    file.write_text(toml)
    return load(file, **options)


def test_without_a_word_there_is_a_history_and_nobody_is_told(tmp_path):
    config = loaded(tmp_path, "")
    assert (config.history, config.channels) == ("looptrap.db", ())
    assert config.incidents.quiet == 300


def test_an_empty_history_keeps_none(tmp_path):
    assert loaded(tmp_path, 'history = ""').history == ""


def test_channels_without_a_name_get_one_each(tmp_path):
    slack = '[[channels]]\nkind = "slack"\nurl_env = "S"\n'
    named = '[[channels]]\nname = "webhook-2"\nurl = "https://a.example"\n'
    config = loaded(tmp_path, HOOK + named + HOOK + slack)
    assert [one.name for one in config.channels] == ["webhook", "webhook-2", "webhook-3", "slack"]


@pytest.mark.parametrize(
    ("toml", "problem"),
    [
        pytest.param(
            "[[channels]]\n", "channels[0]: needs url or url_env, one of them", id="no url"
        ),
        pytest.param(
            HOOK + 'url_env = "X"\n', "channels[0]: needs url or url_env, one of them", id="both"
        ),
        pytest.param(
            HOOK + 'kind = "slack"\nsecret_env = "X"\n',
            "channels[0].secret_env: is of use to a webhook only",
            id="a secret for Slack",
        ),
        pytest.param(
            HOOK + 'events = ["loop.*", "lop.*"]\n',
            "channels[0].events[1]: fits no event; there are ",
            id="an event that is none",
        ),
        pytest.param(
            HOOK + 'name = "a"\n' + HOOK + 'name = "a"\n',
            "channels[1].name: is 'a' like that of another channel",
            id="one name twice",
        ),
        pytest.param("[incidents]\nquiet = 0\n", "incidents.quiet: is 0, must be", id="no quiet"),
        pytest.param(
            "[indicators]\ntool_errors = 2\n",
            "indicators.tool_errors: is 2, must be 1 or less",
            id="200 %",
        ),
    ],
)
def test_mistakes_are_told(tmp_path, toml, problem):
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, toml)
    assert problem in str(caught.value)
