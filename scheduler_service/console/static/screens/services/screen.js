// Services: the list, and one with its instances, its declared jobs and where they differ.

import { html } from "../../core.js";
import { ServiceDetail } from "./detail.js";
import { ServiceList } from "./list.js";

/** `#/services` and `#/services/:name`. */
export function Screen({ name }) {
  return name === undefined ? html`<${ServiceList}/>` : html`<${ServiceDetail} name=${name}/>`;
}

Screen.props = ["name"];
