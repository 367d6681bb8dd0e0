// Live events: the stream, the state of the connection, and polling while there is no stream.

import { asking, get, send } from "./api.js";
import { useEffect, useRef } from "./html.js";
import { observed } from "./observed.js";
import { messages } from "./stream.js";

const SILENCE_MS = 40_000; // more than two pings: the gateway is gone
const MAX_PAUSE_MS = 20_000;
const POLL_MS = 3_000;
const POLLS = 10; // then the stream is tried again

/** The connection: `state` is connecting, live, polling, reconnecting or disconnected. */
export const connection = observed({ state: "connecting", since: Date.now() });

const hearers = new Map();

/** Call `hearer` with the data of every event of this name: incident, stats, status, change, resumed. */
export function hear(event, hearer) {
  if (!hearers.has(event)) hearers.set(event, new Set());
  hearers.get(event).add(hearer);
  return () => hearers.get(event).delete(hearer);
}

/** Hear events while a component is shown; the latest `hearer` is the one that is called. */
export function useHeard(event, hearer) {
  const latest = useRef(hearer);
  latest.current = hearer;
  useEffect(() => hear(event, (data) => latest.current(data)), [event]);
}

let lastId = null;
let lastChange = null;
let wake = () => {};

/** Follow events for as long as the page is open. */
export async function follow() {
  addEventListener("online", () => wake());
  asking.watch(() => wake());
  for (let failures = 0; ; failures += 1) {
    try {
      await streamed(() => {
        if (connection.value.state !== "connecting") tell("resumed", null);
        show("live");
        failures = 0;
      });
    } catch (error) {
      const isThere = error.status === 404 || error.status === 503;
      if (isThere && (await polled())) failures = 0;
    }
    show(failures < 2 ? "reconnecting" : "disconnected");
    await pause(Math.min(MAX_PAUSE_MS, 500 * 2 ** failures) * (0.75 + Math.random() / 4));
  }
}

async function streamed(onOpen) {
  const controller = new AbortController();
  let watchdog;
  const feed = () => {
    clearTimeout(watchdog);
    watchdog = setTimeout(() => controller.abort(), SILENCE_MS);
  };
  feed();
  try {
    const headers = { Accept: "text/event-stream", ...(lastId ? { "Last-Event-ID": lastId } : {}) };
    const response = await send("GET", "events", {
      headers,
      signal: controller.signal,
      isQuiet: true,
    });
    onOpen();
    for await (const message of messages(response, feed)) {
      if (message.id) lastId = message.id;
      tell(message.event, JSON.parse(message.data));
    }
  } finally {
    clearTimeout(watchdog);
  }
}

/** Poll for changes for a while; false if there is no answer. */
async function polled() {
  for (let polls = 0; polls < POLLS; polls += 1) {
    let found;
    try {
      found = await get("incidents/changes", { after: lastChange, limit: 500 }, { isQuiet: true });
    } catch {
      return false;
    }
    show("polling");
    lastChange = found.last;
    for (const incident of found.incidents) tell("incident", incident);
    tell("polled", null);
    await pause(POLL_MS);
  }
  return true;
}

function tell(event, data) {
  for (const hearer of [...(hearers.get(event) ?? [])]) hearer(data);
}

function show(state) {
  const before = connection.value;
  const isAway = (one) => one === "reconnecting" || one === "disconnected";
  if (before.state === state) return;
  const since = isAway(state) && isAway(before.state) ? before.since : Date.now();
  connection.set({ state, since });
}

function pause(ms) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    wake = () => {
      clearTimeout(timer);
      resolve();
    };
  });
}

/** Reconnect now. */
export function reconnect() {
  wake();
}
