// Pictograms, drawn here; each is for the eye alone, the text beside it says the same.

import { h } from "../core/vue.js";

const PATHS = {
  alert: "M12 3 2.5 20h19L12 3Zm0 6v5m0 3v.01",
  arrow: "M5 12h14m-6-6 6 6-6 6",
  bell: "M6 16V11a6 6 0 1 1 12 0v5l2 2H4l2-2Zm4 5h4",
  calendar: "M4 6h16v14H4zM4 10h16M8 3v4m8-4v4",
  check: "m5 12.5 4.5 4.5L19 7.5",
  chevron: "m9 6 6 6-6 6",
  clock: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Zm0 4v5l3 2",
  close: "m6 6 12 12M18 6 6 18",
  contrast: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18Zm0 0v18m3-17v16m3-13.5v11",
  copy: "M9 9h11v11H9zM5 15H4V4h11v1",
  cross: "m7 7 10 10M17 7 7 17",
  dash: "M6 12h12",
  days: "M4 6h16v14H4zM4 10h16M8 3v4m8-4v4M8 13.5h.01M12 13.5h.01M16 13.5h.01M8 17h.01M12 17h.01",
  dot: "M12 6.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11Z",
  down: "M12 4v14m-6-6 6 6 6-6",
  edit: "M4 20h4L19 9l-4-4L4 16v4Z",
  executions: "M4 6h10M4 12h16M4 18h7",
  filter: "M3 5h18l-7 8v6l-4-2v-4L3 5Z",
  gear: "M12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6Zm0-6v3m0 12v3M3 12h3m12 0h3M5.6 5.6l2.2 2.2m8.4 8.4 2.2 2.2m0-12.8-2.2 2.2M7.8 16.2l-2.2 2.2",
  home: "M5 20V9m7 11V4m7 16v-7",
  jobs: "M4 6h16M4 12h16M4 18h10",
  key: "M8 8.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7ZM11.5 12H21m-3 0v4m-3-4v2.5",
  keyboard: "M3 6h18v12H3zM7 10h.01M11 10h.01M15 10h.01M8 14h8",
  list: "M8 6h12M8 12h12M8 18h12M4 6h.01M4 12h.01M4 18h.01",
  lock: "M6 11h12v9H6zM9 11V8a3 3 0 0 1 6 0v3",
  moon: "M20 14.5A8.5 8.5 0 1 1 9.5 4a7 7 0 0 0 10.5 10.5Z",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  node: "M4 5h16v6H4zM4 13h16v6H4zM8 8h.01M8 16h.01",
  pause: "M8 5v14M16 5v14",
  play: "M7 4.5v15l12-7.5-12-7.5Z",
  plus: "M12 5v14M5 12h14",
  queue: "M4 7h16M4 12h16M4 17h16M17 4l3 3-3 3",
  redo: "M15 5l5 5-5 5M20 10H9.5a5.5 5.5 0 0 0 0 11H12",
  resume: "M5 5v14M10 5v14l10-7-10-7Z",
  retry: "M20 6v5h-5M4 18v-5h5M5.5 9A7.5 7.5 0 0 1 19 8.5M18.5 15A7.5 7.5 0 0 1 5 15.5",
  search: "M11 4a7 7 0 1 0 0 14 7 7 0 0 0 0-14Zm5 12 5 5",
  send: "m3 11 18-8-7 18-3-8-8-2Z",
  service: "M12 3 4 7v10l8 4 8-4V7l-8-4Zm0 9v9m0-9L4 7m8 5 8-5",
  skip: "M5 5v14l9-7-9-7Zm13 0v14",
  stop: "M6 6h12v12H6z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8Zm0-6v2m0 16v2M2 12h2m16 0h2M4.9 4.9l1.4 1.4m11.4 11.4 1.4 1.4m0-14.2-1.4 1.4M6.3 17.7l-1.4 1.4",
  trash: "M4 7h16M9 7V4h6v3M6 7l1 13h10l1-13",
  undo: "M9 5 4 10l5 5M4 10h10.5a5.5 5.5 0 0 1 0 11H12",
  upload: "M12 20V6m-6 6 6-6 6 6M5 3h14",
};
const FILLED = new Set(["play", "stop", "dot"]);

/** A pictogram: `<${Icon} name="play"/>`. */
export function Icon({ name, size = 16 }) {
  const attributes = { viewBox: "0 0 24 24", width: size, height: size, "aria-hidden": "true", focusable: "false" };
  return h("svg", { class: ["icon", { filled: FILLED.has(name) }], ...attributes }, h("path", { d: PATHS[name] }));
}

Icon.isMark = true;
