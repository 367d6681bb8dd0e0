"""What the image is built of: all is pinned, with hashes, as the project asks for it."""

import tomllib

import pytest
from fuzz.audit import EXTRAS, PROJECT, installed, needed, normal
from fuzz.lock import LOCK, pins
from packaging.requirements import Requirement

ASKED = tomllib.loads(PROJECT.read_text("utf-8"))
DIRECT = [
    Requirement(text)
    for texts in (
        ASKED["build-system"]["requires"],
        ASKED["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["mypyc"]["dependencies"],
        ASKED["project"]["dependencies"],
        *(ASKED["project"]["optional-dependencies"][name] for name in EXTRAS),
    )
    for text in texts
]
PINS = pins()


@pytest.mark.parametrize("asked", DIRECT, ids=str)
def test_what_the_project_asks_for_is_pinned_within_its_bounds(asked):
    assert PINS[normal(asked.name)].version in asked.specifier


def test_what_these_need_is_pinned_too():
    found = installed()
    missing = set(found) - set(PINS)
    assert not missing, f"run `make lock`: {missing} is not in {LOCK.name}"
    for name, one in found.items():
        if one.distribution.version == PINS[name].version:
            for more in needed(*one):
                assert PINS[normal(more.name)].version in more.specifier, f"{name} needs {more}"


def test_every_pin_has_hashes_and_no_address():
    assert all(pin.hashes for pin in PINS.values())
    text = LOCK.read_text("utf-8")
    assert "://" not in text
    assert "--index" not in text
    assert text.count("--hash=") == sum(len(pin.hashes) for pin in PINS.values())


@pytest.mark.parametrize(
    "line",
    ["click>=8.1 --hash=sha256:" + "0" * 64, "click", "click==8.1\nclick==8.2"],
    ids=["a range", "any version", "two versions"],
)
def test_what_is_not_one_version_is_not_taken_for_a_pin(tmp_path, line):
    file = tmp_path / "requirements.lock"
    file.write_text(line)
    with pytest.raises(ValueError):
        pins(file)
