// Requests to the admin API: JSON, the token if one is needed, errors.

import { observed } from "./observed.js";

const ROOT = new URL("api/v1/", document.baseURI);
const STORAGE_KEY = "looptrap-token";

/** The request for a token: null, or { isWrong, turn, resolve }. */
export const asking = observed(null);

/** An error of the API; `status` is 0 if there was no response. */
export class ApiError extends Error {
  constructor(status, code, message, more = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.more = more;
  }
}

/** GET; return the answer. Undefined and empty parameters are left out. */
export async function get(path, query = {}, options = {}) {
  return (await send("GET", path, { query, ...options })).json();
}

/** Change something; return the answer. */
export async function change(method, path, body = undefined, headers = {}) {
  const answer = await send(method, path, { body, headers });
  return answer.status === 204 ? null : answer.json();
}

/** Save what is at a path as a file. */
export async function download(path, query, name) {
  const url = URL.createObjectURL(await (await send("GET", path, { query })).blob());
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/**
 * Send a request; return the response of one that succeeded, whose body may be a stream.
 * A quiet request never asks the viewer for a token.
 */
export async function send(method, path, { query = {}, body, headers = {}, signal, isQuiet = false } = {}) {
  const url = new URL(path, ROOT);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== null && value !== "") url.searchParams.set(name, value);
  }
  for (;;) {
    const token = sessionStorage.getItem(STORAGE_KEY);
    const answer = await fetched(url, {
      method,
      signal,
      cache: "no-store",
      credentials: "omit",
      body: body === undefined ? undefined : JSON.stringify(body),
      headers: {
        ...headers,
        ...(body === undefined ? {} : { "Content-Type": "application/json" }),
        ...(token ? { Authorization: `Bearer ${token}` } : {}),
      },
    });
    if (answer.ok) return answer;
    const found = await failure(answer);
    if (answer.status !== 401 || isQuiet || !(await unlocked(token))) throw found;
  }
}

async function fetched(url, options) {
  try {
    return await fetch(url, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(0, "unreachable", "The gateway cannot be reached.");
  }
}

async function failure(answer) {
  const body = (await answer.json().catch(() => null))?.error;
  const message = body?.message ?? `The gateway answered ${answer.status}.`;
  return new ApiError(answer.status, body?.code ?? "unknown", message, body);
}

let unlocking = null;
let turn = 0;

/** Wait until the viewer has entered another token than `tried`; false if they cancel. */
function unlocked(tried) {
  if (sessionStorage.getItem(STORAGE_KEY) !== tried) return true;
  unlocking ??= new Promise((resolve) => {
    turn += 1;
    asking.set({ isWrong: Boolean(tried), turn, resolve });
  });
  return unlocking;
}

/** Whether the viewer has entered a token, right or wrong. */
export function hasToken() {
  return sessionStorage.getItem(STORAGE_KEY) !== null;
}

/** Continue with this token, or with none. */
export function unlock(token) {
  if (token) sessionStorage.setItem(STORAGE_KEY, token);
  asking.value?.resolve(Boolean(token));
  asking.set(null);
  unlocking = null;
}
