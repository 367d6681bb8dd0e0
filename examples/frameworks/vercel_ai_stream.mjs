// A small agent on Vercel's AI SDK that streams; a refusal of the gateway ends its run.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import { APICallError, jsonSchema, stepCountIs, streamText, tool } from "ai";

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

let failure;
const { textStream } = streamText({
  model: gateway("gpt-5.4-mini"),
  prompt: "Are all parts in stock?",
  tools: { find_part },
  stopWhen: stepCountIs(50),
  maxRetries: 0, // the SDK would send a refused call again
  onError: ({ error }) => (failure = error), // the stream just ends, nothing is thrown
});

let text = "";
for await (const part of textStream) text += part;

if (!failure) {
  console.log(`answer: ${text}`);
} else {
  const code = APICallError.isInstance(failure) && failure.data?.error.code;
  if (code !== "recursive_loop_detected") throw failure;
  console.log(`stopped: ${JSON.parse(failure.responseBody).detail.message}`);
}
