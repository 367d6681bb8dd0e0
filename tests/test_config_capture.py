"""What is captured, and where to: two settings that go together."""

import pytest

from looptrap.config import load
from looptrap.errors import ConfigError

PLACE = '[gateway]\ncapture_dir = "calls"'


@pytest.mark.parametrize(
    ("toml", "env", "flags", "expected"),
    [
        pytest.param("", {}, {}, "off", id="by default"),
        pytest.param(PLACE, {}, {}, "digests", id="a place is enough"),
        pytest.param("", {}, {"capture_dir": "x"}, "digests", id="as a flag"),
        pytest.param("", {"LOOPTRAP_CAPTURE_DIR": "x"}, {}, "digests", id="as a variable"),
        pytest.param(f'capture = "content"\n{PLACE}', {}, {}, "content", id="content"),
        pytest.param(
            PLACE, {"LOOPTRAP_CAPTURE": "content"}, {}, "content", id="content, by a variable"
        ),
        pytest.param(f'capture = "off"\n{PLACE}', {}, {}, "off", id="off, in words"),
        pytest.param(PLACE, {"LOOPTRAP_CAPTURE": "off"}, {}, "off", id="off, by a variable"),
        pytest.param(
            'capture = "off"', {}, {"capture_dir": "x"}, "digests", id="off, but for a flag"
        ),
    ],
)
def test_what_is_captured(tmp_path, toml, env, flags, expected):
    file = tmp_path / "looptrap.toml"
    file.write_text(toml)
    config = load(file, env=env, flags=flags)
    assert config.capture == expected
    effective = {place: (value, origin) for place, value, origin in config.effective()}
    assert effective["capture"][0] == expected


def test_what_follows_from_a_place_came_from_there(tmp_path):
    file = tmp_path / "looptrap.toml"
    file.write_text(PLACE)
    assert load(file).origins["capture"] == "looptrap.toml"


def test_a_capture_needs_a_place(tmp_path):
    file = tmp_path / "looptrap.toml"
    file.write_text('capture = "content"')
    with pytest.raises(ConfigError, match=r'capture: is "content" .* set gateway.capture_dir'):
        load(file)
