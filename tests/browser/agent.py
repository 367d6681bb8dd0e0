"""Agents that go in circles: each call carries the whole conversation so far, as real ones do."""

from secrets import token_hex

import msgspec


class Agent:
    """One run of an agent, which calls tools and gets their results."""

    def __init__(
        self, gateway, session="run-42", *, model="gpt-5.3", key=None, task="Fix it.", program=None
    ):
        self._gateway = gateway
        self._headers = {"X_Looptrap_Session": session, "Authorization": "Bearer sk-agent"}
        if program is not None:
            self._headers["User_Agent"] = program
        if key is not None:
            self._headers["X_Looptrap_Key"] = key
        self._model = model
        self.messages = [{"role": "user", "content": task}]

    def use(self, tool, arguments, result):
        """Have called a tool, and got that result."""
        number = f"call_a1{token_hex(8)}"
        function = {"name": tool, "arguments": msgspec.json.encode(arguments).decode()}
        call = {"id": number, "type": "function", "function": function}
        self.messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": number, "content": result},
        ]

    def compact(self):
        """Leave a summary in place of all that was called."""
        summary = "This session is continued from an earlier one. Summary: the pump is to be fixed."
        self.messages = [self.messages[0], {"role": "user", "content": summary}]

    def trim(self, rounds):
        """Leave out all but the task and the latest rounds."""
        self.messages = [self.messages[0], *self.messages[1:][-2 * rounds :]]

    def ask(self):
        """Ask the model what to do next; return the answer."""
        body = msgspec.json.encode({"model": self._model, "messages": self.messages})
        return self._gateway.ask(body, **self._headers)

    def statuses(self, rounds):
        """Go through rounds, asking after each; return what the answers had for a status."""
        found = []
        for tool, arguments, result in rounds:
            self.use(tool, arguments, result)
            found.append(self.ask().status)
        return found


SEARCH = ("search_code", {"query": "def pump_state"}, "No files found.")
READ = ("read_file", {"path": "pumps/state.py"}, "Error: no such file: pumps/state.py")
TESTS = ("run_tests", {"path": "tests/"}, "3 failed, 41 passed in 12.1s")

CYCLE = [SEARCH, READ]


def honest(number):
    """Return rounds in which every call and every result is another."""
    return [
        ("read_file", {"path": f"pumps/unit_{one}.py"}, f"class Unit{one}:\n    flow = {one}")
        for one in range(number)
    ]
