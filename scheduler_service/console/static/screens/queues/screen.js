// Pull queues: how much waits and since when, and who holds which part until when.

import { html } from "../../core.js";
import { QueueDetail } from "./detail.js";
import { QueueList } from "./list.js";

/** `#/queues` and `#/queues/:name`. */
export function Screen({ name }) {
  return name === undefined ? html`<${QueueList}/>` : html`<${QueueDetail} name=${name}/>`;
}

Screen.props = ["name"];
