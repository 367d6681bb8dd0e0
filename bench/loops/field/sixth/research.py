"""Research and writing: searches, pages, notes that are forgotten, reports rewritten."""

from __future__ import annotations

from random import Random

from bench.loops.field.cast import Act, read, sh, tool, write
from bench.loops.field.run import LOOP, Run
from bench.loops.field.sixth.common import (
    CITIES,
    FIRMS,
    HALF,
    NOUNS,
    PEOPLE,
    Project,
    Voice,
    do,
    quiet,
    slug,
)

TOPICS = [
    "district heating tariffs",
    "e-cargo bike pilots",
    "heat pump noise limits",
    "library opening hours",
    "tram ridership",
    "school meal costs",
    "low-emission zones",
    "rainwater fees",
    "bus lane enforcement",
    "public toilet provision",
    "allotment waiting lists",
    "street tree planting",
]


def _hit(run: Run, topic: str, city: str) -> dict[str, str]:
    """Return a hit of a search that is near the topic and names no sum."""
    firm = run.pick(*FIRMS)
    year, who, thing = run.num(2016, 2026), run.pick(*PEOPLE), run.pick(*NOUNS)
    title = run.pick(
        f"{topic.capitalize()} in {city} - what changes in {year}",
        f"{city} debates {topic}",
        f"{topic.capitalize()}: frequently asked questions | City of {city}",
        f"Annual review {year}: {topic}",
        f"{who}: why {topic} matter",
        f"{topic.capitalize()} compared - {firm}",
    )
    text = run.pick(
        f"{run.num(1, 28)} March {year} - The council of {city} heard {who} on {topic}. A decision "
        "was put off until the autumn.",
        f"Here you find answers on {topic}: who is responsible, how to apply, and which {thing}s "
        "are exempt.",
        f"A study among {run.num(90, 4000)} households shows how {topic} are seen in {city} and in "
        f"{run.num(3, 30)} other towns.",
        f"{who} ({firm}) explains in an interview how {topic} came about, and what the {thing} has "
        "to do with it.",
        f"The page was last changed in {year}. Figures on {topic} are published in the annual "
        "report.",
        f"... the working group on {topic} met {run.num(2, 9)} times. Its members are named in "
        f"annex {run.num(1, 9)} ...",
        f"Opinion: {topic} need a fresh start, writes {who}. {run.num(4, 90)} comments",
    )
    path = f"{slug(topic)}-{run.pick('news', 'faq', 'report', 'item')}-{run.num(100, 9999)}"
    return {"title": title, "url": f"https://www.{slug(firm)}.example/{path}", "snippet": text}


@HALF.template("search", "gemini-api langgraph crewai", "sweep deepen", difficulty="hard")
def reworded_search(run: Run, way: str) -> None:
    """A question has no answer on the web; it is asked in other words, with the same hits."""
    chat = run.chat()
    topic, city = run.pick(*TOPICS), run.pick(*CITIES)
    year = run.num(2016, 2024)
    cities = [name for name in run.some(CITIES, 14) if name != city]
    if way == "sweep":
        chat.user(f"Compare {topic} in these cities: {', '.join(cities)}. One source each.")
    else:
        chat.user(f"What exactly was the budget for {topic} in {city} in {year}? Cite the source.")
    for word in ("background", "responsible office", "budget process", "glossary"):
        hits = [_hit(run, f"{topic} {word}", city) for _ in range(2)]
        query = {"query": f"{topic} {city} {word}"}
        chat.act(f"First the {word}." * run.num(0, 1), tool("web_search", query, hits))
    say = Voice(
        run,
        "[Let me|I'll] [search|look] [for|up] [a more specific|an official] [source|figure].",
        "[The|These] results [do not|don't] [give|contain] the [figure|number]. "
        "[Rephrasing|Again].",
        "[Let me|I'll] [try|use] [other|different] [keywords|words].",
        "[Perhaps|Maybe] the [city council|annual report|press] [has|gives] [it|the figure].",
        "[Not yet|Nothing yet]. [Another|One more] [search|attempt].",
        "[I should|Let me] [verify|check] [with|in] [a further|another] search.",
        first="[Let me|I'll] search for the figure.",
    )
    if way == "sweep":
        for name in cities:
            hits = [_hit(run, topic, name) for _ in range(run.num(2, 4))]
            do(chat, say, tool("web_search", {"query": f"{topic} {name}"}, hits))
            if run.chance.random() < 0.6:
                text = f"In {name} the {topic} came to {run.num(2, 900)} thousand a year."
                quiet(chat, tool("fetch_page", {"url": hits[0]["url"]}, text))
        chat.say("The comparison is complete.")
        return
    if way == "deepen":
        for number in range(run.num(12, 16)):
            part = run.pick(*NOUNS)
            hits = [_hit(run, f"{topic} {part}", city) for _ in range(run.num(2, 4))]
            words = f"{city} {year} {topic} {part} budget"
            do(chat, say, tool("web_search", {"query": words}, hits))
            if number % 2:
                text = f"{hits[0]['title']}\n\nFor {part}, {run.num(2, 900)} thousand in {year}."
                do(chat, say, tool("fetch_page", {"url": hits[0]["url"]}, text))
        chat.say("The sum of the parts, each with its source, is above.")
        return
    known = [_hit(run, topic, city) for _ in range(6)]
    terms = ("budget", "spending", "expenditure", "cost", "funding", "amount", "allocated funds")
    tails = ("official", "report", "pdf", "council minutes", "exact figure", "statistics", "")
    for number in range(run.num(18, 32)):
        if number == 4:
            run.begin()
        wording = run.pick(
            f"{city} {topic} {run.pick(*terms)} {year} {run.pick(*tails)}",
            f"{run.pick(*terms)} of {city} for {topic} in {year}",
            f"{topic} {city} {year} {run.pick(*tails)}",
        ).strip()
        hits = run.some(known, 6 if number > 3 else 4)
        do(chat, say, tool("web_search", {"query": wording}, hits, takes=run.dec(0.6, 2)))


@HALF.template(
    "fetch",
    "gemini-api openai-agents langgraph",
    "reading reader",
    shows="trimmed",
    difficulty="medium",
)
def same_pages_again(run: Run, way: str) -> None:
    """Three pages show nothing without scripts, and are fetched in turn again and again."""
    chat = run.chat()
    topic, city = run.pick(*TOPICS), run.pick(*CITIES)
    chat.user(f"Collect the rules on {topic} in {city} from the official pages, as a list.")
    say = Voice(
        run,
        "[Let me|I'll] [open|fetch|read] [the page|this one|the official page].",
        "[The|This] page [needs|requires] JavaScript. [Trying|I'll try] [another|the next one].",
        "[Let me|I'll] [go back to|try] [the first|an earlier] [page|source] [again|].",
        "[Perhaps|Maybe] [it loads|this one works] [now|this time].",
        "[I still need|I need] the [text|rules] [itself|themselves].",
        empty=0.3,
        first="[Let me|I'll] open the first.",
    )
    hits = [_hit(run, topic, city) for _ in range(18)]
    quiet(chat, tool("web_search", {"query": f"{topic} {city} rules"}, hits[:3]))
    for hit in hits[3 : run.num(7, 9)]:
        text = f"{hit['title']}\n\nSection {run.num(1, 40)}: {hit['snippet']}"
        quiet(chat, tool("fetch_page", {"url": hit["url"]}, text))
    if way != "reading":
        for number in range(run.num(20, 32) if way == LOOP else 4):
            if number == 4:
                run.begin()
            hit = hits[number % 3] if run.chance.random() < 0.8 else run.chance.choice(hits[:3])
            text = f"{hit['title']}\n\nYou need to enable JavaScript to run this app."
            out = {"status": 200, "elapsed_ms": run.num(90, 900), "text": text}
            do(chat, say, tool("fetch_page", {"url": hit["url"]}, out))
        if way == LOOP:
            return
        for number, hit in enumerate([*hits[:3], *hits[9:]], 1):
            rule = f"{run.pick('No', 'One', 'Each')} {run.pick(*NOUNS)} within {run.num(2, 90)} m"
            text = f"{hit['title']}\n\n{number}. {rule}, from {run.num(1, 28)} May on."
            args = {"url": hit["url"], "render": True}
            chat.act(
                "With the renderer." * (number < 2), tool("render_page", args, text, takes=4.0)
            )
        chat.say("The list of rules is above.")
        return
    on = Voice(
        run,
        "[Next|Now] [this|the next] [page|source].",
        "[That|This] gives [some|two or three] of the rules. [Going on|The next].",
        "<page=>[There is|It has] a further page.",
        "[Let me|I'll] [see|read] what [this one|the next] [says|adds].",
        empty=0.4,
    )
    for hit in hits[9:]:
        for part in range(1, run.num(2, 4)):
            text = f"{hit['title']} ({part})\n\n" + " ".join(
                f"{run.num(1, 90)}. {run.pick(*PEOPLE)} may apply for a {run.pick(*NOUNS)} of "
                f"{run.num(5, 400)} euros."
                for _ in range(3)
            )
            url = hit["url"] if part == 1 else f"{hit['url']}?page={part}"
            out = {"status": 200, "elapsed_ms": run.num(90, 900), "text": text}
            do(chat, on, tool("fetch_page", {"url": url}, out))
    chat.say("The list of rules is above.")


@HALF.template(
    "compacted", "codex claude-code gemini-cli", "chapters", shows="compacted", difficulty="hard"
)
def forgotten_reading(run: Run, way: str) -> None:
    """After each compaction the agent reads the same files again and writes nothing."""
    project = Project(run)
    chat = run.chat()
    topic = run.pick("an onboarding guide", "a threat model", "a module reference", "a test plan")
    chat.user(f"Write {topic} for {project.name}: read all modules and write it to docs/.")
    done: list[str] = []

    def summary() -> str:
        if way == LOOP:
            return run.mix(
                "The user wants|The task is",
                [f"{topic} for {project.name} in docs/."],
                "So far I have read some modules.|I was reading the modules.|Reading is under way.",
                "Nothing is written yet.|No file was written so far.|The document is not begun.",
                "Next: read the modules, then write.|Next step is to read the code again in full.",
            )
        last = done[-1] if done else "nothing"
        return (
            f"The task is {topic} for {project.name}. Finished: {', '.join(done) or 'none'}. "
            f"The last was {last}; go on with the next module."
        )

    chat.summary = summary
    say = Voice(
        run,
        "[Let me|I'll] [read|go through|look at] [the modules|the code] [first|now].",
        "[Next|Now] [this module|the next one].",
        "[I need|I want] to [understand|know] [this part|the module] [before writing|first].",
        "[Reading|Let me read] [on|the next file].",
        empty=0.35,
        first="[I'll|Let me] see what there is.",
    )
    if way == LOOP:
        for number in range(run.num(30, 40)):
            if number == 10:
                run.begin()
            place = number % 9
            where = project.path(place)
            act = read(where, project.source(place))
            if place == 0:
                act = sh("ls", project.listing())
            elif place in (3, 6):
                act = read(project.test(place), project.checks(place))
            do(chat, say, act)
        return
    for place in range(run.num(13, 18)):
        where, word = project.path(place), project.words[place % 9]
        if place < 9:
            do(chat, say, read(where, project.source(place)))
        else:
            do(chat, say, read(project.test(place), project.checks(place)))
        text = f"# {word.title()} {place // 9 + 1}\n\n{project.body(place)}\n\nSee {where}."
        done.append(f"{word}-{place // 9 + 1}")
        quiet(chat, write(f"docs/{done[-1]}.md", text))
    chat.say("The document is complete.")


@HALF.template("rewrite", "claude-code opencode", "sections revised", difficulty="medium")
def report_never_done(run: Run, way: str) -> None:
    """A report is finished, read over, found in want of polish, and written again the same."""
    chat = run.chat()
    topic, city = run.pick(*TOPICS), run.pick(*CITIES)
    path = f"reports/{slug(topic)}.md"
    chat.user(f"Write a report of two pages on {topic} in {city} to {path}, from notes/.")
    notes = [f"notes/{slug(word)}.md" for word in run.some(NOUNS, run.num(5, 8))]
    quiet(chat, sh("ls notes", "\n".join(note[6:] for note in notes)))

    def sentence(chance: Random) -> str:
        year, part = chance.randrange(2015, 2026), chance.randrange(3, 90)
        noun, who = chance.choice(NOUNS), chance.choice(PEOPLE)
        return chance.choice(
            (
                f"Since {year} {city} spent {part} million on {topic}, most of it for {noun}s.",
                f"{who} put the share of {topic} in the budget at {part} % in {year}.",
                f"The first {noun} was paid for in {year}, after {part} months of debate.",
                f"Of {part * 7} people asked, {part} % said that {topic} matter most to them.",
                f"By {year} the number of {noun}s had fallen to {part}.",
                f"{who} expects that {topic} will cost {part} euros a head from {year} on.",
                f"A {noun} in {city} is {part} % dearer than in {chance.choice(CITIES)}.",
                f"No figures were collected between {year} and {year + 2}, as {who} points out.",
            )
        )

    for note in notes:
        quiet(chat, read(note, f"- {sentence(run.chance)}\n- {sentence(run.chance)}"))
    text = "\n\n".join(
        f"## {word.title()}\n\n{sentence(run.chance)} {sentence(run.chance)}"
        for word in ("context", "figures", "effects", "outlook")
    )
    text = f"# {topic.title()} in {city}\n\n{text}\n"
    say = Voice(
        run,
        "<^write>[Let me|I'll] [polish|refine|improve] the [wording|flow|report] [a little|once "
        "more].",
        "<^write>[The|This] [report|draft] [reads|looks] [good|well], but [it|the tone] "
        "[can|could] be [better|clearer|tighter].",
        "<^read>[Let me|I'll] [read|review] [it|the report] [again|once more] [with fresh eyes|].",
        "<^write|^read>[A|One] [final|last] [pass|revision] [for clarity|for style|].",
        "<^write>[Writing|I'll write] the [improved|final|polished] version.",
    )
    if way == LOOP:
        chat.act("Now the report.", write(path, text))
        swaps = (
            ("most of it", "much of it"),
            ("spent", "paid out"),
            ("thousand", "thousand euros"),
        )
        for number in range(run.num(9, 14)):
            do(chat, say, read(path, text))
            old, new = run.chance.choice(swaps)
            text = (
                text.replace(old, new)
                if old in text and new not in text
                else text.replace(new, old)
            )
            if number == 2:
                run.begin()
            do(chat, say, write(path, text))
        return
    if way == "revised":
        chat.act("Now the report.", write(path, text))
        for number in range(run.num(6, 9)):
            who, word = run.pick(*PEOPLE), run.pick(*NOUNS)
            remark = f"{who}: say what the {word}s cost, and since when. (remark {number + 1})"
            quiet(chat, sh("tail -1 reports/review.txt", remark))
            text += f"\nOn {word}s: {sentence(run.chance)}\n"
            chat.act(say() if number % 3 == 0 else f"{who.split()[0]} is right.", write(path, text))
        quiet(chat, sh("tail -1 reports/review.txt", "approved"))
        chat.say("The report is approved.")
        return
    written: list[Act] = []
    for word in run.some(NOUNS, run.num(9, 13)):
        part = f"## {word.title()}\n\n" + " ".join(sentence(run.chance) for _ in range(3))
        written.append(write(f"{path[:-3]}-{word}.md", part))
    for place, act in enumerate(written):
        chat.act(f"Section {place + 1} of {len(written)}." * run.num(0, 1), act)
        if run.chance.random() < 0.4:
            quiet(chat, read(act.args["path"], act.args["text"]))
            chat.act(
                "A small change.", write(act.args["path"], f"{act.args['text']} [{run.hex(3)}]")
            )
    chat.say("The report is complete.")
