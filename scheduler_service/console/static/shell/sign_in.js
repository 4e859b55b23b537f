// The sign-in: a key is exchanged for a session of this browser.

import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { explain } from "../core/notices.js";
import { session, signIn } from "../core/session.js";
import { ref } from "../core/vue.js";
import { Icon } from "../components/icons.js";

/** The page that asks for a key, and says why where a session has ended. */
export const SignIn = {
  setup() {
    const key = ref("");
    const error = ref(null);
    const isBusy = ref(false);
    async function submit(event) {
      event.preventDefault();
      isBusy.value = true;
      error.value = null;
      try {
        await signIn(key.value.trim());
      } catch (refused) {
        error.value = refused.status === 401 ? t("session.wrong") : explain(refused);
      } finally {
        isBusy.value = false;
        key.value = "";
      }
    }
    return () => html`
      <main class="sign-in">
        <form class="panel" onSubmit=${submit}>
          <p class="brand"><${Icon} name="clock" size=${24}/><span>Punctual</span></p>
          <h1>${t("session.title")}</h1>
          ${session.hasEnded && html`<p class="stale" role="status"><${Icon} name="alert" size=${14}/>${t("session.ended")}</p>`}
          <p class="dim">${t("session.text")}</p>
          <div class="field">
            <label for="key">${t("session.key")}</label>
            <input id="key" type="password" autocomplete="current-password" required value=${key.value} onInput=${(event) => (key.value = event.target.value)}/>
            ${error.value && html`<p class="error" role="alert">${error.value}</p>`}
          </div>
          <button class="button primary" disabled=${isBusy.value}>${t("session.in")}</button>
          ${session.isAsked && html`<button type="button" class="button" onClick=${() => (session.isAsked = false)}>${t("session.stay", { name: session.name })}</button>`}
        </form>
      </main>
    `;
  },
};
