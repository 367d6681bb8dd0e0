// Live events: the stream, the state of the connection, and polling while there is no stream.

import { asking, get, send } from "./api.js";
import { useEffect, useRef } from "./html.js";
import { observed } from "./observed.js";
import { messages } from "./stream.js";

const SILENCE_MS = 40_000; // more than two pings: the gateway is gone
const MAX_PAUSE_MS = 5_000;
const POLL_MS = 3_000;
const POLLS = 10; // then the stream is tried again

/** The connection: `state` is connecting, live, polling, reconnecting, disconnected, or locked without a token. */
export const connection = observed({ state: "connecting", since: Date.now() });

const listeners = new Map();

/** Call `listener` with the data of every event of this name: incident, calls, stats, status, change, connected, resumed. */
export function subscribe(event, listener) {
  if (!listeners.has(event)) listeners.set(event, new Set());
  listeners.get(event).add(listener);
  return () => listeners.get(event).delete(listener);
}

/** Listen to events while a component is shown; the latest `listener` is the one that is called. */
export function useEvent(event, listener) {
  const latest = useRef(listener);
  latest.current = listener;
  useEffect(() => subscribe(event, (data) => latest.current(data)), [event]);
}

let lastId = null;
let lastChange = null;
let wake = () => {};

/** Follow events for as long as the page is open. */
export async function follow() {
  addEventListener("online", () => wake());
  asking.watch(() => wake());
  for (let failures = 0; ; failures += 1) {
    let isLocked = false;
    try {
      await streamed(() => {
        const event = connection.value.state === "connecting" ? "connected" : "resumed";
        show("live");
        emit(event, null);
        failures = 0;
      });
    } catch (error) {
      isLocked = error.status === 401;
      const isThere = error.status === 404 || error.status === 503;
      if (isThere && (await polled())) failures = 0;
    }
    show(isLocked ? "locked" : failures < 2 ? "reconnecting" : "disconnected");
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
      emit(message.event, JSON.parse(message.data));
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
    for (const incident of found.incidents) emit("incident", incident);
    emit("polled", null);
    await pause(POLL_MS);
  }
  return true;
}

function emit(event, data) {
  for (const listener of [...(listeners.get(event) ?? [])]) listener(data);
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
