"""Browsers and desktops: clicks without effect, pages that come back, lists scrolled in vain."""

from __future__ import annotations

import json
from typing import Any

from bench.loops.field.cast import tool
from bench.loops.field.run import LOOP, Run
from bench.loops.field.sixth.common import (
    CITIES,
    FIRMS,
    HALF,
    NOUNS,
    PEOPLE,
    Voice,
    do,
    quiet,
    slug,
    tell,
)
from bench.loops.field.wire import Json

_CLICK = {"click": {"index": 9}}


class Browsing:
    """The steps of a browser agent that sends its memory and the page in one prompt."""

    def __init__(self, run: Run, task: str) -> None:
        self.run, self.task = run, task
        self.history: list[str] = []

    def step(
        self, url: str, page: list[str], goal: str, action: dict[str, Any], judged: str
    ) -> None:
        run = self.run
        rows = "\n".join(f"[{place}]{row}" for place, row in enumerate(page, 1))
        number = len(self.history) + 1
        prompt = (
            "<agent_history>\n" + "\n".join(self.history[-25:]) + "\n</agent_history>\n"
            f"<agent_state>\n<user_request>\n{self.task}\n</user_request>\n<step_info>\nStep "
            f"{number} of 60 max possible steps\nCurrent date and time: "
            f"{run.stamp('%Y-%m-%d %H:%M')}\n</step_info>\n</agent_state>\n<browser_state>\n"
            f"Current url: {url}\nAvailable tabs:\nTab {run.session[:4]}: {url}\nInteractive "
            f"elements from top layer of the current page inside the "
            f"viewport:\n{rows}\n</browser_state>"
        )
        answer = {
            "thinking": f"{judged} {goal}",
            "evaluation_previous_goal": judged,
            "memory": f"Step {number}. {goal}",
            "next_goal": goal,
            "action": [action],
        }
        run.once(prompt, json.dumps(answer))
        ((name, _),) = action.items()
        self.history.append(
            f"<step_{number}>\nEval: {judged}\nNext: {goal}\nAction: {name} "
            f"{json.dumps(action[name])}"
            f"\n</step_{number}>"
        )
        run.wait(1.5, 5)


@HALF.template("click", "browser-use browser-use browser-use", "wizard records", shows="prompt")
def click_without_effect(run: Run, way: str) -> None:
    """A button of a form does nothing, and is clicked again, and by other means."""
    firm = run.pick(*FIRMS)
    host = f"https://portal.{slug(firm)}.example"
    person, city = run.pick(*PEOPLE), run.pick(*CITIES)
    task = {
        LOOP: f"Register {person} from {city} for the supplier portal of {firm}.",
        "wizard": f"Register {person} from {city} for the supplier portal of {firm}.",
        "records": f"On {host}, mark each open order as received, one after the other.",
    }[way]
    web = Browsing(run, task)
    menu = ["<a >Home</a>", "<a >Suppliers</a>", "<a >Contact</a>"]
    fields = run.some(("Name", "E-mail", "Street", "Postcode", "City", "VAT number", "Phone"), 5)
    web.step("about:blank", [], "Open the portal.", {"navigate": {"url": host}}, "The start.")
    web.step(host, menu, "Open the suppliers.", {"click": {"index": 2}}, "Success: it is open.")
    page, url = (
        [*menu, "<button >Register</button>", "<button >Log in</button>"],
        f"{host}/suppliers",
    )
    web.step(
        url, page, "Go on from here.", {"click": {"index": 4}}, "Success: the page has a button."
    )
    if way == "records":
        number, url = run.num(1000, 9000), f"{host}/orders?state=open"
        left = run.num(16, 24)
        while left:
            number += run.num(1, 9)
            rows = [f"<tr >#{number + at * 7} {run.pick(*NOUNS)} open</tr>" for at in range(3)]
            rows.append(f"<div >{left} open orders</div>")
            goal = f"Mark #{number} as received; {left} are left."
            judged = run.pick("Success: it is marked.", "Success.", "Success: the row is gone.")
            web.step(url, [*menu, *rows], goal, {"click": {"index": 4}}, judged)
            left -= 1
        done = {"done": {"text": "All orders are marked.", "success": True}}
        web.step(url, [*menu, "<div >0 open orders</div>"], "Done.", done, "Success.")
        return
    url, filled = f"{host}/suppliers/register", dict.fromkeys(fields, "")

    def form(more: str = "") -> list[str]:
        rows = [f"<input label={key} value={value!r} />" for key, value in filled.items()]
        return [*menu, *rows, "<button >Continue</button>", *([more] if more else [])]

    for place, key in enumerate(fields, 4):
        value = {"Name": person, "City": city}.get(key, f"{run.hex(4)} {run.num(1, 90)}")
        judged = run.pick("Success: the field is filled.", "Success.", "The form is open.")
        action = {"input": {"index": place, "text": value}}
        web.step(url, form(), f"Fill in the {key.lower()}.", action, judged)
        filled[key] = value
    verdict = Voice(
        run,
        "[Failed|Failure]: the [page|form] [did not change|is the same].",
        "[Uncertain|Unclear]: [nothing happened|no change] after the click.",
        "[Failed|Failure]: [still|we are still] on the [form|same page].",
        empty=0,
    )
    tries: list[tuple[str, dict[str, Any]]] = [
        ("Click [Continue|the Continue button] [again|once more|] to [submit|go on].", _CLICK),
        ("[Press|Click on] Continue [to get to the next step|again].", _CLICK),
        ("[Submit|Send] the form with the button [9|at index 9].", _CLICK),
        (
            "[Try|Press] Enter in the [last field|form] [instead|].",
            {"send_keys": {"keys": "Enter"}},
        ),
        (
            "[Scroll|Scroll down] to [see whether there is an error|look for another button].",
            {"scroll": {"down": True, "pages": 0.5}},
        ),
        ("[Wait|Wait a moment] [for the page|and retry].", {"wait": {"seconds": 3}}),
    ]
    if way == LOOP:
        for number in range(run.num(16, 36)):
            if number == 2:
                run.begin()
            goal, action = run.chance.choice(tries) if number > 1 else tries[number]
            web.step(url, form(), tell(run, goal), action, verdict() if number else "Success.")
        return
    steps = run.some(("Bank", "Products", "Contacts", "Terms", "Certificates", "Delivery"), 5)
    for step, name in enumerate(steps, 2):
        action = {"click": {"index": 9}}
        web.step(url, form(), "Continue.", action, "Success: all is filled.")
        if run.chance.random() < 0.3:
            note = "<div role=alert >Please fill in all fields</div>"
            web.step(url, form(note), "One field is empty; fill it in.", action, verdict())
        url = f"{host}/suppliers/register?step={step}"
        filled = {f"{name} {key}": "" for key in run.some(NOUNS, 2)}
        for place, key in enumerate(list(filled), 4):
            value = f"{run.hex(4)}"
            typed = {"input": {"index": place, "text": value}}
            web.step(url, form(), f"Fill in {key}.", typed, "Success.")
            filled[key] = value
    done = {"done": {"text": f"{person} is registered.", "success": True}}
    web.step(url, ["<h1 >Thank you</h1>"], "Done.", done, "Success.")


@HALF.template("captcha", "browser-use browser-use", "shops", shows="prompt", difficulty="easy")
def robots_keep_out(run: Run, way: str) -> None:
    """Each page of a shop turns out to be a check for robots, which the agent calls up again."""
    what = run.pick("espresso grinder", "bike trailer", "label printer", "standing desk", "tent")
    model = f"{run.pick('K', 'M', 'T')}{run.num(100, 900)}"
    web = Browsing(run, f"Find the cheapest offer for the {what} {model} with delivery to Ghent.")
    shops = [f"https://shop.{slug(firm)}.example" for firm in run.some(FIRMS, 14)]
    web.step("about:blank", [], "Open a shop.", {"navigate": {"url": shops[0]}}, "The start.")
    box = ["<input label=Search />", "<a >Basket</a>", "<a >Log in</a>"]
    wall = ["<h1 >Are you a robot?</h1>", "<iframe title=challenge />", f"<p >ID {run.hex(8)}</p>"]
    goals = Voice(
        run,
        "[Try|Click] the [checkbox|challenge] [again|].",
        "[Reload|Refresh] the page [to get past the check|].",
        "[Go|Navigate] [back|to the search page] [again|and search anew].",
        "[Wait|Wait a little] for the [check|verification] to [pass|finish].",
        empty=0,
    )
    for shop in shops[: 4 if way == LOOP else 14]:
        search = {"input": {"index": 1, "text": f"{what} {model}"}}
        web.step(shop, box, f"Search for {model}.", search, "Success: the shop is open.")
        if run.chance.random() < 0.2:
            title = {"navigate": {"url": shop}}
            web.step(shop, wall, "A check for robots; I'll skip this shop.", title, "Failed.")
            continue
        price = f"<div >{what} {model}: {run.dec(80, 900)} EUR, delivery {run.dec(0, 19)} EUR</div>"
        nearby = {"navigate": {"url": shops[(shops.index(shop) + 1) % 14]}}
        web.step(
            f"{shop}/s?q={model}", [*box, price], "Note the price; next shop.", nearby, "Success."
        )
    if way != LOOP:
        done = {"done": {"text": "The cheapest offer is noted.", "success": True}}
        web.step(shops[-1], box, "Done.", done, "Success.")
        return
    shop = shops[4]
    for number in range(run.num(16, 24)):
        if number == 3:
            run.begin()
        action: Json = run.pick(
            {"click": {"index": 2}},
            {"navigate": {"url": f"{shop}/s?q={model}"}},
            {"navigate": {"url": shop}},
            {"wait": {"seconds": 5}},
        )
        wall[2] = f"<p >ID {run.hex(8)}</p>"
        judged = run.pick("Failed: still the check for robots.", "Failed.", "The check is back.")
        web.step(f"{shop}/challenge?r={run.hex(6)}", wall, goals(), action, judged)


@HALF.template("login", "computer-use computer-use", "invoices again", difficulty="medium")
def login_that_does_not_hold(run: Run, way: str) -> None:
    """After each log-in the session is lost, and the log-in page is there again."""
    chat = run.chat()
    firm, user = run.pick(*FIRMS), f"{run.pick('office', 'billing', 'desk')}{run.num(1, 40)}"
    count = run.num(7, 10)
    chat.user(
        f"In the ledger of {firm} (in Firefox, user {user}, password in the notes), enter the "
        f"{count} invoices that lie on the desktop as pictures."
    )

    def press(say: str | Voice, screen: str, noise: bool = False, **args: object) -> None:
        act = tool("computer", dict(args), image=run.screen(screen, noise), takes=1.4)
        chat.act(say if isinstance(say, str) else say(act), act)

    press("I'll take a screenshot first.", "desktop", action="screenshot")
    for number in range(3 if way == LOOP else 2):
        at = [run.num(60, 1200), run.num(60, 700)]
        press("", f"picture {number}", action="double_click", coordinate=at)
        press("I've read the invoice.", "desktop", action="key", text="alt+F4")
    press("Now Firefox.", "login", action="left_click", coordinate=[44, 780])
    say = Voice(
        run,
        "<click.*, 310>[I'm|I am] [back|again] at the log-in [page|screen]. [Logging in|I'll "
        "log in] [again|].",
        "<click.*, 310>[The|My] session [has expired|seems to be lost]. [Let me|I'll] "
        "[sign|log] in [again|].",
        "<type.*(office|billing|desk)>[Typing|Entering] the [name|user name].",
        "<364|from-the-notes>[Now|Next] the password.",
        "<420>[Clicking|I'll click] on [Log in|the button].",
        "<120, 240>[Let me|I'll] [check|see] [whether it worked|the invoices now].",
        empty=0.25,
    )
    spots = [[run.num(560, 720), y] for y in (310, 364, 420)]
    if way != "invoices":
        for number in range(run.num(4, 6) if way == LOOP else 1):
            if number == 1:
                run.begin()
            press(say, "login", action="left_click", coordinate=spots[0])
            press(say, "login name", action="type", text=user)
            press(say, "login name", action="left_click", coordinate=spots[1])
            press(say, "login both", action="type", text="from-the-notes")
            press(say, "ledger", noise=True, action="left_click", coordinate=spots[2])
            press(say, "login", action="left_click", coordinate=[120, 240])
        if way == LOOP:
            return
        press(
            "I'll tick 'Keep me logged in'.",
            "login tick",
            action="left_click",
            coordinate=[560, 392],
        )
    press(say, "login name", action="type", text=user)
    press(say, "login both", action="type", text="from-the-notes")
    press("", "ledger", action="left_click", coordinate=spots[2])
    for number in range(count):
        press(
            f"Invoice {number + 1}.", f"form {number}", action="left_click", coordinate=[120, 240]
        )
        total = f"{run.num(1000, 9999)}\t{run.pick(*FIRMS)}\t{run.dec(10, 4000)}"
        press(say if number < 2 else "", f"filled {number}", action="type", text=total)
        press("", f"ledger {number + 1}", action="left_click", coordinate=spots[2])
    chat.say(f"All {count} invoices are entered.")


@HALF.template(
    "scroll", "computer-use computer-use anthropic-mcp", "long found", difficulty="medium"
)
def scrolled_up_and_down(run: Run, way: str) -> None:
    """Something that the list does not have is looked for, up and down the whole list."""
    chat = run.chat()
    firm, person = run.pick(*FIRMS), run.pick(*PEOPLE)
    if way == "long":
        chat.user(f"Go through the whole customer list of {firm} and note all with red flags.")
    else:
        chat.user(f"Find {person} in the customer list of {firm} and open the entry.")
    desk = run.form == "computer-use"
    rows = [f"{run.pick(*PEOPLE)} {run.num(100, 999)}, {run.pick(*CITIES)}" for _ in range(240)]
    rows = [row.replace(person, "A. Guest") for row in rows]

    def view(say: str, name: str, screen: str, top: int, args: dict[str, Any]) -> None:
        if desk:
            act = tool("computer", args, image=run.screen(screen), takes=1.2)
        else:
            lines = "\n".join(
                f"  - row [ref=e{40 + at}]: {rows[at]}" for at in range(top, min(top + 9, 240))
            )
            text = f"- Page URL: https://crm.{slug(firm)}.example/list\n- table:\n{lines}"
            plain_args = {"direction": args["scroll_direction"]} if name == "scroll" else {}
            if name == "type":
                plain_args = {"ref": f"e{top % 60}", "text": args["text"]}
            elif name in ("click", "zoom"):
                plain_args = {"ref": f"e{top % 60}"}
            act = tool(f"browser_{name.replace('zoom', 'click')}", plain_args, text)
        chat.act(say, act)

    view("I'll see what is there.", "snapshot", "list 0", 0, {"action": "screenshot"})
    say = Voice(
        run,
        "[Scrolling|Let me scroll|I'll scroll] [down|on|further].",
        "[Not|Not here|No sign] yet. [Going on|Continuing].",
        "[Let me|I'll] [look above|look further up|check the top] [again|].",
        "[I may have|Perhaps I] missed [it|the entry]. [Back|Let me go back].",
        "[I don't|I do not] see {} [here|on this part].".format(person if way == LOOP else "any"),
        empty=0.3,
        first="[I'll|Let me] scroll through the list.",
    )
    last, top, step = run.num(20, 25) if way == "long" else run.num(5, 7), 0, 1
    for number in range(run.num(last + 20, last + 28) if way == LOOP else last):
        if way == LOOP and number == last * 2:
            run.begin()
        if way == LOOP and (top == last or (top == 0 and number)):
            step = -1 if top == last else 1
        top += step
        up = "down" if step > 0 else "up"
        args: dict[str, Any] = {"action": "scroll", "scroll_direction": up, "scroll_amount": 9}
        if desk:
            args["coordinate"] = [640, 420]
        view(say(), "scroll", f"list {top}", top * 9, args)
        if way == "long" and run.chance.random() < 0.2:
            note = {"action": "zoom", "region": [0, number, 900, 700]}
            view("A red flag; I'll look closer.", "zoom", f"zoom {number}", top * 9 + 2, note)
    if way == "found":
        chat.user(f"Then also correct the entry: {', '.join(run.some(NOUNS, 6))}.")
        for number in range(run.num(9, 12)):
            args = {"action": "left_click", "coordinate": [run.num(90, 900), 90 + number * 50]}
            view(
                f"Field {number + 1}." * run.num(0, 1),
                "click",
                f"entry {number}",
                top + number,
                args,
            )
            args = {"action": "type", "text": f"{run.pick(*CITIES)} {run.num(1, 90)}"}
            view("", "type", f"entry {number} filled", top + number + 20, args)
        chat.say("The entry is corrected.")
    if way == "long":
        chat.say("The list is complete; those with red flags are noted.")


@HALF.template(
    "covered", "anthropic-mcp langgraph openai-agents", "products closed", difficulty="easy"
)
def element_that_is_covered(run: Run, way: str) -> None:
    """A banner lies over the button; each click times out with the same words."""
    chat = run.chat()
    firm = run.pick(*FIRMS)
    host = f"https://admin.{slug(firm)}.example"
    words = run.some(NOUNS, 12)
    prefix = run.pick("browser_", "playwright_", "mcp__playwright__browser_")
    if way == "products":
        chat.user(f"On {host}, raise the price of all twelve products by 4 %.")
    else:
        chat.user(f"On {host}, export the list of products as CSV and tell me how many there are.")

    def snapshot(word: str, price: float, more: str = "") -> str:
        return (
            f"### Page state\n- Page URL: {host}/products/{word}\n- Page Title: {word.title()}\n"
            f'```yaml\n- heading "{word.title()}" [level=1] [ref=e4]\n- textbox "Price" [ref=e19]: '
            f'"{price}"\n- button "Save" [ref=e23]\n- button "Export" [ref=e27]\n{more}```'
        )

    chat.act("I'll open the site.", tool(f"{prefix}navigate", {"url": host}, snapshot("home", 0)))
    price = 0.0
    for word in words[:3]:
        price = run.dec(3, 90)
        link = {"element": f"{word} link", "ref": f"e{run.num(30, 90)}"}
        quiet(chat, tool(f"{prefix}click", link, snapshot(word, price)))
    quiet(chat, tool(f"{prefix}tabs", {"action": "list"}, f"- 0: (current) {host}"))
    say = Voice(
        run,
        "<click>[Let me|I'll] click [Export|on Export|the Export button] [again|once more|].",
        "<snapshot>[Let me|I'll] take a [new|fresh] snapshot [first|].",
        "<click>[The|This] click timed out. [Retrying|I'll retry] [it|now].",
        "<wait_for|click>[Perhaps|Maybe] the page [is still loading|was not ready]. [Again|Once "
        "more].",
        "<click>[Trying|Let me try] [the button|it] with [the current|a fresh] reference.",
        first="[Now|Let me do] the export.",
    )
    cover = '- dialog "We value your privacy" [ref=e91]\n'
    if way != "products":
        for number in range(run.num(18, 27) if way == LOOP else 4):
            if number == 3:
                run.begin()
            kind = run.num(0, 5) if number else 1
            if kind == 0:
                act = tool(f"{prefix}snapshot", {}, snapshot(words[2], price, cover))
            elif kind == 5:
                act = tool(f"{prefix}wait_for", {"time": run.num(2, 5)}, "Waited.", takes=4.0)
            else:
                args = {"element": run.pick("Export", "Export button"), "ref": "e27"}
                error = (
                    "### Error\nTimeoutError: locator.click: Timeout 5000ms exceeded.\nCall log:\n"
                    "  - waiting for locator('aria-ref=e27')\n    - locator resolved to <button "
                    'id="export">Export</button>\n  - attempting click action\n    2 times '
                    "waiting for element to be visible, enabled and stable\n      - <div "
                    'class="consent">…</div> '
                    "intercepts pointer events\n    - retrying click action"
                )
                act = tool(f"{prefix}click", args, error, 1, takes=5.2)
            do(chat, say, act)
        if way == LOOP:
            return
        reject = {"element": "Reject all", "ref": "e93"}
        chat.act(
            "A dialog lies over it.", tool(f"{prefix}click", reject, snapshot(words[2], price))
        )
        for word in words[3:]:
            text = snapshot(word, run.dec(3, 90), f"- row {run.num(1, 90)} {word} [ref=e77]\n")
            link = {"element": f"{word} link", "ref": f"e{run.num(30, 90)}"}
            chat.act(say() if word == words[3] else "", tool(f"{prefix}click", link, text))
            text = f"### Downloads\n- {word}-{run.stamp('%H%M%S')}.csv, {run.num(2, 90)} rows"
            export = {"element": "Export", "ref": "e27"}
            quiet(chat, tool(f"{prefix}click", export, text))
        chat.say("All lists are exported.")
        return
    for word in words:
        price = run.dec(3, 90)
        link = {"element": f"{word} link", "ref": f"e{run.num(30, 90)}"}
        new = round(price * 1.04, 2)
        chat.act(
            f"Now {word}." * run.num(0, 1), tool(f"{prefix}click", link, snapshot(word, price))
        )
        typed = {"element": "Price", "ref": "e19", "text": str(new)}
        quiet(chat, tool(f"{prefix}type", typed, snapshot(word, new)))
        save = {"element": "Save button", "ref": "e23"}
        text = snapshot(word, new, f'- status "Saved at {run.stamp("%H:%M:%S")}" [ref=e40]\n')
        quiet(chat, tool(f"{prefix}click", save, text))
    chat.say("All twelve prices are raised.")
