// Conversations to begin with: agents that are stuck, and one that is not.

const SYSTEM = "You are a coding agent. Use the tools, then say what you found.";

/** @typedef {{name: string, title: string, text: () => string}} Example */

/** @type {Example[]} */
export const EXAMPLES = [
  { name: "stuck", title: "A stuck agent", text: () => pretty(chat("Why does the build fail?", stuck())) },
  { name: "cycle", title: "An agent in a cycle", text: () => pretty(chat("Log in and take a screenshot of the dashboard.", circling())) },
  { name: "retry", title: "The same question again and again", text: () => pretty(Array.from({ length: 7 }, () => request("Give me the list as valid JSON."))) },
  { name: "honest", title: "An agent that makes progress", text: () => pretty(chat("Make the tests pass.", honest())) },
];

function chat(question, rounds) {
  const messages = rounds.flatMap(([tool, given, result], index) => round(`call_${index + 1}`, tool, given, result));
  return { model: "gpt-5.3", messages: [{ role: "system", content: SYSTEM }, { role: "user", content: question }, ...messages] };
}

function request(question) {
  return { model: "gpt-5.3", messages: [{ role: "user", content: question }] };
}

function round(id, name, given, result) {
  return [
    { role: "assistant", content: null, tool_calls: [{ id, type: "function", function: { name, arguments: JSON.stringify(given) } }] },
    { role: "tool", tool_call_id: id, content: result },
  ];
}

/** Asks for a file that is not there, again and again. */
function stuck() {
  const missing = ["read_file", { path: "src/bulid.py" }, "Error: ENOENT: no such file or directory, open 'src/bulid.py'"];
  return [
    ["list_dir", { path: "." }, "README.md\npyproject.toml\nsrc"],
    ["run", { command: "make build" }, "make: *** [Makefile:12: build] Error 2"],
    ...Array.from({ length: 7 }, () => missing),
  ];
}

/** Three steps that lead back to where they began. */
function circling() {
  const steps = [
    ["open_page", { url: "app.example.com/login" }, "<title>Log in</title>"],
    ["click", { selector: "#sign-in" }, "The page has gone to /login."],
    ["screenshot", {}, "screenshot.png, 41 kB: a page with the title “Log in”"],
  ];
  return Array.from({ length: 5 }, () => steps).flat();
}

/** Runs the same tests many times, with an edit before each: results change, so that is progress. */
function honest() {
  const left = [9, 6, 4, 4, 1, 0];
  return left.flatMap((failing, index) => [
    ["edit_file", { path: `src/part_${index + 1}.py`, find: "return None", replace: `return value_${index + 1}` }, "1 replacement made."],
    ["run_tests", {}, failing ? `${failing} failed, ${40 - failing} passed` : "40 passed"],
  ]);
}

function pretty(value) {
  return JSON.stringify(value, null, 1);
}
