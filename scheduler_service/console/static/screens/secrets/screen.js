// Secrets: their names, sources and dates; stored and removed by admins. No value is ever read.

import {
  ActionButton,
  DataTable,
  Dialog,
  EmptyState,
  Loaded,
  Moment,
  PageHead,
  Panel,
  TextField,
  attempt,
  confirm,
  html,
  may,
  pathOf,
  put,
  reactive,
  ref,
  remove,
  t,
  useResource,
  useSubmit,
} from "../../core.js";

/** `#/secrets`. */
export const Screen = {
  setup() {
    const resource = useResource(() => ({ path: "secrets" }));
    const open = ref(null);
    const close = () => (open.value = null);
    const stored = () => {
      close();
      resource.reload();
    };
    return () => {
      const canStore = may("admin") && resource.data?.canStore;
      return html`
        <${PageHead} title=${t("secrets.title")}>
          ${canStore && html`<button type="button" class="button primary" onClick=${() => (open.value = { name: "" })}>${t("secrets.store")}</button>`}
        <//>
        <${Loaded} resource=${resource}>${{ default: (data) => listed(data, open, resource) }}<//>
        ${open.value && html`<${StoreDialog} of=${open.value.name} onStored=${stored} onClose=${close}/>`}
      `;
    };
  },
};

/** Asks for a value, which is not shown while it is typed; `of`: the name of the one that it replaces. */
const StoreDialog = {
  props: { of: String, onStored: Function, onClose: Function },
  setup(props) {
    const wanted = reactive({ name: props.of, value: "", keepEarlier: false });
    const { isBusy, submit } = useSubmit(async () => {
      const { name, value, keepEarlier } = wanted;
      const done = await attempt(() => put(pathOf("secrets", name.trim()), { value, keepEarlier }), t("secrets.isStored", { name: name.trim() }));
      if (done !== undefined) props.onStored();
    });
    return () => html`
      <${Dialog} title=${t("secrets.store")} onClose=${props.onClose}>
        <form onSubmit=${submit}>
          <${TextField} id="secret-name" label=${t("secrets.name")} hint=${t("secrets.nameHint")} value=${wanted.name} onChange=${(text) => (wanted.name = text)} disabled=${props.of !== ""} autocomplete="off"/>
          <${TextField} id="secret-value" type="password" label=${t("secrets.value")} hint=${t("secrets.valueHint")} value=${wanted.value} onChange=${(text) => (wanted.value = text)} autocomplete="new-password"/>
          ${props.of !== "" && html`<label class="check"><input type="checkbox" checked=${wanted.keepEarlier} onChange=${(event) => (wanted.keepEarlier = event.target.checked)}/> ${t("secrets.keepEarlier")}</label>`}
          <div class="dialog-actions">
            <button type="button" class="button" onClick=${props.onClose}>${t("action.cancel")}</button>
            <button type="submit" class="button primary" disabled=${isBusy.value || wanted.name.trim() === "" || wanted.value.length < 4}>${t("secrets.store")}</button>
          </div>
        </form>
      <//>
    `;
  },
};

function listed(data, open, resource) {
  return html`
    <p class="dim">${t("secrets.text")} ${!data.canStore && t("secrets.noKey")}</p>
    ${data.items.length === 0
      ? html`<${EmptyState} icon="key" title=${t("secrets.none")}/>`
      : html`<${Panel} flush><${DataTable} columns=${columns(data, open, resource)} rows=${data.items} keyOf=${(one) => one.name} label=${t("secrets.title")}/><//>`}
  `;
}

const columns = (data, open, resource) => [
  { key: "name", text: t("secrets.name"), cell: (one) => html`<span class="mono">${one.name}</span>` },
  { key: "source", text: t("secrets.source"), cell: (one) => html`<span class=${["badge", { bad: one.values === 0 }]}>${sourceOf(one)}</span>` },
  { key: "updated", text: t("secrets.updated"), cell: (one) => html`<${Moment} at=${one.updatedAt}/>` },
  { key: "actions", kind: "narrow right", text: "", cell: (one) => one.source === "stored" && data.canStore && may("admin") && actions(one, open, resource) },
];

function sourceOf(one) {
  if (one.values === 0) return t("secrets.sealed");
  const source = { stored: t("secrets.stored"), file: t("secrets.file"), settings: t("secrets.settings") }[one.source] ?? one.source;
  return one.values === 2 ? t("secrets.two", { source }) : source;
}

function actions(one, open, resource) {
  return html`
    <button type="button" class="button" onClick=${() => (open.value = { name: one.name })}>${t("secrets.replace")}</button>
    <${ActionButton} kind="danger" text=${t("secrets.remove")} run=${() => removeSecret(one, resource)}/>
  `;
}

async function removeSecret(one, resource) {
  const wanted = await confirm({
    title: t("secrets.removeTitle", { name: one.name }),
    text: t("secrets.removeText"),
    action: t("secrets.remove"),
    isDangerous: true,
  });
  if (!wanted) return;
  await attempt(() => remove(pathOf("secrets", one.name)), t("secrets.isRemoved", { name: one.name }));
  resource.reload();
}
