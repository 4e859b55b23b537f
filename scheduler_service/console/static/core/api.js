// The REST API as the console calls it: JSON out and in, problems as errors, and how many calls are open.

import { localeOf } from "./language.js";
import { computed, reactive } from "./vue.js";

/** The address of the service: the parent of the console's own, so that a path prefix of a proxy stays. */
export const SERVICE = new URL("../", document.baseURI).href;
const CHANGES = { "X-Punctual-Console": "1" };

/** How the service answers: `isReachable` and since when; `open` is the number of calls that have no answer yet. */
export const connection = reactive({ isReachable: true, since: Date.now(), open: 0 });

const calls = new Set();

/** Called with the error of an answer 401; the shell shows the sign-in. */
export const onUnauthorized = { call: () => {} };

/** Whether nothing is asked for at the moment. */
export const isQuiet = computed(() => connection.open === 0);

/**
 * A call that did not succeed. `status` 0: the service did not answer. `problem` is RFC 9457's object, or null; `errors` its
 * `{pointer, code, message}`.
 */
export class ApiError extends Error {
  constructor(status, problem, message) {
    super(message);
    this.status = status;
    this.problem = problem;
    this.errors = problem?.errors ?? [];
  }
}

/** The member `data` of the answer to `GET path`. `query` leaves out what is null or "", and repeats the members of arrays. */
export async function get(path, query, options) {
  return (await call("GET", path, { query, ...options })).data;
}

/** The member `data` of the answer to `POST path`. Throws ApiError. */
export async function post(path, body, options) {
  return (await call("POST", path, { body, ...options })).data;
}

/** The member `data` of the answer to `PUT path`. Throws ApiError. */
export async function put(path, body, options) {
  return (await call("PUT", path, { body, ...options })).data;
}

/** The member `data` of the answer to `DELETE path`. Throws ApiError. */
export async function remove(path, options) {
  return (await call("DELETE", path, options)).data;
}

/**
 * One call: `{data, warnings, etag, status, text}`. Options: `query`, `body` (any JSON value), `bodyText` (JSON sent as it is written), `headers`,
 * `signal`, `keepalive` (the call outlives the page). Throws ApiError, and the DOMException `AbortError` where `signal` ended it.
 */
export function call(method, path, options = {}) {
  const answer = counted(exchange(method, path, options));
  calls.add(answer);
  const end = () => calls.delete(answer);
  answer.then(end, end);
  return answer;
}

/** Until each of the calls that are open now has its answer, or has failed. */
export async function answersOfNow() {
  await Promise.allSettled([...calls]);
}

/** Counts `work` (a promise) among the open calls: what the page waits for, though it is no call of the API. */
export async function counted(work) {
  connection.open += 1;
  try {
    return await work;
  } finally {
    connection.open -= 1;
  }
}

/** `path` of the API with `query`, relative to the service. */
export function address(path, query) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") parameters.append(name, String(one));
    }
  }
  const text = parameters.toString();
  return `${path.replace(/^\//, "")}${text === "" ? "" : `?${text}`}`;
}

/** Members of a path, each encoded: `pathOf("jobs", "a:b", "next")`. */
export function pathOf(...segments) {
  return segments.map((segment) => encodeURIComponent(segment)).join("/");
}

/** The address of what the browser fetches by itself, as a file. */
export function addressOf(path, query) {
  return new URL(address(path, query), SERVICE).href;
}

async function exchange(method, path, { query, body, bodyText, headers, signal, keepalive }) {
  const given = method === "GET" ? {} : CHANGES;
  const sent = bodyText ?? (body === undefined ? undefined : JSON.stringify(body));
  const typed = sent === undefined ? given : { ...given, "Content-Type": "application/json" };
  const response = await send(addressOf(path, query), {
    method,
    headers: { Accept: "application/json", "Accept-Language": localeOf(), ...typed, ...headers },
    body: sent,
    signal,
    keepalive,
    credentials: "same-origin",
    redirect: "error",
  });
  const text = await read(response, signal);
  if (!response.ok) throw refusalOf(response.status, text);
  const answer = parse(text) ?? {};
  return {
    data: answer.data,
    warnings: answer.warnings ?? [],
    etag: response.headers.get("ETag"),
    status: response.status,
    text,
  };
}

async function send(url, init) {
  try {
    const response = await fetch(url, init);
    tell(true);
    return response;
  } catch (error) {
    if (init.signal?.aborted) throw error;
    tell(false);
    throw new ApiError(0, null, "the service does not answer");
  }
}

async function read(response, signal) {
  try {
    return await response.text();
  } catch (error) {
    if (signal?.aborted) throw error;
    tell(false);
    throw new ApiError(0, null, "the answer broke off");
  }
}

function refusalOf(status, text) {
  const problem = parse(text);
  const error = new ApiError(status, problem, problem?.detail ?? problem?.title ?? `HTTP ${status}`);
  if (status === 401) onUnauthorized.call(error);
  return error;
}

function tell(isReachable) {
  if (connection.isReachable !== isReachable) Object.assign(connection, { isReachable, since: Date.now() });
}

function parse(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}
