// Fields bound to members of the draft: what is typed is written into the JSON text, and what changes there is shown here.

import { Field, hasText, html, idOf, shallowRef, t } from "../../core.js";
import { CODECS } from "./codecs.js";

/**
 * The field of the member at `path`. `kind`: one of CODECS, or area (several lines), choice (with `options`), flag. `known` are the words of a choice where the schema has
 * none. What cannot be read stays in the field with the reason, and out of the definition.
 */
export const Member = {
  props: { form: Object, path: Array, kind: { default: "text" }, label: String, hint: String, placeholder: String, list: String, known: Array, disabled: Boolean, mono: Boolean, onTyped: Function },
  setup(props) {
    const typed = shallowRef(null);
    const value = () => props.form.draft.get(props.path);
    const stamp = () => JSON.stringify(value());
    const codec = () => CODECS[props.kind] ?? CODECS.text;

    function type(text) {
      const { value: next, fault } = codec().read(text);
      if (!fault) props.form.draft.set(props.path, next);
      typed.value = { text, fault, stamp: stamp() };
      props.onTyped?.(next);
    }

    return () => {
      const { form, path, label, hint } = props;
      const own = typed.value !== null && typed.value.stamp === stamp() ? typed.value : { text: codec().write(value()), fault: null };
      const error = own.fault ?? form.errorAt(path);
      const slot = (described) => control(props, described, own.text, type);
      if (props.kind === "flag") return flag(props, error);
      return html`<${Field} id=${idOf(path)} label=${label} hint=${hint} error=${error}>${{ default: slot }}<//>`;
    };
  },
};

/** Names and values in rows, as headers and labels are. */
export const Pairs = {
  props: { form: Object, path: Array, label: String, hint: String, add: String },
  setup(props) {
    const typed = shallowRef(null);
    const value = () => {
      const given = props.form.draft.get(props.path);
      return Object(given) === given ? given : {};
    };
    const stamp = () => JSON.stringify(value());
    const rows = () => (typed.value?.stamp === stamp() ? typed.value.rows : Object.entries(value()).map(([name, one]) => [name, CODECS.text.write(one)]));

    function change(next) {
      const filled = next.filter(([name]) => name !== "");
      props.form.draft.set(props.path, filled.length === 0 ? undefined : Object.fromEntries(filled));
      typed.value = { rows: next, stamp: stamp() };
    }

    const put = (index, place) => (event) => change(rows().map((row, at) => (at === index ? row.with(place, event.target.value) : row)));
    return () => html`
      <fieldset class="pairs-field" id=${idOf(props.path)} tabindex="-1">
        <legend>${props.label}</legend>
        ${rows().map(([name, text], index) => html`
          <div class="pair" key=${index}>
            <input class="mono" aria-label=${t("editor.pairName", { label: props.label, number: index + 1 })} value=${name} onInput=${put(index, 0)}/>
            <input class="mono" aria-label=${t("editor.pairValue", { label: props.label, number: index + 1 })} value=${text} onInput=${put(index, 1)}/>
            <button type="button" class="button bare" aria-label=${t("editor.removeNamed", { name: name || index + 1 })} onClick=${() => change(rows().toSpliced(index, 1))}>×</button>
            ${pairError(props, name)}
          </div>
        `)}
        <button type="button" class="button small" onClick=${() => change([...rows(), ["", ""]])}>${props.add}</button>
        ${props.hint && html`<p class="hint">${props.hint}</p>`}
        ${props.form.errorAt(props.path) && html`<p class="error">${props.form.errorAt(props.path)}</p>`}
      </fieldset>
    `;
  },
};

function pairError({ form, path }, name) {
  const error = form.errorAt([...path, name]);
  return error && html`<p class="error">${error}</p>`;
}

function control(props, described, text, type) {
  const { form, path, kind, disabled } = props;
  const shared = { ...described, disabled, class: { mono: props.mono } };
  if (kind === "choice") return choice(props, shared, text);
  const placeholder = props.placeholder ?? form.defaultAt(path);
  const typing = { ...shared, placeholder, spellcheck: "false", value: text, onInput: (event) => type(event.target.value) };
  if (kind === "area") return html`<textarea ...${typing} rows=${Math.min(8, Math.max(1, text.split("\n").length))}></textarea>`;
  return html`<input ...${typing} list=${props.list} autocomplete="off" inputmode=${kind === "number" ? "decimal" : undefined}/>`;
}

function choice({ form, path, known, onTyped }, shared, text) {
  const words = form.choicesAt(path, known);
  const fallback = form.defaultAt(path);
  const texts = words.map((word) => [String(word), hasText(`editor.choice.${word}`) ? t(`editor.choice.${word}`) : String(word)]);
  const isOther = text !== "" && !texts.some(([word]) => word === text);
  const choose = (event) => {
    const word = words.find((one) => String(one) === event.target.value);
    form.draft.set(path, word);
    onTyped?.(word);
  };
  return html`
    <select ...${shared} value=${text} onChange=${choose}>
      <option value="">${fallback === "" ? t("editor.asSet") : t("editor.byDefault", { word: texts.find(([word]) => word === fallback)?.[1] ?? fallback })}</option>
      ${isOther && html`<option value=${text}>${text}</option>`}
      ${texts.map(([word, shown]) => html`<option key=${word} value=${word}>${shown}</option>`)}
    </select>
  `;
}

function flag({ form, path, label, hint, disabled }, error) {
  const isOn = Boolean(form.draft.get(path));
  const id = idOf(path);
  return html`
    <div class="field flag">
      <label><input type="checkbox" id=${id} checked=${isOn} disabled=${disabled} aria-describedby=${hint ? `${id}-hint` : undefined} onChange=${() => form.draft.set(path, isOn ? undefined : true)}/>${label}</label>
      ${hint && html`<p class="hint" id=${`${id}-hint`}>${hint}</p>`}
      ${error && html`<p class="error">${error}</p>`}
    </div>
  `;
}
