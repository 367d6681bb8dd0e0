// Server-sent events from a fetched stream: EventSource cannot send a token.

/** Yield { event, data, id } of each message; comments yield nothing but count as a sign of life. */
export async function* messages(response, onBytes) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    onBytes();
    const blocks = (rest + value).split(/\r?\n\r?\n/);
    rest = blocks.pop();
    for (const block of blocks) {
      const message = parsed(block);
      if (message.data !== "") yield message;
    }
  }
}

function parsed(block) {
  const message = { event: "message", data: "", id: null };
  for (const line of block.split(/\r?\n/)) {
    const at = line.indexOf(":");
    if (at < 1) continue;
    const name = line.slice(0, at);
    const value = line.slice(at + 1).replace(/^ /, "");
    if (name === "data") message.data += (message.data && "\n") + value;
    else if (name in message) message[name] = value;
  }
  return message;
}
