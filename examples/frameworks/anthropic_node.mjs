// A small agent on Anthropic's SDK for Node; a refusal of the gateway ends its run.
import Anthropic, { APIError } from "@anthropic-ai/sdk";

const client = new Anthropic(); // ANTHROPIC_BASE_URL is the gateway
const input_schema = { type: "object", properties: { number: { type: "integer" } } };
const tools = [{ name: "find_part", input_schema }];
const messages = [{ role: "user", content: "Are all parts in stock?" }];
const request = { model: "claude-haiku-4-5", max_tokens: 1000, messages, tools };

function find_part({ number }) {
  return number === 5 ? "ERROR: the catalogue is offline" : `part ${number}: in stock`;
}

async function run() {
  for (let step = 0; step < 50; step++) {
    const { role, content } = await client.messages.create(request);
    const calls = content.filter((block) => block.type === "tool_use");
    if (!calls.length) return content.map((block) => block.text).join("");
    const results = calls.map((call) => {
      return { type: "tool_result", tool_use_id: call.id, content: find_part(call.input) };
    });
    messages.push({ role, content }, { role: "user", content: results });
  }
}

try {
  console.log(`answer: ${await run()}`);
} catch (error) {
  if (!(error instanceof APIError && error.errorCode === "recursive_loop_detected")) throw error;
  console.log(`rule: ${error.error.detail.rule}`);
  console.log(`stopped: ${error.apiMessage}`);
}
