"""The APIs: their requests, answers, errors and streams, in one neutral form.

model                Request, Call, Message, ToolCall, ToolResult, Usage, Outcome, Refusal
dialect              Dialect: what an API can do, a field for each verb; ModelAnswer; UsageFormat
registry             DIALECTS, ENDINGS (the ends of paths), read(request)
answer               answers in a call's dialect: errors, final messages, nudges, ends of streams
usage_meter          UsageMeter: the usage of a passing answer
output_limit         max_output: the largest output of a call

openai_chat          Chat Completions
openai_responses     Responses
openai_completions   legacy Completions, and Embeddings
anthropic            Messages
gemini               generateContent
gemini_interactions  Interactions
mcp                  JSON-RPC tools/call
http                 all other requests, with Bedrock's Converse and InvokeModel, and opaque bodies

content              canonical JSON, flattened text, broken messages: reading that dialects share
path                 paths as a lenient server understands them
agent                agent_of(call): the program that sent it; the session that it names
body                 read_body(body): calls inside a process, recognised by shape
captured             calls as lines of a capture, and calls from such lines
descriptor           descriptor(name): a property of calls (caller, model, header:…); headers of
                     clients: the session, a retry
stream               framing, StreamParser, AnswerReader: a passing answer, event by event
splice               insertion into JSON that does not change any other byte
"""
