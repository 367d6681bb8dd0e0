// A small agent on Vercel's AI SDK; a refusal of the gateway ends its run.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, generateText, jsonSchema, stepCountIs, tool } from "ai";

const gateway = createOpenAICompatible({
  name: "gateway",
  baseURL: process.env.OPENAI_BASE_URL,
  apiKey: process.env.OPENAI_API_KEY,
});

const find_part = tool({
  inputSchema: jsonSchema({ type: "object", properties: { number: { type: "integer" } } }),
  execute: ({ number }) =>
    number === 5 ? "ERROR: the catalogue is offline" : `part ${number}: in stock`,
});

try {
  const { text } = await generateText({
    model: gateway("gpt-5.4-mini"),
    prompt: "Are all parts in stock?",
    tools: { find_part },
    stopWhen: stepCountIs(50),
    maxRetries: 0, // the SDK would send a refused call again
  });
  console.log(`answer: ${text}`);
} catch (error) {
  const code = APICallError.isInstance(error) && error.data?.error.code;
  if (code !== "recursive_loop_detected") throw error;
  const { detail } = JSON.parse(error.responseBody);
  console.log(`rule: ${detail.rule}`);
  console.log(`stopped: ${detail.message}`);
}
