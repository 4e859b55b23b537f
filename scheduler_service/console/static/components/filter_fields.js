// Fields of filters that count when they are entered, not at each stroke: half a word would find nothing.

import { html } from "../core/html.js";
import { useResource } from "../core/resource.js";
import { onBeforeUnmount, ref } from "../core/vue.js";

const SUGGESTED = 8;
const SUGGESTIONS = "jobs-like-this";

/**
 * The attributes of an input that counts when it is entered, given the value that counts: `onChoose(text)` when it is entered, `onType(text)` at each
 * stroke. What is being typed stays while the page is drawn again, as a live page is at any moment, but for another value that counts meanwhile.
 */
function useDraft(onChoose, onType = () => {}) {
  const draft = ref(null);
  let typedOver = "";
  let isGone = false;
  onBeforeUnmount(() => (isGone = true));
  return (value = "") => ({
    value: draft.value !== null && typedOver === value ? draft.value : value,
    onInput(event) {
      draft.value = event.target.value;
      typedOver = value;
      onType(draft.value.trim());
    },
    onChange(event) {
      if (isGone) return; // a browser says it also of a field that is removed while something is typed
      draft.value = null;
      onChoose(event.target.value.trim());
    },
    onBlur: () => (draft.value = null), // what was typed and taken back is no draft
  });
}

/** A field for a text: `value`, `label`, `onChoose(text)` when it is entered, `onType(text)` at each stroke. */
export const TextFilter = {
  props: { value: String, label: String, list: String, onChoose: Function, onType: Function },
  setup(props) {
    const entry = useDraft((text) => props.onChoose(text), (text) => props.onType?.(text));
    return () => html`
      <input
        class=${["short", { "search-input": props.list !== undefined }]}
        list=${props.list}
        autocomplete="off"
        spellcheck="false"
        aria-label=${props.label}
        placeholder=${props.label}
        ...${entry(props.value)}
      />
    `;
  },
};

/** The same for a job's id, with suggestions by id, name or label. Its key is `/`. */
export const JobFilter = {
  props: { value: String, label: String, onChoose: Function },
  setup(props) {
    const typed = ref("");
    const found = useResource(() => (typed.value === "" ? null : { path: "jobs", query: { text: typed.value, limit: SUGGESTED } }), { keeps: true });
    return () => html`
      <${TextFilter} value=${props.value} label=${props.label} list=${SUGGESTIONS} onChoose=${props.onChoose} onType=${(text) => (typed.value = text)}/>
      <datalist id=${SUGGESTIONS}>
        ${(found.data?.items ?? []).map((job) => html`<option key=${job.jobId} value=${job.jobId}>${job.jobName}</option>`)}
      </datalist>
    `;
  },
};

/** A field for a number with its label before it: `value`, `label`, `onChoose(digits)` when it is entered. */
export const NumberFilter = {
  props: { value: String, label: String, onChoose: Function },
  setup(props) {
    const entry = useDraft((text) => props.onChoose(text.replace(/\D/g, "")));
    return () => html`<label>${props.label} <input class="short" inputmode="numeric" autocomplete="off" ...${entry(props.value)}/></label>`;
  },
};
