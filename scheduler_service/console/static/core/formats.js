// Numbers, durations and sizes as people read them.

import { intlFormat, t } from "./language.js";

const UNITS = [
  ["day", 86_400_000],
  ["hour", 3_600_000],
  ["minute", 60_000],
  ["second", 1_000],
];

// From here on digits are not exact, and Intl writes zeros for them.
const LARGE = 1e15;

/** 12,345 in the reader's language; a dash for nothing. Figures that are not `compact` are written without Intl, see `writeNumber`. */
export function formatNumber(value, options) {
  if (value === null || value === undefined) return "–";
  const { maximumFractionDigits: digits = 3, ...others } = options ?? {};
  const isPlain = Object.keys(others).length === 0 && Math.abs(value) < LARGE;
  return isPlain ? writeNumber(Number(value), digits) : intlFormat("NumberFormat", options).format(value);
}

/** 12.3K: for figures that stand large. */
export function formatCompact(value) {
  return formatNumber(value, { notation: "compact", maximumFractionDigits: 1 });
}

/** A share from 0 to 1 as a percentage; 99.97 % does not become 100 %. */
export function formatShare(share) {
  if (share === null || share === undefined || Number.isNaN(share)) return "–";
  const floored = share < 1 ? Math.floor(share * 1_000) / 1_000 : share;
  return formatNumber(floored, { style: "percent", maximumFractionDigits: 1 });
}

/** Milliseconds with the unit that suits: 3 ms, 1.24 s, 2 min 5 s, 3 h 20 min, 4 d 2 h; a dash for nothing. */
export function formatDuration(ms) {
  if (ms === null || ms === undefined) return "–";
  const size = Math.abs(ms);
  if (size < 1_000) return `${Math.round(ms)} ms`;
  if (size < 60_000) return `${formatNumber(ms / 1_000, { maximumFractionDigits: size < 10_000 ? 2 : 1 })} s`;
  const sign = ms < 0 ? "−" : "";
  if (size < 3_600_000) return sign + pair(size, 60_000, "min", 1_000, "s");
  if (size < 86_400_000) return sign + pair(size, 3_600_000, "h", 60_000, "min");
  return sign + pair(size, 86_400_000, "d", 3_600_000, "h");
}

/** Bytes: 512 B, 4.0 KiB, 1.2 MiB; a dash for nothing. */
export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  if (bytes < 1_024) return `${bytes} B`;
  const [size, unit] = bytes < 1_048_576 ? [bytes / 1_024, "KiB"] : [bytes / 1_048_576, "MiB"];
  return `${formatNumber(size, { maximumFractionDigits: 1 })} ${unit}`;
}

/**
 * The distance from `now` to `at` (ms): "in 5 minutes", "3 hours ago"; "now" within a second. Days are spans of 24 hours, not those of
 * the calendar, so they are counted and never called tomorrow; up to two of them are told in hours.
 */
export function formatRelative(at, now) {
  const distance = at - now;
  for (const [unit, length] of UNITS) {
    const least = unit === "day" ? 2 * length : length;
    if (Math.abs(distance) < least) continue;
    const count = formatNumber(Math.trunc(Math.abs(distance) / length));
    return t(`relative.${unit}.${distance < 0 ? "past" : "coming"}`, { count });
  }
  return t("relative.now");
}

/** As Intl does it in English and in Chinese: both group by commas. (1.005 to two digits is 1 here, and 1.01 there.) The first format of Intl costs a new page 20 ms, so no row needs one. */
function writeNumber(value, digits) {
  const [whole, rest = ""] = value.toFixed(digits).split(".");
  const fraction = rest.replace(/0+$/, "");
  return whole.replace(/\B(?=(\d{3})+$)/g, ",") + (fraction === "" ? "" : `.${fraction}`);
}

function pair(size, length, unit, rest, unitOfRest) {
  const whole = Math.floor(size / length);
  const left = Math.floor((size % length) / rest);
  return left === 0 ? `${whole} ${unit}` : `${whole} ${unit} ${left} ${unitOfRest}`;
}
