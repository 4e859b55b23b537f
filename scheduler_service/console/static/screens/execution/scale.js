// The time axis of the waterfall: which span is seen, where a moment lies in it, and its ticks.

const STEPS = [
  ...[1, 2, 5, 10, 20, 50, 100, 200, 500],
  ...[1, 2, 5, 10, 15, 30].map((seconds) => seconds * 1_000),
  ...[1, 2, 5, 10, 15, 30].map((minutes) => minutes * 60_000),
  ...[1, 2, 3, 6, 12].map((hours) => hours * 3_600_000),
];
const DAY_MS = 86_400_000;
const LEAST_SPAN_MS = 1;

/** Where `at` lies in `view` (`{from, to}`, ms), as a percentage, held within 0 and 100. */
export function placeIn(view, at) {
  return Math.min(100, Math.max(0, (100 * (at - view.from)) / (view.to - view.from)));
}

/** The moments of ticks in `view`, about `wanted` of them, at round distances from `origin`. */
export function ticksOf(view, origin, wanted = 6) {
  const rough = (view.to - view.from) / wanted;
  const step = STEPS.find((one) => one >= rough) ?? Math.ceil(rough / DAY_MS) * DAY_MS;
  const ticks = [];
  for (let at = origin + Math.ceil((view.from - origin) / step) * step; at <= view.to; at += step) ticks.push(at);
  return ticks;
}

/** `view` grown or shrunk by `factor` around `centre` (ms; default its middle), within `bounds`. */
export function zoomBy(view, factor, bounds, centre = (view.from + view.to) / 2) {
  return heldIn(bounds, { from: centre - (centre - view.from) * factor, to: centre + (view.to - centre) * factor });
}

/** `view` moved by a share of its own span, within `bounds`. */
export function panBy(view, share, bounds) {
  const span = view.to - view.from;
  const from = Math.min(Math.max(view.from + share * span, bounds.from), Math.max(bounds.from, bounds.to - span));
  return heldIn(bounds, { from, to: from + span });
}

/** A view that shows all from `from` to `to` with some room at both ends, within `bounds`. */
export function fit(from, to, bounds) {
  const room = Math.max(0.04 * (to - from), LEAST_SPAN_MS / 4);
  return heldIn(bounds, { from: from - room, to: to + room });
}

function heldIn(bounds, { from, to }) {
  const missing = Math.max(0, LEAST_SPAN_MS - (to - from)) / 2;
  return { from: Math.max(from - missing, bounds.from), to: Math.min(to + missing, Math.max(bounds.to, bounds.from + LEAST_SPAN_MS)) };
}
