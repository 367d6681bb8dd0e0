"""Tasks on a desktop that is seen by screenshots."""

from __future__ import annotations

from typing import Any

from bench.loops.field.cast import Act, tool
from bench.loops.field.run import LOOP, Chat, Run
from bench.loops.field.seventh.common import after, half, matter, person, talk, words
from bench.loops.field.wire import Json


def _do(run: Run, screen: str, action: str, noise: bool = False, **args: Any) -> Act:
    image = run.screen(screen, noise)
    return tool("computer", {"action": action, **args}, "", takes=2.0, image=image)


def _at(run: Run, x: int, y: int, spread: int = 6) -> list[int]:
    return [x + run.num(-spread, spread), y + run.num(-spread, spread)]


def _start(run: Run, chat: Chat, app: str) -> None:
    """Open an application: each step shows another screen."""
    chat.act(words(run, "Let me see the desktop."), _do(run, "desktop", "screenshot"))
    place = _at(run, 40, 300, 30)
    chat.act(f"I'll open {app}.", _do(run, "starting", "double_click", coordinate=place))
    for number in run.times(3, 7):
        place = _at(run, run.num(80, 1200), run.num(60, 740))
        say = words(
            run, "The window is open.|Now the menu.|Let me find the file.|Next.|I see the page."
        )
        chat.act(say, _do(run, f"start{number}", "left_click", coordinate=place))


@half.template("missed-click", "computer-use computer-use", "cells slides", "whole", "easy")
def menu_entry(run: Run, way: str) -> None:
    """An entry of a menu does not react; it is clicked at places a few pixels apart."""
    chat = talk(run, way)
    app = run.pick("LibreOffice Calc", "GIMP", "LibreOffice Impress", "Thunderbird", "VLC")
    entry = run.pick(
        "Freeze Rows", "Sort Descending", "Export as PDF", "Page Number", "Canvas Size"
    )
    chat.user(
        f"Use {entry} of {app} on the file that is open."
        if way == LOOP
        else f"Type the figures of the paper list on the desktop into the table in {app}, "
        f"{entry} last."
    )
    _start(run, chat, app)
    x, y = run.num(200, 900), run.num(90, 500)
    noisy = run.chance.random() < 0.4
    for number in run.times(18, 28):
        if number == 2 and way == LOOP:
            run.begin()
        if way == LOOP:
            say = words(
                run,
                after(
                    number,
                    "The menu is still open.|Nothing has changed.|The click did not register.|"
                    "I do not see the dialog.|The screen is the same.",
                ),
                f"I'll click on {entry} again.|A bit lower.|Let me click it in the middle.|Try "
                f"again.|",
            )
            action = run.pick(
                "left_click", "left_click", "left_click", "double_click", "mouse_move"
            )
            chat.act(say, _do(run, "menu", action, noisy, coordinate=_at(run, x, y)))
        else:
            name = "B" if way == "cells" else "slide "
            say = words(run, f"Now {name}{number + 2}.|Next.|", quiet=0.4)
            if number % 2:
                act = _do(run, f"{way}{number}", "type", text=f"{run.dec(2, 900)}\n")
            else:
                act = _do(run, f"{way}{number}", "left_click", coordinate=[x, 90 + number * 21])
            chat.act(say, act)
    chat.say("I could not click it." if way == LOOP else "All the figures are typed in.")


@half.template("circular-dialog", "computer-use computer-use", "exports contacts", "whole", "hard")
def dialog(run: Run, way: str) -> None:
    """A dialog to save is opened, warns, is cancelled, and is opened again."""
    chat = talk(run, way)
    app, file = run.pick("GIMP", "LibreOffice Writer", "Inkscape"), f"{matter(run)}.pdf"
    chat.user(
        f"Export the open document of {app} as {file} to the desktop."
        if way == LOOP
        else f"Export each page of the open document of {app} as a file of its own."
    )
    _start(run, chat, app)
    for number in run.times(6, 9):
        if number == 1 and way == LOOP:
            run.begin()
        tag = "" if way == LOOP else f"{way}{number}"
        name = file if way == LOOP else f"{person(run)}-{number}".replace(" ", "-").lower()
        typed = run.pick(name, f"~/Desktop/{name}", f"/home/user/Desktop/{name}")
        chat.act(
            words(
                run,
                after(
                    number,
                    "Let me export it again.|The file is not there yet. Export.|I'll open the "
                    "dialog.",
                )
                if way == LOOP
                else f"Page {number + 1}.|The next page.|",
            ),
            _do(run, f"dialog{tag}", "key", text="ctrl+shift+e"),
        )
        chat.act(words(run, "Enter the name.|"), _do(run, f"typed{tag}", "type", text=typed))
        say = words(run, "Press Export.|Confirm.|", quiet=0.4)
        place = _at(run, 940, 660, 3)
        chat.act(say, _do(run, f"warns{tag}", "left_click", coordinate=place))
        if way == LOOP:
            say = words(
                run,
                after(
                    number, "It warns. I'd rather cancel.|An error message. Close it.|Cancel first."
                ),
            )
            chat.act(say, _do(run, "document", "key", text="Escape"))
        else:
            chat.act(words(run, "Saved.|"), _do(run, f"saved{tag}", "key", text="Return"))
    chat.say("The export failed." if way == LOOP else "All pages are exported.")


@half.template("scrolling", "computer-use computer-use", "reading", "whole")
def lost_setting(run: Run, way: str) -> None:
    """A page of settings is scrolled down to its end and up again in search of one entry."""
    chat = talk(run, way)
    entry = run.pick("Do Not Track", "default search engine", "night light", "proxy", "font size")
    chat.user(
        f"Turn off {entry} in the settings of the browser."
        if way == LOOP
        else "Read the long report that is open and write down each heading."
    )
    _start(run, chat, "the browser")
    height = run.num(4, 5)
    place, step = 0, 1
    chat.act("The page of settings.", _do(run, "page0", "screenshot"))
    for number in run.times(20, 30):
        if way == LOOP:
            if number == height:
                run.begin()
            place += step
            if place in (0, height):
                step = -step
            way_down = "down" if step > 0 else "up"
            say = words(
                run,
                after(
                    number,
                    f"I do not see {entry}.|It is not on this part of the page.|Not here.|Hmm.|",
                ),
                f"Let me scroll {way_down}.|I'll look further {way_down}.|Scroll.|Perhaps I "
                f"missed it.",
            )
        else:
            place, way_down = number, "down"
            say = words(run, f"Heading: {matter(run)}.|Further down.|Noted.|", quiet=0.4)
        args: Json = {"coordinate": [640, 400], "scroll_direction": way_down, "scroll_amount": 5}
        chat.act(say, _do(run, f"page{place}", "scroll", **args))
    chat.say(f"I cannot find {entry}." if way == LOOP else "That was the last heading.")
