// Starts the console: preferences, texts, session, then the page.
// Modules that only screens use are named here too, so that they are part of core.js, or in more.js, where the list of jobs does without.

import "./components/arrivals_button.js";
import "./components/bulk_operation.js";
import "./components/bulk_report.js";
import "./core/arrivals.js";
import "./core/clipboard.js";
import "./core/files.js";
import "./core/following.js";
import "./core/listing.js";
import "./core/selection.js";
import "./core/trigger.js";
import "./components/filter_fields.js";
import "./components/pauses.js";
import "./components/reasons.js";
import "./components/fields.js";
import "./components/tables.js";
import { answersOfNow, counted } from "./core/api.js";
import { untilShown } from "./core/gradual.js";
import { startKeys } from "./core/keys.js";
import { startLanguage } from "./core/language.js";
import { startPreferences } from "./core/preferences.js";
import { startReconnecting } from "./core/reconnect.js";
import { route, startRouter } from "./core/router.js";
import { findPlace, loadScreen } from "./core/screens.js";
import { readSession, session, startSession } from "./core/session.js";
import { nameOwnZone, startClock } from "./core/times.js";
import { createApp, h, nextTick } from "./core/vue.js";
import { attempt } from "./core/notices.js";
import { Application } from "./shell/application.js";

// What the first screen asks for is part of the first frame if it comes so soon: to draw a page without it takes longer than most answers.
const FIRST_ANSWERS_MS = 150;

async function start() {
  startPreferences();
  startSession();
  startRouter();
  startKeys();
  startClock();
  startReconnecting();
  await Promise.all([startLanguage(), attempt(readSession), loadFirst()]);
  session.isKnown = true;
  const page = document.getElementById("application");
  page.hidden = true;
  createApp({ render: () => h(Application) }).mount(page);
  await counted(firstAnswers());
  page.hidden = false;
  await counted(untilShown());
  nameOwnZone();
}

/** Until the first screen has its answers and has drawn them, or some time has gone. */
async function firstAnswers() {
  await pause(0);
  await Promise.race([answersOfNow(), pause(FIRST_ANSWERS_MS)]);
  await nextTick();
}

function pause(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** The screen of the place, together with everything else that is waited for; the page says it where its file cannot be loaded. */
async function loadFirst() {
  const place = findPlace(route.segments);
  if (place !== null) await loadScreen(place.screen).catch(() => {});
}

start();
