// The pause of a queue or a service: the button that begins or ends it, and the mark beside its name.

import { post } from "../core/api.js";
import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { attempt } from "../core/notices.js";
import { may } from "../core/session.js";
import { Moment, StateBadge } from "./marks.js";
import { ActionButton } from "./panels.js";

/** "paused", and since when; nothing while it is not: `of` has `paused` and `pausedAt`. */
export function PausedMark({ of }) {
  return of?.paused ? html`<${StateBadge} state="paused"/> <span class="dim"><${Moment} at=${of.pausedAt}/></span>` : null;
}

PausedMark.props = ["of"];

/** Pauses or resumes what lies at `path`, of which `of` is the latest; then `onDone`. */
export function PauseButton({ of, path, onDone }) {
  if (!of || !may("operator")) return null;
  const verb = of.paused ? "resume" : "pause";
  const run = async () => {
    await attempt(() => post(`${path}/${verb}`), t(of.paused ? "pause.resumed" : "pause.paused", { name: of.name }));
    onDone();
  };
  return html`<${ActionButton} icon=${of.paused ? "play" : "pause"} text=${t(`action.${verb}`)} run=${run}/>`;
}

PauseButton.props = ["of", "path", "onDone"];
