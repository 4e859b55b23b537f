// Asks whether the service is back while it does not answer, also on screens that askIfBack for nothing by themselves.

import { call, connection } from "./api.js";
import { watch } from "./vue.js";

const RECONNECT_PAUSE = 2_000;

/** From now on: every two seconds while the service does not answer and the page is seen. */
export function startReconnecting() {
  let timer = 0;
  watch(
    () => connection.isReachable,
    (isReachable) => {
      clearInterval(timer);
      if (!isReachable) timer = setInterval(askIfBack, RECONNECT_PAUSE);
    },
  );
}

async function askIfBack() {
  if (document.hidden) return;
  try {
    await call("GET", "health/live");
  } catch {
    // It is not back yet, or not well: the next answer will tell.
  }
}
