"""`idle`: an agent that has tools, and only talks."""

import json

import pytest
from tests.detect.runs import Person, Use, count, evidence, openai, says, trajectory
from tests.detect.signals.steps import LS, case, in_both_dialects

from looptrap.detect.remembered_round import RoundDigester
from looptrap.detect.round import MAX_TALK_CHARS
from looptrap.detect.signals import ROUNDS, SIGNALS, SignalOptions
from looptrap.detect.similarity import distinct_words
from looptrap.detect.trajectory import RunTrajectory
from looptrap.dialect.model import Request
from looptrap.dialect.registry import read

NAG = Person("You did not use a tool. Please answer with a call of a tool.")
GO_ON, NEXT = Person("continue"), Person("next")

ANNOUNCED = [
    "Understood. I will look at the settings file now.",
    "Right, let me look at the settings file first.",
    "I am going to open the settings file and check the timeout.",
    "Sure! First I will check the timeout in the settings file.",
    "Let me open the settings file. Then I will check the timeout.",
    "My next step: I am going to look at the timeout first.",
    "Of course. Let me check the settings file step by step now.",
    "I will open the settings now and look at the timeout.",
    "Understood, I am going to check the file. Let me open it first.",
    "Right. The next step: look at the settings file, then the timeout.",
    "Sure, let me look. I will check the timeout step by step.",
    "Now I will open the settings file first, then check the timeout.",
]

TALE = [
    "Marta rowed out before dawn, when the harbour still smelled of tar and cold rope.",
    "Nobody had lit the beacon for eleven winters, yet gulls kept circling above it.",
    "Her uncle used to claim that fog remembers every ship it has swallowed.",
    "On the rocks she found a boot, a brass compass and half a loaf of bread.",
    "The compass pointed inland, stubbornly, towards the chapel on the hill.",
    "Inside, somebody had stacked candles by colour and left the window open.",
    "A choirbook lay on the altar; its margins were full of tide tables.",
    "She copied three of them onto her sleeve with a stub of charcoal.",
    "Downstairs a kettle began to sing, although the house stood empty.",
    "Who are you waiting for, asked a voice behind the pantry curtain.",
    "It belonged to a boy with flour on both hands and no shadow at all.",
    "He offered her tea, plum cake, and directions to the year she was born.",
]

LANDS = "Norway Chile Kenya Japan Latvia Mali Egypt Jordan Serbia Peru Nepal Cuba".split()

TRAVELS = [
    f"Day {day}, {land}. The train leaves at 7:1{day % 9} from the second platform. Meeting near"
    " the town hall, dinner at the station. The hotel has breakfast."
    for day, land in enumerate(LANDS, 1)
]

ANNOUNCED_IN_CHINESE = [
    "好的，我现在来检查配置文件。",
    "明白，我先打开配置文件检查一下。",
    "我现在先检查配置文件的内容。",
    "好的，我先检查一下配置文件的内容。",
    "明白，现在来打开配置文件。",
    "我来打开配置文件，先检查内容。",
]
TALE_IN_CHINESE = [
    "黎明之前玛尔塔划船出海。",
    "港口还弥漫着焦油的气味。",
    "十一个冬天没人点亮灯塔。",
    "海鸥却总在上空盘旋不去。",
    "她在礁石间捡到一只铜罗盘。",
    "指针固执地指向山上教堂。",
]


CHAPTERS = [f"Chapter {n}. " + " ".join(TALE[n:] + TALE[:n]) for n in range(12)]
QUIZ = [f"Question {n}: what is {land} proud of?" for n, land in enumerate(LANDS)]


def after_each(said, texts):
    """Return turns of talk, each followed by the same message."""
    return [step for text in texts for step in (says(text), said)]


def thinks(texts, result="Your thought has been logged."):
    """Return notes of an agent to itself."""
    return [Use("think", {"thought": text}, result) for text in texts]


def plans(states):
    items = [{"content": "Read the settings", "status": state} for state in states]
    return [Use("todo_write", {"todos": items[:n]}, "ok") for n in range(len(items))]


@in_both_dialects
@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        case(after_each(NAG, ANNOUNCED), 12, id="announcements, never the same"),
        case(after_each(GO_ON, ANNOUNCED), 12, id="on 'continue'"),
        case([LS, *after_each(NAG, ANNOUNCED)], 12, id="after some work"),
        case([*after_each(NAG, ANNOUNCED), LS], 0, id="until a call"),
        case([*after_each(NAG, ANNOUNCED[:2]), LS, LS], 0, id="two nags, then work"),
        case([*after_each(NAG, ANNOUNCED), LS, says(ANNOUNCED[0])], 0, id="one word after work"),
        case([*after_each(NAG, ANNOUNCED), says(TALE[0])], 0, id="until something new"),
        case([*after_each(NAG, ANNOUNCED), Person("Why?"), says("No.")], 0, id="asked by a person"),
        case(after_each(GO_ON, TALE), 0, id="a tale in pieces"),
        case(after_each(GO_ON, CHAPTERS), 0, id="long pieces, whatever they say"),
        case(after_each(NEXT, QUIZ), 0, id="a quiz"),
        case(after_each(GO_ON, TRAVELS), 0, id="a plan, day by day, in one form"),
        case(
            after_each(NEXT, [f"{n} miles are {n * 1609} metres." for n in range(12)]),
            0,
            id="a table in words",
        ),
        case(
            after_each(GO_ON, [f"```python\nvalue = load('{word}')\n```" for word in LANDS]),
            0,
            id="code in pieces",
        ),
        case(
            [
                step
                for land in LANDS
                for step in (
                    Person(f"What should I know about {land} before I go there?"),
                    says(f"What should you know about {land} before you go there? Quite a lot."),
                )
            ],
            0,
            id="questions of a person, quoted in the answers",
        ),
        case(after_each(GO_ON, ANNOUNCED_IN_CHINESE), 6, id="announcements in Chinese"),
        case(after_each(GO_ON, TALE_IN_CHINESE), 0, id="a tale in Chinese"),
        case(after_each(GO_ON, ["I do it."] * 6), 6, id="words too short to mean anything"),
        case([LS, *thinks(ANNOUNCED)], 12, id="notes, never the same"),
        case([*thinks(ANNOUNCED[:6]), *after_each(NAG, ANNOUNCED[6:])], 12, id="notes and talk"),
        case([*thinks(ANNOUNCED), LS], 0, id="notes until a call"),
        case([step for one in thinks(ANNOUNCED) for step in (one, LS)][:-1], 0, id="between calls"),
        case(thinks(TALE), 0, id="new thoughts"),
        case(thinks(CHAPTERS), 0, id="long thoughts, whatever they say"),
        case(thinks(ANNOUNCED, "An answer of some length. " * 9), 0, id="thoughts with an answer"),
        case(plans(["pending", "done"] * 6), 0, id="a list of things to do"),
    ],
)
def test_idle(write, steps, expected):
    assert count("idle", write, steps, tools=["bash"]) == expected


@in_both_dialects
def test_without_tools_talk_is_all_that_a_model_can_do(write):
    assert evidence("idle", write, after_each(GO_ON, ANNOUNCED)) is None


@in_both_dialects
def test_a_harness_that_urges_an_agent_on_waits_for_it_to_act(write):
    assert count("idle", write, after_each(NAG, ANNOUNCED)) >= 10


def test_long_answers_are_content_though_they_say_the_same():
    long = " ".join(["I will look at the settings file."] * 20)
    assert len(long) > MAX_TALK_CHARS
    assert count("idle", openai, after_each(GO_ON, [long] * 9), tools=["bash"]) == 0


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        case("I will look at api.py, LINE 12", {"will", "look", "line", "12"}, id="words, numbers"),
        case("检查一下 tests", {"检查", "查一", "一下", "tests"}, id="a script without spaces"),
        case("Я открою файл", {"открою", "файл"}, id="another alphabet"),
        case("I do it", {"id", "do", "oi", "it"}, id="nothing but short words"),
        case("", set(), id="nothing"),
    ],
)
def test_words_that_mean_something(text, expected):
    assert distinct_words(text) == expected


@pytest.mark.parametrize(("texts", "expected"), [(ANNOUNCED, 12), (TALE, 0)])
def test_remembered_talk_is_judged_like_talk_that_is_shown(texts, expected):
    digester = RoundDigester(b"secret")
    shown = trajectory(openai, after_each(GO_ON, texts)).latest(99)[::-1]
    records = [digester.record(one, b"link") for one in shown]
    body = json.dumps(openai([], ["bash"])).encode()
    call = read(Request(path="/v1/chat/completions", body=body))
    found = SIGNALS["idle"](SignalOptions(ROUNDS["idle"]))(RunTrajectory(call, records, {}))
    assert (found.count if found else 0) == expected


def song(number):
    verses = [
        f"At stop {number * 3 + one} a woman boards with {one + number} hens." for one in range(3)
    ]
    refrain = "Roll on, roll on, until the depot calls,\nroll on, roll on, till evening falls."
    return says("\n".join(f"{verse}\n{refrain}" for verse in verses))


@in_both_dialects
def test_verses_with_a_refrain_are_content(write):
    steps = [step for number in range(14) for step in (song(number), GO_ON)]
    assert count("idle", write, steps, tools=["bash"]) == 0
