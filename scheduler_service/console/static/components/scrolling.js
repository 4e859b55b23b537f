// An area that scrolls by itself where its content does not fit: the keyboard can reach it then. Else heads of tables stick to the window.

import { html } from "../core/html.js";
import { onMounted, onUnmounted, ref } from "../core/vue.js";

/** `<${ScrollArea} label="…">…<//>`: takes the focus only while its content is wider or higher than it is. */
export const ScrollArea = {
  props: { label: String },
  setup(props, { slots, attrs }) {
    const element = ref(null);
    const isScrolling = ref(false);
    let observer = null;
    const look = () => {
      const area = element.value;
      isScrolling.value = area !== null && (area.scrollWidth > area.clientWidth || area.scrollHeight > area.clientHeight);
    };
    onMounted(() => {
      observer = new ResizeObserver(look);
      observer.observe(element.value);
      for (const child of element.value.children) observer.observe(child);
    });
    onUnmounted(() => observer?.disconnect());
    return () => html`
      <div
        ref=${element}
        class=${[attrs.class, { scrolls: isScrolling.value }]}
        tabindex=${isScrolling.value ? "0" : undefined}
        role=${isScrolling.value ? "region" : undefined}
        aria-label=${isScrolling.value ? props.label : undefined}
      >${slots.default?.()}</div>
    `;
  },
};
