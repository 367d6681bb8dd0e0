// How each client shows the last message of a run that the gateway ended: the reason that it finished,
// the tokens that it used, and the verdict in its headers. Each asks with five equal rounds behind it.
import { createOpenAICompatible } from "@ai-sdk/openai-compatible";
import Anthropic from "@anthropic-ai/sdk";
import { generateText, streamText } from "ai";
import OpenAI from "openai";

const model = "gpt-5.4-mini";
const question = { role: "user", content: "Are all parts in stock?" };
const failed = "ERROR: the catalogue is offline";

const rounds = (round) => [question, ...[1, 2, 3, 4, 5].flatMap((n) => round(`call-${n}`))];

const chat = (number) =>
  rounds((id) => {
    const call = { name: "find_part", arguments: JSON.stringify({ number }) };
    return [
      { role: "assistant", content: null, tool_calls: [{ id, type: "function", function: call }] },
      { role: "tool", tool_call_id: id, content: failed },
    ];
  });

const responses = (number) =>
  rounds((id) => [
    { type: "function_call", call_id: id, name: "find_part", arguments: JSON.stringify({ number }) },
    { type: "function_call_output", call_id: id, output: failed },
  ]);

const messages = (number) =>
  rounds((id) => [
    { role: "assistant", content: [{ type: "tool_use", id, name: "find_part", input: { number } }] },
    { role: "user", content: [{ type: "tool_result", tool_use_id: id, content: failed }] },
  ]);

const parts = (number) =>
  rounds((toolCallId) => {
    const named = { toolCallId, toolName: "find_part" };
    const output = { type: "text", value: failed };
    return [
      { role: "assistant", content: [{ type: "tool-call", ...named, input: { number } }] },
      { role: "tool", content: [{ type: "tool-result", ...named, output }] },
    ];
  });

const openai = new OpenAI();
const anthropic = new Anthropic();
const claude = { model: "claude-haiku-4-5", max_tokens: 1000 };
const vercel = createOpenAICompatible({
  name: "gateway",
  baseURL: process.env.OPENAI_BASE_URL,
  apiKey: process.env.OPENAI_API_KEY,
  includeUsage: true,
})(model);

const asked = {
  async "openai chat"() {
    const created = openai.chat.completions.create({ model, messages: chat(11) });
    const { data, response } = await created.withResponse();
    const [choice] = data.choices;
    return [choice.message.content, choice.finish_reason, data.usage.total_tokens, response.headers];
  },
  async "openai chat, streamed"() {
    const stream_options = { include_usage: true };
    const stream = openai.chat.completions.stream({ model, messages: chat(12), stream_options });
    const { choices, usage } = await stream.finalChatCompletion();
    return [choices[0].message.content, choices[0].finish_reason, usage.total_tokens];
  },
  async "openai responses"() {
    const created = openai.responses.create({ model, input: responses(13) });
    const { data, response } = await created.withResponse();
    return [data.output_text, data.status, data.usage.total_tokens, response.headers];
  },
  async "openai responses, streamed"() {
    const stream = openai.responses.stream({ model, input: responses(14) });
    const answer = await stream.finalResponse();
    return [answer.output_text, answer.status, answer.usage.total_tokens];
  },
  async "anthropic"() {
    const created = anthropic.messages.create({ ...claude, messages: messages(15) });
    const { data, response } = await created.withResponse();
    return [data.content[0].text, data.stop_reason, data.usage.output_tokens, response.headers];
  },
  async "anthropic, streamed"() {
    const stream = anthropic.messages.stream({ ...claude, messages: messages(16) });
    const answer = await stream.finalMessage();
    return [answer.content[0].text, answer.stop_reason, answer.usage.output_tokens];
  },
  async "vercel"() {
    const result = await generateText({ model: vercel, messages: parts(17) });
    const headers = new Headers(result.response.headers);
    return [result.text, result.finishReason, result.usage.totalTokens, headers];
  },
  async "vercel, streamed"() {
    const result = streamText({ model: vercel, messages: parts(18) });
    const { totalTokens } = await result.usage;
    const headers = new Headers((await result.response).headers);
    return [await result.text, await result.finishReason, totalTokens, headers];
  },
};

for (const [client, ask] of Object.entries(asked)) {
  const [text, reason, tokens, headers] = await ask();
  const verdict = headers ? headers.get("x-looptrap-verdict") : "unseen";
  console.log(`${client}: ${text.split(" ", 2).join(" ")}, ${reason}, ${tokens}, ${verdict}`);
}
