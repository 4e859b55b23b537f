// Vue, which the classic script before this one has put into the global `Vue`; no other module names it.

export const { createApp, h } = globalThis.Vue;
