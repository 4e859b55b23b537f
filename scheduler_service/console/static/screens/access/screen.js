// Access keys: made, rotated, revoked; the text of one is shown once.

import {
  ActionButton,
  DataTable,
  EmptyState,
  Loaded,
  Moment,
  PageHead,
  Pager,
  Panel,
  attempt,
  confirm,
  html,
  pathOf,
  ref,
  remove,
  session,
  t,
  useListing,
} from "../../core.js";
import { MakeDialog, RotateDialog, ShownKey } from "./dialogs.js";

/** `#/keys`. */
export const Screen = {
  setup() {
    const listing = useListing("keys", () => ({}));
    const open = ref(null);
    const made = ref(null);
    const close = () => (open.value = null);
    const show = (key) => {
      close();
      made.value = key;
      listing.resource.reload();
    };
    return () => {
      return html`
        <${PageHead} title=${t("access.title")}>
          <button type="button" class="button primary" onClick=${() => (open.value = { make: true })}>${t("access.make")}</button>
        <//>
        ${!session.needsKey && html`<p class="dim">${t("access.firstText")}</p>`}
        ${made.value && html`<${ShownKey} made=${made.value} onClose=${() => (made.value = null)}/>`}
        <${Loaded} resource=${listing.resource}>${{
          default: () =>
            listing.items.value.length === 0
              ? html`<${EmptyState} icon="key" title=${t("access.none")} text=${t("access.noneText")}/>`
              : html`<${Panel} flush><${DataTable} columns=${columns(open, listing)} rows=${listing.items.value} keyOf=${(one) => one.keyId} label=${t("access.title")}/><//>`,
        }}<//>
        <${Pager} page=${listing.page.value} hasNext=${listing.hasNext.value} onBack=${listing.back} onNext=${listing.next}/>
        ${open.value?.make && html`<${MakeDialog} onMade=${show} onClose=${close}/>`}
        ${open.value?.rotate && html`<${RotateDialog} of=${open.value.rotate} onMade=${show} onClose=${close}/>`}
      `;
    };
  },
};

const columns = (open, listing) => [
  { key: "name", text: t("access.name"), cell: (one) => html`<span class="name">${one.name}</span> <span class="mono dim">${one.keyId}</span>` },
  { key: "role", text: t("access.role"), cell: (one) => t(`role.${one.role}`) },
  { key: "part", text: t("access.part"), cell: partOf },
  { key: "state", text: t("access.state"), cell: (one) => html`<span class=${["badge", { good: one.state === "living", warn: one.state === "expired", bad: one.state === "revoked" }]}>${stateOf(one)}</span>` },
  { key: "used", text: t("access.used"), cell: (one) => html`<${Moment} at=${one.lastUsedAt}/>` },
  { key: "ends", text: t("access.ends"), cell: (one) => html`<${Moment} at=${one.revokedAt ?? one.expiresAt}/>` },
  { key: "made", text: t("access.made"), cell: (one) => html`<${Moment} at=${one.createdAt}/> <span class="dim">${one.createdBy}</span>` },
  { key: "actions", kind: "narrow right", text: "", cell: (one) => one.state === "living" && actions(one, open, listing) },
];

function stateOf(one) {
  return { living: t("access.living"), expired: t("access.expired"), revoked: t("access.revoked") }[one.state] ?? one.state;
}

function partOf(one) {
  if (one.service) return html`<span class="label">${t("access.ofService", { name: one.service })}</span>`;
  return one.labels.length === 0 ? "–" : one.labels.map((label) => html`<span class="label" key=${label}>${label}</span>`);
}

function actions(one, open, listing) {
  return html`
    <button type="button" class="button" onClick=${() => (open.value = { rotate: one })}>${t("access.rotate")}</button>
    <${ActionButton} kind="danger" text=${t("access.revoke")} run=${() => revoke(one, listing)}/>
  `;
}

async function revoke(one, listing) {
  const wanted = await confirm({
    title: t("access.revokeTitle", { name: one.name }),
    text: t("access.revokeText"),
    action: t("access.revoke"),
    isDangerous: true,
  });
  if (!wanted) return;
  await attempt(() => remove(pathOf("keys", one.keyId)), t("access.isRevoked", { name: one.name }));
  listing.resource.reload();
}
