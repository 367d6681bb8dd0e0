"""`looptrap presets`: the list, and a preset's own text."""

from click.testing import CliRunner

from looptrap.cli import main
from looptrap.policy import preset


def test_lists_every_preset_with_its_sentence():
    result = CliRunner().invoke(main, ["presets"])
    assert result.exit_code == 0
    assert [line.split(maxsplit=1) for line in result.stdout.splitlines()] == [
        [name, preset.summary(name)] for name in preset.names()
    ]


def test_prints_the_text_of_a_preset_so_that_it_can_be_saved():
    result = CliRunner().invoke(main, ["presets", "aisg"])
    assert (result.exit_code, result.stdout) == (0, preset.text("aisg"))


def test_suggests_the_preset_that_was_meant():
    result = CliRunner().invoke(main, ["presets", "zelix"])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith('NAME: is the text "zelix", must be default, aisg,')
    assert result.stderr.endswith("did you mean zelyx?\n")
