// Dialogs, each a native one: the browser keeps the keyboard inside and gives it back afterwards.

import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { onMounted, ref, shallowReactive } from "../core/vue.js";
import { Icon } from "./icons.js";

/** A dialog that is open while it exists: `title`, slots `default` and `actions`; emits `close` (Escape, the cross). */
export const Dialog = {
  props: { title: String, wide: Boolean, onClose: Function },
  setup(props, { slots }) {
    const element = ref(null);
    onMounted(() => element.value.showModal());
    return () => html`
      <dialog ref=${element} class=${["dialog", { wide: props.wide }]} aria-label=${props.title} onCancel=${props.onClose} onClose=${props.onClose}>
        <div class="dialog-head">
          <h2>${props.title}</h2>
          <button type="button" class="button bare" aria-label=${t("action.close")} onClick=${() => element.value.close()}>
            <${Icon} name="close"/>
          </button>
        </div>
        <div class="dialog-body">${slots.default?.()}</div>
        ${slots.actions && html`<div class="dialog-actions">${slots.actions()}</div>`}
      </dialog>
    `;
  },
};

/**
 * What a form does when it is sent: `submit` is for `onSubmit`, `isBusy` (a ref) is true until `action()` has ended. Sent again meanwhile, as by a
 * double click, it does nothing.
 */
export function useSubmit(action) {
  const isBusy = ref(false);
  async function submit(event) {
    event.preventDefault();
    if (isBusy.value) return;
    isBusy.value = true;
    try {
      await action();
    } finally {
      isBusy.value = false;
    }
  }
  return { isBusy, submit };
}

const question = shallowReactive({ asked: null });

/**
 * Asks whether to go on: a promise of true or false. `text` says what will happen, `action` is the word on the button, `isDangerous`
 * colours it; `typed` must be typed first where it cannot be taken back.
 */
export function confirm({ title, text, action, isDangerous = false, typed = null }) {
  return new Promise((resolve) => {
    question.asked = { title, text, action, isDangerous, typed, resolve };
  });
}

/** Where the questions of `confirm` appear; stands once in the page. */
export const Confirmation = {
  setup() {
    const word = ref("");
    function answer(value) {
      const asked = question.asked;
      question.asked = null;
      word.value = "";
      asked?.resolve(value);
    }
    return () => {
      const asked = question.asked;
      if (asked === null) return null;
      const isReady = asked.typed === null || word.value === asked.typed;
      return html`
        <${Dialog} title=${asked.title} onClose=${() => answer(false)}>${{
          default: () => html`
            <p class="lines">${asked.text}</p>
            ${asked.typed !== null && html`
              <label class="field">${t("confirm.type", { word: asked.typed })}
                <input value=${word.value} onInput=${(event) => (word.value = event.target.value)}/>
              </label>
            `}
          `,
          actions: () => html`
            <button type="button" class="button" onClick=${() => answer(false)}>${t("action.cancel")}</button>
            <button type="button" class=${["button", asked.isDangerous ? "danger" : "primary"]} disabled=${!isReady} onClick=${() => answer(true)}>
              ${asked.action}
            </button>
          `,
        }}<//>
      `;
    };
  },
};
