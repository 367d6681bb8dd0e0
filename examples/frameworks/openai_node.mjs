// A small agent on openai-node; a refusal of the gateway ends its run.
import OpenAI, { APIError } from "openai";

const client = new OpenAI(); // OPENAI_BASE_URL is the gateway
const parameters = { type: "object", properties: { number: { type: "integer" } } };
const tools = [{ type: "function", function: { name: "find_part", parameters } }];
const messages = [{ role: "user", content: "Are all parts in stock?" }];

function find_part({ number }) {
  return number === 5 ? "ERROR: the catalogue is offline" : `part ${number}: in stock`;
}

async function run() {
  for (let step = 0; step < 50; step++) {
    const answer = await client.chat.completions.create({ model: "gpt-5.4-mini", messages, tools });
    const { message } = answer.choices[0];
    if (!message.tool_calls) return message.content;
    messages.push(message);
    for (const call of message.tool_calls) {
      const content = find_part(JSON.parse(call.function.arguments));
      messages.push({ role: "tool", tool_call_id: call.id, content });
    }
  }
}

try {
  console.log(`answer: ${await run()}`);
} catch (error) {
  if (!(error instanceof APIError && error.code === "recursive_loop_detected")) throw error;
  console.log(`rule: ${error.headers.get("x-looptrap-rule")}`);
  console.log(`stopped: ${error.error.message}`);
}
