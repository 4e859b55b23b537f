// Calendars of working days: the list, one with its year, and the page on which one is made or changed.

import { html, may, route } from "../../core.js";
import { CalendarDetail } from "./detail.js";
import { CalendarEditor } from "./editor.js";
import { CalendarTable } from "./list.js";

/** `#/calendars`, `#/calendars/:name` (`?edit=true`), and `#/new-calendar`. */
export function Screen({ name }) {
  if (name === undefined) return route.path === "/new-calendar" ? html`<${CalendarEditor}/>` : html`<${CalendarTable}/>`;
  return route.query.edit && may("editor", "tenant") ? html`<${CalendarEditor} name=${name}/>` : html`<${CalendarDetail} name=${name}/>`;
}

Screen.props = ["name"];
