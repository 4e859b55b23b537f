// Fields of filters that count when they are entered, not at each stroke: half a word would find nothing.

import { html } from "../core/html.js";
import { useResource } from "../core/resource.js";
import { ref } from "../core/vue.js";

const SUGGESTED = 8;
const SUGGESTIONS = "jobs-like-this";

/** A field for a text: `value`, `label`, `onChoose(text)` when it is entered. What is being typed stays while the page is drawn again. */
export const TextFilter = {
  props: { value: String, label: String, list: String, onChoose: Function, onType: { type: Function, default: () => {} } },
  setup(props) {
    const draft = ref(null);
    function type(event) {
      draft.value = event.target.value;
      props.onType(draft.value.trim());
    }
    function choose(event) {
      draft.value = null;
      props.onChoose(event.target.value.trim());
    }
    return () => html`
      <input
        class=${["short", { "search-input": props.list !== undefined }]}
        list=${props.list}
        autocomplete="off"
        spellcheck="false"
        aria-label=${props.label}
        placeholder=${props.label}
        value=${draft.value ?? props.value ?? ""}
        onInput=${type}
        onChange=${choose}
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
