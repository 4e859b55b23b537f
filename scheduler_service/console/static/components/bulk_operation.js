// A bulk action: counted by a dry run, asked for, carried out, followed to its end.

import { get, pathOf, post } from "../core/api.js";
import { formatNumber } from "../core/formats.js";
import { t } from "../core/language.js";
import { attempt, sayFailed } from "../core/notices.js";
import { onUnmounted, shallowReactive } from "../core/vue.js";
import { confirm } from "./dialogs.js";

const FIRST_FOLLOW_MS = 250;
const SLOWEST_FOLLOW_MS = 2_000;
const SLOWEST_RETRY_MS = 5_000;
const SLOWER_BY = 1.5;
const SHOWN_IDS = 10;
const KEY_BYTES = 16;
const NOTHING_SEEN = { state: "unheard", total: 0, done: 0, succeeded: 0, failed: 0, problems: [], moreProblems: 0, started: [], moreStarted: 0, warnings: [] };

/**
 * Bulk actions at `path` (bulk/jobs or bulk/executions). Members: `operation` (the API's, of the last action; null: none), `isRunning`,
 * `start(body, asked)`, `goOn()`, `cancel()`, `close()`. `goOn` does the rest of an operation that was interrupted, and nothing twice: it sends the same
 * body under the same Idempotency-Key. `start` sends `body` (`{action, select, …}`) as a dry run, asks, and carries it out;
 * `asked` has `title(count)`, `text` and `action` of the question, and `isDangerous`, where the count must be typed. It gives whether the action was
 * begun; `onDone(operation)` is called at its end. A service that does not answer, or not now, is asked again until it does, while the page is there; of an
 * operation that cannot be read any more the `state` is `gone` (404) or `unseen`, with the figures of the last answer; of one whose first answer did not
 * come it is `unheard`: `goOn` asks for it again, too. For `setup` of a component.
 */
export function useBulk(path, onDone = () => {}) {
  const state = shallowReactive({ operation: null, isRunning: false, start, goOn, cancel, close: () => (state.operation = null) });
  let timer = 0;
  let sent = null;
  let isLeft = false;
  onUnmounted(() => {
    isLeft = true;
    clearTimeout(timer);
  });

  async function start(body, asked) {
    const found = await attempt(() => post(path, { ...body, dryRun: true }));
    if (found === undefined || !(await ask(found, asked))) return false;
    const request = { body: { ...body, dryRun: false }, key: makeKey() };
    return send(request, { ...NOTHING_SEEN, action: body.action });
  }

  function goOn() {
    return send(sent, state.operation);
  }

  /** `unheard`: the operation that is shown where nobody answers, or not now. */
  async function send(request, unheard) {
    const headers = { "Idempotency-Key": request.key };
    let answer;
    try {
      answer = await post(path, request.body, { headers });
    } catch (error) {
      sayFailed(error);
      if (!isUnheard(error)) return false;
      answer = { operation: unheard };
    }
    sent = request;
    take(answer.operation, FIRST_FOLLOW_MS);
    return true;
  }

  function take(operation, pause) {
    state.operation = operation;
    state.isRunning = operation.state === "running";
    if (state.isRunning) followIn(pause);
    else onDone(operation);
  }

  function followIn(pause) {
    clearTimeout(timer);
    if (!isLeft) timer = setTimeout(() => follow(pause), pause);
  }

  async function follow(pause) {
    let operation;
    try {
      operation = await get(pathOf("operations", state.operation.operationId));
    } catch (error) {
      if (isPassing(error)) return followIn(Math.min(pause * SLOWER_BY, SLOWEST_RETRY_MS));
      operation = { ...state.operation, state: error.status === 404 ? "gone" : "unseen" };
    }
    return take(operation, Math.min(pause * SLOWER_BY, SLOWEST_FOLLOW_MS));
  }

  async function cancel() {
    await attempt(() => post(`${pathOf("operations", state.operation.operationId)}/cancel`, {}));
  }

  return state;
}

/** An Idempotency-Key that no other request has. */
export function makeKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  return `console-${Array.from(bytes, (one) => one.toString(16).padStart(2, "0")).join("")}`;
}

/** Whether the operation may have begun: the answer was lost, or the store did not say whether it wrote. */
function isUnheard({ status }) {
  return status === 0 || status >= 500;
}

/** Whether the operation may run on, and tell so later: nobody answered, the session is over, or the service has no time or no store now. */
function isPassing({ status }) {
  return status === 0 || status === 401 || status === 429 || status >= 500;
}

/** Asks whether to go on with what a dry run has `found`: how many, and the first of them. */
function ask(found, { title, text, action, isDangerous = false }) {
  const count = formatNumber(found.count);
  const first = found.first.slice(0, SHOWN_IDS).join("\n") + (found.count > SHOWN_IDS ? "\n…" : "");
  if (found.count === 0) return confirm({ title: title(count), text: t("bulk.nothing"), action: t("action.close") }).then(() => false);
  return confirm({
    title: title(count),
    text: `${text}\n\n${first}`,
    action,
    isDangerous,
    typed: isDangerous && found.count > 1 ? String(found.count) : null,
  });
}
