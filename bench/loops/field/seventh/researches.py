"""Deep research: searches, pages, candidates."""

from __future__ import annotations

from bench.loops.field.cast import Act, tool
from bench.loops.field.run import LOOP, Chat, Run
from bench.loops.field.seventh.common import after, half, person, slug, talk, words

_PLACES = (
    "Ghent",
    "Tartu",
    "Braga",
    "Malmo",
    "Split",
    "Bergen",
    "Lublin",
    "Cadiz",
    "Aarhus",
    "Trieste",
    "Galway",
    "Leiden",
)
_WORKS = (
    "novel",
    "bridge",
    "symphony",
    "observatory",
    "film",
    "expedition",
    "treaty",
    "mosaic",
    "lighthouse",
    "opera",
)


def _hit(run: Run, town: str = "", about: str = "") -> str:
    place, work = town or run.pick(*_PLACES), about or run.pick(*_WORKS)
    return (
        f"{person(run)} and the {work} of {place} ({run.num(1850, 2020)})\n"
        f"https://www.example.{run.pick('org', 'net', 'com')}/{slug(run)}/{run.num(100, 9999)}\n"
        f"... was born in {run.pick(*_PLACES)} and built the {work} of {place} from "
        f"{run.num(1850, 1930)} to {run.num(1931, 2020)} ..."
    )


def _search(query: str, out: str) -> Act:
    return tool("web_search", {"query": query}, out, takes=1.6)


def _begin(run: Run, chat: Chat) -> None:
    """Search and read: each result is another."""
    for _ in run.times(4, 10):
        if run.chance.random() < 0.6:
            query = f"{run.pick(*_WORKS)} {run.pick(*_PLACES)} {run.num(1850, 2020)}"
            say = words(run, "Let me start broad.|Next, the place.|A lead.|Let me narrow it.|")
            chat.act(say, _search(query, "\n\n".join(_hit(run) for _ in range(run.num(2, 5)))))
        else:
            url = f"https://www.example.org/{slug(run)}"
            text = " ".join(_hit(run).split("\n")[2] for _ in range(run.num(3, 8)))
            chat.act(
                words(run, "Read this one.|This looks relevant."),
                tool("open_page", {"url": url}, text),
            )


def _riddle(run: Run) -> str:
    return (
        f"Which {run.pick(*_WORKS)} of the {run.pick('19th', '20th')} century was begun by "
        f"someone from "
        f"{run.pick(*_PLACES)}, finished by a relative, and shown in {run.pick(*_PLACES)} first?"
    )


@half.template("empty-search", "gemini-api langgraph responses-kept", "list survey", "whole")
def reworded(run: Run, way: str) -> None:
    """One question goes to the search in the same few words, and nothing relevant comes."""
    chat = talk(run, way, "You have web_search and open_page.")
    name, place, work = person(run), run.pick(*_PLACES), run.pick(*_WORKS)
    chat.user(
        f"In which year did {name} first see the {work} of {place}? Give a source."
        if way == LOOP
        else f"For each of the 40 towns in the list: who built its {work}, and when?"
    )
    _begin(run, chat)
    terms = [name, work, place, "first visit year"]
    junk = [_hit(run) for _ in range(3)]
    for number in run.times(20, 32):
        if number == 4 and way == LOOP:
            run.begin()
        if way == LOOP:
            shown = run.some(terms, run.pick(3, 3, 4))
            query = run.pick(
                " ".join(shown), f'"{name}" {work} {place}', f"{name} {place} {work} year"
            )
            out = run.pick("No results found.", "\n\n".join(junk), "\n\n".join(junk[::-1]))
            say = words(
                run,
                after(
                    number,
                    "These results are not about this.|Nothing useful.|The search did not return "
                    "it.|Hmm.|",
                ),
                "Let me rephrase.|Let me try other words.|More specific.|I'll search for the year.|"
                "Let me put the name in quotes.",
            )
        else:
            town = (
                f"{run.pick('Upper', 'Lower', 'Old', 'New', 'Saint')} {person(run).split()[1]}ton"
            )
            query = f"{work} {town} {run.pick('architect', 'built by', 'history')}"
            out = "\n\n".join(_hit(run, town, work) for _ in range(run.num(1, 4)))
            if run.chance.random() < 0.15:
                out = "No results found."
            say = words(run, f"Now {town}.|Next town.|Noted.|", quiet=0.35)
        chat.act(say, _search(query, out))
    chat.say("I found no source." if way == LOOP else "The table is done.")


@half.template(
    "wrong-belief", "openai-agents anthropic-mcp gemini-api", "candidates", "elided", "hard"
)
def one_candidate(run: Run, way: str) -> None:
    """The model holds on to one candidate that was ruled out, and checks the same facts."""
    chat = talk(run, way, "You have web_search and open_page.")
    chat.user(_riddle(run))
    _begin(run, chat)
    name, place, year = person(run), run.pick(*_PLACES), run.num(1850, 1960)
    against = f"{name} was born in {place} in {year}; the work was never finished."
    others = list(dict.fromkeys(person(run) for _ in range(60)))
    for number in run.times(22, 32):
        if number == 4 and way == LOOP:
            run.begin()
        if way == LOOP:
            query = run.mix(
                [name], "birthplace|biography|born|finished work|relative", ["", place]
            ).strip()
            out = f"{against}\nhttps://www.example.org/{name.split()[1].lower()}"
            say = words(
                run,
                f"I still think that it is {name}.|{name} fits best.|It must be {name}.|"
                "The place does not fit, but sources may be wrong.|Let me confirm the birthplace.",
                "Let me verify.|I'll check again.|One more search.|",
            )
            if number % 4 == 2:
                url = f"https://www.example.org/{name.split()[1].lower()}"
                chat.act(say, tool("open_page", {"url": url}, against))
                continue
        else:
            who = others[number]
            query = f"{who} {run.pick('born', 'biography', 'works')}"
            born = run.num(1800, 1930)
            out = (
                f"{who} ({born}-{born + run.num(30, 90)}), born in {run.pick(*_PLACES)}, known for "
                f"the {run.pick(*_WORKS)} of {run.pick(*_PLACES)}.\n{_hit(run)}"
            )
            say = words(
                run, f"Candidate: {who}.|{after(number, 'Ruled out. ')}Next: {who}.|", quiet=0.3
            )
        chat.act(say, _search(query, out))
    chat.say(f"It is probably {name}.")


@half.template("blocked-pages", "crewai anthropic-mcp", "sources", "whole", "easy")
def no_access(run: Run, way: str) -> None:
    """Three pages refuse to be read; they are opened in turn, again and again."""
    chat = talk(run, way, "You have web_search and open_page.")
    work = run.pick(*_WORKS)
    chat.user(
        f"Give me the number of visitors of the {work} of {run.pick(*_PLACES)} from its yearbook."
        if way == LOOP
        else f"Collect what at least 20 sources say about the {work}s of {run.pick(*_PLACES)}."
    )
    _begin(run, chat)
    urls = [
        f"https://{person(run).split()[1].lower()}.example.org/yearbook/{run.num(1, 99)}"
        for _ in range(3)
    ]
    for number in run.times(18, 28):
        if number == 3 and way == LOOP:
            run.begin()
        ray = f"{run.hex(16)}-{run.pick('FRA', 'AMS', 'CDG')}"
        walls = (
            f"HTTP 403 Forbidden\nJust a moment... Checking your browser. Ray ID: {ray}",
            "HTTP 403 Forbidden\nAccess denied. Subscribe to read on.",
            "Error: 429 Too Many Requests",
        )
        if way == LOOP:
            place = number % 3 if number < 3 else run.num(0, 2)
            url = urls[place] + run.pick("", "", "?print=1", "#page", "/")
            act = tool("open_page", {"url": url}, walls[place], 1)
            say = words(
                run,
                after(
                    number,
                    "Access is denied.|The page is behind a wall.|Blocked.|403.|That did not "
                    "load.|",
                ),
                "Let me try the other link.|I'll open it again.|Maybe it works now.|Try the "
                "print view.",
            )
        else:
            url = f"https://{slug(run)}.example.net/{run.num(100, 999)}"
            bad = run.chance.random() < 0.3
            text = " ".join(_hit(run).split("\n")[2] for _ in range(run.num(2, 7)))
            act = tool("open_page", {"url": url}, run.pick(*walls) if bad else text, int(bad))
            say = words(run, f"Source {number + 1}.|Next source.|Useful.|", quiet=0.4)
        chat.act(say, act)
    chat.say("The yearbook cannot be read." if way == LOOP else "Here is what they say.")
