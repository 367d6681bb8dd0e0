"""Pipelines that send prompts without tools: jobs read twice, repairs, refinements, queues."""

from __future__ import annotations

import json

from bench.loops.field.run import LOOP, Run
from bench.loops.field.sixth.common import CITIES, FIRMS, HALF, NOUNS, PEOPLE, Voice, mail_of


def _letter(run: Run) -> tuple[str, dict[str, object]]:
    """Return a letter and what is to be read from it."""
    who, firm, city = run.pick(*PEOPLE), run.pick(*FIRMS), run.pick(*CITIES)
    amount, number = run.dec(12, 9000), f"{run.num(10000, 99999)}"
    thing = run.pick(*NOUNS)
    text = run.mix(
        "Dear Sir or Madam,|Hello,|Good morning,|To whom it may concern,",
        [f"I write about {thing} {number}, for which I paid {amount} EUR in {city}."],
        "It came late.|It came broken.|It never came.|I was charged twice.|The name is wrong.",
        "Please refund me.|What can you do?|I want to cancel.|I expect an answer this week.",
        [f"\n{who}, {firm}"],
    )
    return text, {"name": who, "firm": firm, "number": number, "amount": amount, "city": city}


@HALF.template(
    "queue", "langgraph gemini-api autogen", "batch retried", shows="prompt", difficulty="easy"
)
def same_job_again(run: Run, way: str) -> None:
    """A queue hands out the same letter again and again, for nobody confirms it."""
    keys = "name, firm, number, amount, city"
    letter, fields = _letter(run)
    rounds = run.num(24, 34)
    stuck = run.num(6, 8) if way == LOOP else rounds
    again = 0
    for number in range(rounds):
        if (way == "batch" or number <= stuck) and way != "retried":
            letter, fields = _letter(run)
        elif way == "retried" and again in (0, 2):
            letter, fields = _letter(run)
            again = 0
        if number == stuck + 2:
            run.begin()
        tries = number - stuck + 1 if number > stuck else again + 1
        head = f"Job {run.hex(8)}, attempt {tries}, {run.stamp()}"
        prompt = (
            f"{head}\nYou read letters to our customer service. Read these fields as JSON: "
            f"{keys}.\n- amount is a number without a currency\n- a field that the letter does "
            f"not have is null\n- answer with the JSON only\n\nLetter:\n{letter}"
        )
        shown = dict(run.some(list(fields.items()), 5)) if run.chance.random() < 0.3 else fields
        answer = json.dumps(shown, indent=run.pick(None, 2))
        run.once(prompt, f"```json\n{answer}\n```" if run.chance.random() < 0.3 else answer)
        run.wait(1, 30)
        if way == "retried":
            again = again + 1 if run.chance.random() < 0.35 and again < 2 else 0


@HALF.template(
    "json",
    "gemini-api langgraph openai-agents",
    "items fields",
    shows="prompt",
    difficulty="medium",
)
def answer_never_valid(run: Run, way: str) -> None:
    """An answer fails its schema, is sent back with the error, and comes back as it was."""
    level = run.pick("urgency", "severity", "priority")
    allowed = run.pick("1 to 5", "low, medium, high", "A, B or C")
    wrong = {"1 to 5": '"very high"', "low, medium, high": "4", "A, B or C": '"unclear"'}[allowed]
    right = {"1 to 5": "4", "low, medium, high": '"high"', "A, B or C": '"B"'}[allowed]
    rounds = run.num(16, 22)

    def answer(fields: dict[str, object], value: str) -> str:
        why = run.mix(
            "The customer|The writer|The sender", "is upset|waits|was charged|asks for help"
        )
        return f'{{"name": "{fields["name"]}", "{level}": {value}, "reason": "{why}."}}'

    rule = (
        f"You rate the {level} of letters to our service desk. Consider what is lost, how long "
        "the customer has waited, and whether a term is running. Do not consider the "
        f"tone.\nAnswer with JSON and nothing else. Fields: name (string), {level} ({allowed}), "
        "reason (one sentence)."
    )
    for _ in run.times(4, 8):
        text, fields = _letter(run)
        run.once(f"{rule}\n\n{text}", answer(fields, right))
        run.wait(1, 9)
    text, fields = _letter(run)
    if way == "fields":
        words = run.some(NOUNS, run.num(10, 13))
        values: dict[str, object] = dict.fromkeys(words, "n/a")
        rule = f"Answer with JSON: a number for each of {', '.join(words)}."
        text = " ".join(
            f"{run.num(2, 900)} {word}s were counted in {run.pick(*CITIES)}." for word in words
        )
        said = json.dumps(values)
        run.once(f"{rule}\n\n{text}", said)
        for place, word in enumerate(words):
            rest = len(words) - place
            error = f"{rest} validation errors for Count\n{word}\n  Input should be a valid number"
            values[word] = run.num(2, 900)
            past = f"Your last answer was:\n{said}\n\nIt is not valid:\n{error}"
            said = json.dumps(values)
            run.once(f"{rule}\n\n{text}\n\n{past}\nTry again.", said)
            run.wait(1, 6)
        return
    said = answer(fields, wrong)
    run.once(f"{rule}\n\n{text}", said)
    for number in range(rounds):
        if way == LOOP and number == 2:
            run.begin()
        error = (
            f"1 validation error for Rating\n{level}\n  Input should be {allowed} [input={wrong}]"
        )
        prompt = f"{rule}\n\n{text}\n\nYour last answer was:\n{said}\n\nIt is not valid:\n{error}"
        if way == LOOP:
            said = answer(fields, wrong)
            run.once(f"{prompt}\nTry again.", said)
        else:
            second = run.chance.random() < 0.2
            said = answer(fields, wrong if second else right)
            run.once(f"{prompt}\nTry again.", said)
            if not second:
                text, fields = _letter(run)
                said = answer(fields, wrong if run.chance.random() < 0.6 else right)
                run.once(f"{rule}\n\n{text}", said)
                if right in said:
                    text, fields = _letter(run)
                    said = answer(fields, wrong)
                    run.once(f"{rule}\n\n{text}", said)
        run.wait(1, 6)


@HALF.template(
    "refine", "langgraph gemini-api crewai", "rising products", shows="prompt", difficulty="hard"
)
def refined_without_gain(run: Run, way: str) -> None:
    """A text is judged and refined in turn; the mark and the remarks stay what they were."""
    firm, thing = run.pick(*FIRMS), run.pick("hand cream", "desk lamp", "trail mix", "rain jacket")
    claims = [
        f"{run.pick('Made', 'Packed', 'Tested')} in {run.pick(*CITIES)}",
        f"{run.num(2, 90)} % less {run.pick('waste', 'weight', 'noise')}",
        f"{run.num(2, 10)} years of guarantee",
        f"only {run.dec(4, 90)} EUR",
        f"chosen by {run.num(2, 90)} thousand people",
        f"known from {run.pick(*CITIES)} to {run.pick(*CITIES)}",
        f"designed by {run.pick(*PEOPLE)}",
        f"with {run.pick('refill', 'repair', 'exchange')} in every shop",
        f"shipped within {run.num(12, 72)} hours",
        f"free of {run.pick('palm oil', 'solvents', 'plastic')}",
    ]
    mark, lack = (
        run.num(5, 6),
        run.pick("proof of the claims", "a test report", "a customer's quote"),
    )
    openers = ("Meet the", "Discover the", "Here is the", "Say hello to the", "Introducing the")
    rounds = run.num(11, 15) if way == LOOP else run.num(6, 9)
    style = run.pick("No superlatives.", "Address the reader.", "No exclamation marks.")
    remark = ""
    if way == "products":
        for noun in run.some(NOUNS, run.num(6, 9)):
            head = f"Write a text of at most sixty words for the {noun} of {firm}."
            fact = f"{run.num(2, 90)} {run.pick('kg', 'cm', 'hours')}, {run.dec(4, 90)} EUR"
            draft = f"{run.pick(*openers)} {noun} of {firm}: {fact}."
            run.once(f"{head} Facts: {fact}.\nImprove the text.", draft)
            remark = (
                f"{run.num(7, 9)}/10. {run.pick('Good.', f'It lacks {lack}.', 'Fine as it is.')}"
            )
            run.once(
                "You are a strict copy editor. Judge this text from 1 to 10 for clarity, proof "
                f"and appeal, and say in a sentence what lacks most.\n\n{draft}",
                remark,
            )
            run.wait(0.5, 2)
        return
    for number in range(rounds):
        if way == LOOP and number == 3:
            run.begin()
        shown = claims[:3] if way == LOOP else claims[: 3 + number]
        draft = f"{run.pick(*openers)} {thing} of {firm}: {', '.join(shown)}."
        head = f"Write a text of at most sixty words for the {thing} of {firm}. {style}"
        head = f"{head}\nFacts: {'; '.join(shown)}."
        past = f"\nThe critic said: {remark}" if remark else ""
        run.once(f"{head}{past}\nImprove the text.", draft)
        run.wait(0.5, 2)
        if way == LOOP:
            words = run.mix("It lacks|There is no|Still missing:|I miss", [f"{lack}."])
            remark = f"{mark}/10. {words}"
        else:
            mark = min(10, mark + run.pick(0, 1, 1))
            remark = f"{mark}/10. Now say more on: {claims[min(9, 3 + number)]}."
        run.once(
            "You are a strict copy editor. Judge this text from 1 to 10 for clarity, proof and "
            f"appeal, and say in a sentence what lacks most.\n\n{draft}",
            remark,
        )
        run.wait(0.5, 2)


@HALF.template("tasks", "autogen langgraph", "plan", shows="prompt", difficulty="medium")
def tasks_that_make_tasks(run: Run, way: str) -> None:
    """An agent keeps a list of tasks; the tasks done come back onto it in other words."""
    firm, city = run.pick(*FIRMS), run.pick(*CITIES)
    aim = f"Prepare the opening of a branch of {firm} in {city}."
    verbs = ("Research", "Analyse", "Identify", "Evaluate", "Study")
    themes = ("the local market", "competitors", "the target group", "legal rules")
    share, sum_, rivals = run.num(5, 60), run.num(20, 900), run.some(FIRMS, 2)
    known = {
        themes[0]: f"In {city} {sum_ * 100} households buy such goods, {share} % of them in the "
        f"centre. Sales grow by {run.num(1, 9)} % a year; rents are at {run.num(9, 70)} EUR.",
        themes[1]: f"There are two competitors, {rivals[0]} with {run.num(2, 9)} shops and "
        f"{rivals[1]} with one near the station. Both close at {run.num(6, 8)} p.m.",
        themes[
            2
        ]: f"The target group is {run.num(25, 35)} to {run.num(45, 65)} years old, {share} % "
        f"are women, and {run.num(20, 80)} % come by bike or tram.",
        themes[3]: f"A trade licence ({run.num(20, 90)} EUR), a sign permit and a fire inspection "
        f"are needed; the office takes {run.num(3, 12)} weeks.",
    }
    nouns = run.some(NOUNS, 20)
    rounds = run.num(22, 30)
    for number in range(rounds):
        if way == LOOP:
            if number == 6:
                run.begin()
            theme = themes[number % 4] if number < 4 else run.pick(*themes)
            task = f"{run.pick(*verbs)} {theme}"
            result = run.mix("Result:|Summary:|Findings:", [known[theme]])
            ahead = [f"{run.pick(*verbs)} {one}" for one in run.some(themes, 3)]
        else:
            word = nouns[number % 20]
            task = f"{run.pick('Order', 'Plan', 'Book', 'Compare')} the {word}s ({number + 1})"
            result = (
                f"{run.num(2, 90)} {word}s from {run.pick(*FIRMS)} for {run.num(90, 9000)} EUR."
            )
            ahead = [f"Plan the {nouns[(number + at) % 20]}s" for at in (1, 2, 3)]
        text = "; ".join(ahead)
        if number % 2 == 0:
            run.once(f"Objective: {aim}\nDo this one task and give the result: {task}", result)
        else:
            prompt = f"Objective: {aim}\nLast result: {result}\nOpen: {text}\nList the next tasks."
            run.once(prompt, "\n".join(f"{at}. {one}" for at, one in enumerate(ahead, 1)))
        run.wait(0.5, 4)


@HALF.template("notify", "gemini-api langgraph", "digest", shows="prompt", difficulty="medium")
def notice_of_a_notice(run: Run, way: str) -> None:
    """A workflow sums up each new message of a channel, and its own summary is a new message."""
    channel, who = run.pick("#ops", "#sales", "#depot", "#claims"), run.pick(*PEOPLE)
    facts = [
        f"the {noun} of {run.pick(*FIRMS)} is {run.pick('late', 'lost', 'done')}"
        for noun in run.some(NOUNS, 30)
    ]
    ask = (
        f"You are a step of the workflow 'Digest {channel[1:]}'. It is called for each new message "
        f"of the channel {channel}, and its answer is posted there for {who}.\n\nSummarise the new "
        "message in one sentence. Keep names and numbers. Do not greet, do not comment, do not use "
        "Markdown. If the message has no content, answer with NOTHING."
    )
    forms = Voice(
        run,
        "[Summary|In short]: {}.",
        "[The bot|A message] [reports|says] that {}.",
        "[A summary|The summary] [states|notes] [again|] that {}.",
        "[To sum up|In one sentence]: {}.",
        empty=0,
    )
    count = run.num(22, 32)
    stuck = run.num(5, 8)
    said = ""
    for number in range(count):
        fact = facts[min(number, stuck)] if way == LOOP else facts[number % 30]
        bot = way == LOOP and number > stuck
        if way == LOOP and number == stuck + 2:
            run.begin()
        by = "Digest Bot" if bot else run.pick(*PEOPLE)
        message = said if bot else f"{run.pick('FYI', 'Update', 'Hi all')}, {fact}. ({run.hex(4)})"
        prompt = f"{ask}\n\n[{run.stamp('%H:%M:%S')}] {by} <{mail_of(by, 'team')}>: {message}"
        said = forms().format(fact)
        run.once(prompt, said)
        run.wait(1, 9 if bot else 300)
