"""Browsers and desktops: clicks that do nothing, banners that "
"return, screens that stay the same."""

from __future__ import annotations

import json
from typing import Any

from bench.loops.field.cast import Act, tool
from bench.loops.field.fifth.common import (
    CITIES,
    FIRMS,
    HALF,
    PEOPLE,
    ask_to,
    asked_before,
    look,
    maybe,
    onward,
)
from bench.loops.field.run import LOOP, Run


class Browser:
    """An agent of browser-use: each prompt has its history and the state of the page."""

    def __init__(self, run: Run, task: str) -> None:
        self.run, self.task = run, task
        self.history: list[str] = []

    def step(self, state: str, goal: str, memory: str, action: dict[str, Any], result: str) -> None:
        """Send the state of the page; the model answers with an action."""
        run, number = self.run, len(self.history) + 1
        past = "\n".join(self.history[-12:])
        prompt = (
            f"<agent_history>\n{past}\n</agent_history>\n<agent_state>\n<user_request>\n{self.task}\n"
            f"</user_request>\n<step_info>Step {number} of 100\nCurrent date: "
            f"{run.stamp('%Y-%m-%d %H:%M')}</step_info>\n</agent_state>\n<browser_state>\n{state}\n"
            "</browser_state>"
        )
        answer = {
            "thinking": f"{memory} {goal}",
            "evaluation_previous_goal": run.pick("Uncertain", "Verdict: see state", "Partly done"),
            "memory": memory,
            "next_goal": goal,
            "action": [action],
        }
        run.once(prompt, json.dumps(answer))
        self.history.append(
            f"<step_{number}>\nMemory: {memory}\nNext Goal: "
            f"{goal}\nAction Results: {result}\n</step>"
        )
        run.wait(1, 5)


def _state(url: str, title: str, elements: list[str]) -> str:
    foot = [f"a {word}" for word in ("Imprint", "Terms", "Careers", "Press", "Stores", "Dealers")]
    shown = [*elements, *foot, "select language=en", "button Accept newsletter"]
    rows = "\n".join(f"[{place}]<{element} />" for place, element in enumerate(shown, 1))
    return (
        f"Current tab: {len(url) % 9}A\nAvailable tabs:\nTab {len(url) % 9}A: {url} - {title}\n\n"
        f"Interactive elements of the page, {len(elements) // 4} pages below:\n{rows}"
    )


@HALF.template("browser", "browser-use browser-use", "wizard listing", "prompt")
def button_without_effect(run: Run, way: str) -> None:
    """Click a button that does nothing; scroll, wait, click it again."""
    firm, city, person = run.pick(*FIRMS), run.pick(*CITIES), run.pick(*PEOPLE)
    host = f"https://portal.{firm.split()[0].lower()}.example"
    task = {
        LOOP: f"Order 40 brochures on {host} for {person}, {city}.",
        "wizard": f"Apply for a dealership on {host} in the name of {person}, {city}.",
        "listing": f"Make a list of all products on {host} with prices.",
    }[way]
    agent = Browser(run, task)
    base = [
        "a Home",
        "a Products",
        "a Contact",
        "input name=search",
        f"button Cart ({run.num(0, 3)})",
    ]
    agent.step(
        _state(host, firm, [*base, "a Order brochures", "a Become a dealer"]),
        "Open the page that the task needs.",
        "I am on the start page.",
        {"click": {"index": 6}},
        "Clicked a link; the page changed.",
    )
    names = ["full name", "street", "city", "phone", "e-mail"]
    page = f"{host}/{way if way != LOOP else 'brochures'}"
    form = [*base, *(f"input placeholder={name} value=" for name in names)]
    if way == LOOP:
        for place, name in enumerate(names):
            form[5 + place] += person if not place else f"{city} {place}"
            agent.step(
                _state(page, "Order", [*form, "button Send order"]),
                f"Fill in the {name}.",
                f"{place} fields of 5 are filled in.",
                {"input": {"index": 6 + place, "text": form[5 + place].split("=")[-1]}},
                f"Typed into the field {name}.",
            )
        for number in run.times(20, 26):
            if number == 2:
                run.begin()
            kind = run.pick("click", "click", "click", "scroll", "wait", "key")
            actions: dict[str, dict[str, Any]] = {
                "click": {"click": {"index": 11}},
                "scroll": {"scroll": {"down": True, "pages": run.pick(0.5, 1.0)}},
                "wait": {"wait": {"seconds": run.num(2, 5)}},
                "key": {"send_keys": {"keys": "Enter"}},
            }
            action = actions[kind]
            goal = run.mix(
                "Click Send order|Submit the form|Press the button|Try to send the order",
                "again.|once more.|and see whether a confirmation appears.|to complete the order.",
            )
            memory = run.mix(
                "All fields are filled in.|The form is complete.|Five of five fields are done.",
                "The page did not change.|No confirmation yet.|The order is not sent.",
            )
            result = {
                "click": "Clicked button Send order",
                "scroll": "Scrolled down",
                "wait": "Waited",
                "key": "Sent keys: Enter",
            }[kind]
            agent.step(
                _state(page, "Order", [*form, "button Send order"]), goal, memory, action, result
            )
        return
    for number in range(run.num(18, 26)):
        if way == "wizard":
            name = f"{run.pick('sales in', 'staff in', 'shops in')} {run.pick(*CITIES)} {number}"
            value = run.num(1, 900)
            rows = [*base, f"input placeholder={name} value={value}", "button Next", "button Back"]
            goal, memory = f"Go on from {name}.", f"Page {number + 1}: {name} is {value}."
            done = f"Clicked Next; page {number + 2} of 30 is shown."
        else:
            goods = [
                f"a {one.split()[0]} pump {run.num(10, 900)} EUR" for one in run.some(FIRMS, 5)
            ]
            rows = [*base, *goods, "a Next page"]
            goal, memory = "Open the next page.", f"{5 * number} products so far; new: {goods[0]}"
            done = f"Clicked Next page; {page}?p={number + 2}"
        agent.step(
            _state(f"{page}?p={number + 1}", f"{way} {number + 1}", rows),
            goal,
            memory,
            {"click": {"index": len(rows)}},
            done,
        )


@HALF.template("desktop", "computer-use computer-use", "entry slides", difficulty="easy")
def same_screen(run: Run, way: str) -> None:
    """Click, look at the screen, which shows the same dialog, and click again."""
    chat = run.chat()
    firm = run.pick(*FIRMS)
    x, y = run.num(300, 900), run.num(200, 600)
    what = {
        LOOP: f"open the file {firm.split()[0]}.ods in the office program and print it.",
        "entry": f"enter the twelve addresses of {firm} from addresses.txt into the form.",
        "slides": "go through the slides of the talk and tell me which have no title.",
    }[way]
    chat.user(ask_to(run, what))

    def screen(name: str, noise: bool = False) -> Act:
        return tool("computer", {"action": "screenshot"}, image=run.screen(name, noise))

    def click(across: int, down: int, name: str) -> Act:
        args = {"action": "left_click", "coordinate": [across, down]}
        return tool("computer", args, image=run.screen(name))

    chat.act("I look at the screen.", screen("desktop"))
    chat.act("", click(40, 40, "menu"))
    chat.act("The program opens.", click(120, 300, "program"))
    if way == LOOP:
        chat.act("I open the file and choose Print.", click(200, 90, "dialog"))
        for number in run.times(20, 26):
            if number == 2:
                run.begin()
            near = (x + run.num(-6, 6), y + run.num(-4, 4))
            say = run.mix(
                "The dialog is still open.|Nothing has changed.|The "
                "button was not pressed, it seems.",
                "I click on Print again.|Let me click more precisely.|I "
                "try once more.|I look again.",
            )
            if run.chance.random() < 0.25:
                chat.act(maybe(run, say), screen("dialog"))
            elif run.chance.random() < 0.15:
                args = {"action": "key", "text": "Return"}
                chat.act(maybe(run, say), tool("computer", args, image=run.screen("dialog")))
            else:
                chat.act(maybe(run, say), click(*near, "dialog"))
        return
    for number in range(12):
        if way == "slides":
            args = {"action": "key", "text": "Page_Down"}
            say = maybe(run, run.pick(f"Slide {number + 1} has a title.", "No title here."), 0.8)
            chat.act(say, tool("computer", args, image=run.screen(f"slide {number}")))
            if number % 3 == 1:
                chat.act("", click(x, y, f"slide {number} outline"))
            continue
        text = f"{run.pick(*PEOPLE)}, {run.num(1, 99)} Quay, {run.pick(*CITIES)}"
        chat.act(maybe(run, onward(run, f"address {number + 1}")), click(x, y, f"form {number}"))
        args = {"action": "type", "text": text}
        chat.act("", tool("computer", args, image=run.screen(f"form {number} {text}")))
        chat.act(maybe(run, "Save.", 0.4), click(x, y + 90, f"saved {number}"))
    chat.say("That was the last one.")


@HALF.template("page-tools", "anthropic-mcp openai-agents", "catalogue checkout")
def banner_returns(run: Run, way: str) -> None:
    """Close a banner that is back with the next snapshot, in a browser behind tools."""
    chat = run.chat("Use the browser tools.")
    asked_before(run, chat)
    firm = run.pick(*FIRMS)
    url = f"https://www.{firm.split()[0].lower()}.example"
    what = {
        LOOP: f"what does the cheapest lamp cost on {url}?",
        "catalogue": f"write down all lamps of {url} with prices, over all pages of the catalogue.",
        "checkout": f"put the nine spare parts of the list into the cart "
        f"on {url}, but do not order.",
    }[way]
    chat.user(ask_to(run, what))

    menu = [f'link "{word}"' for word in ("Home", "Shop", "Lamps", "Parts", "Help", "Stores")]
    foot = [f'link "{word}"' for word in ("Imprint", "Terms", "Cookies", "Careers", "Newsletter")]

    def snapshot(title: str, lines: list[str], page: str = "") -> str:
        refs = "\n".join(
            f"  - {line} [ref=e{len(title) + place}]"
            for place, line in enumerate([*lines, *menu, 'img "logo"', *foot, 'text "© 2026"'])
        )
        return (
            f"### Ran code\n```js\nawait page.goto('{url}{page}');\n```\n### Page state\n"
            f"- Page URL: {url}{page}\n- Page Title: {title}\n- Console: {len(lines)} messages\n"
            f"- Snapshot:\n```yaml\n- generic [active] [ref=e1]:\n{refs}\n```"
        )

    banner = ['dialog "Your privacy counts"', 'button "Accept all"', 'button "Settings"']
    first = snapshot(firm, ['link "Lamps"', 'link "Parts"', 'textbox "Search"'])
    chat.act("I open the page.", tool("browser_navigate", {"url": url}, first))
    chat.act(look(run, "the lamps"), tool("browser_snapshot", {}, first))
    if way == LOOP:
        shown = snapshot("Lamps", [*banner, 'text "Loading"'], "/lamps")
        for number in run.times(20, 25):
            if number == 3:
                run.begin()
            name = run.pick(
                "browser_click", "browser_click", "browser_snapshot", "browser_navigate"
            )
            button = run.pick("Accept all", "Accept all", "Settings")
            args: dict[str, Any] = {
                "browser_click": {
                    "element": f"button {button}",
                    "ref": "e6" if button == "Accept all" else "e7",
                },
                "browser_snapshot": {},
                "browser_navigate": {"url": f"{url}/lamps"},
            }[name]
            say = run.mix(
                "The banner is in the way.|There is still the banner.|The "
                "page reloaded with the banner.",
                "I accept it.|Let me close it first.|I click it again.|I look at the page.",
            )
            took = run.dec(0.4, 3)
            chat.act(maybe(run, say), tool(name, args, shown, takes=took))
        return
    for number in range(run.num(14, 20) if way == "catalogue" else 9):
        if way == "catalogue":
            lamps = [
                f'listitem "{run.pick(*CITIES)} lamp, {run.dec(9, 400)} EUR"' for _ in range(4)
            ]
            page = f"/lamps?page={number + 1}"
            out = snapshot(f"Lamps {number + 1}", [*lamps, 'link "Next"'], page)
            args = {"element": "link Next", "ref": f"e{number + 9}"}
            chat.act(maybe(run, f"Page {number + 1}."), tool("browser_click", args, out))
            continue
        part = f"{run.pick('valve', 'seal', 'fan', 'gauge')} {run.hex(4).upper()}"
        out = snapshot("Search", [f'link "{part}"', 'button "Add to cart"'], f"/s?q={part[-4:]}")
        args = {"element": "textbox Search", "ref": "e6", "text": part, "submit": True}
        chat.act(maybe(run, onward(run, part)), tool("browser_type", args, out))
        out = snapshot("Cart", [f'text "{number + 1} parts"', f'link "{part}"'], "/cart")
        args = {"element": "button Add to cart", "ref": "e7"}
        chat.act("", tool("browser_click", args, out))
    chat.say("All pages are read." if way == "catalogue" else "The nine parts are in the cart.")
