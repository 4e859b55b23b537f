// Which part of the time axis is seen: the run or everything, looked at closely or not, with long waits drawn short or not.

import { now, ref } from "../../core.js";
import { spansOf } from "./rows.js";
import { fit, panBy, zoomBy } from "./scale.js";
import { STRAIGHT, warpOf } from "./warp.js";

const ENDLESS = { from: -Infinity, to: Infinity };
// What lies outside of the run counts as more from this share of it on.
const MORE = 0.02;

/**
 * The span of the waterfall of `props` (`execution`, `rows`). Members: `seen()` (`{from, to}` on the axis), `warp()` (of warpOf), `scope` (run or all, a
 * ref), `choose(scope)`, `isShort` (a ref), `canShorten()`, `shorten()`, `hasMore()`, `isWhole()`, `zoom(factor)`, `pan(share)`, `show({from, to})`, `fitRow(row)`, `reset()`.
 */
export function useSpan(props) {
  const view = ref(null);
  const isShort = ref(true);
  const scope = ref("run");
  const spans = () => spansOf(props.execution, props.rows, now.value);
  const shortened = () => warpOf(props.rows, spans()[scope.value], now.value);
  const warp = () => (isShort.value ? shortened() : STRAIGHT);
  const across = ({ from, to }) => ({ from: warp().to(from), to: warp().to(to) });
  const bounds = () => across(spans().all);
  const seen = () => {
    if (view.value !== null) return view.value;
    const { from, to } = across(spans()[scope.value]);
    return fit(from, to, ENDLESS);
  };
  const reset = () => (view.value = null);
  const show = ({ from, to }) => (view.value = fit(from, to, bounds()));
  return {
    scope,
    isShort,
    warp,
    seen,
    show,
    reset,
    isWhole: () => view.value === null,
    hasMore: () => isMore(spans()),
    canShorten: () => shortened().isShorter,
    zoom: (factor) => (view.value = zoomBy(seen(), factor, bounds())),
    pan: (share) => (view.value = panBy(seen(), share, bounds())),
    fitRow: (row) => row !== undefined && show(across({ from: row.from, to: row.to ?? now.value })),
    choose(value) {
      scope.value = value;
      reset();
    },
    shorten() {
      isShort.value = !isShort.value;
      reset();
    },
  };
}

function isMore({ run, all }) {
  const length = run.to - run.from;
  return all.from < run.from - MORE * length || all.to > run.to + MORE * length;
}
