// Long waits drawn short: a mapping of moments to places on an axis that is broken where nothing but waiting happens.

const GAP_SHARE = 0.3;
const WORTH = 3;
// A line that is broken at each check says less than a straight one.
const MOST_GAPS = 8;

/**
 * The mapping for `rows`, from `span` (`{from, to}`, ms): `{to(at), back(x), gaps, isShorter}`. Outside of gaps one ms of the axis is one ms; each gap is at
 * most as long as a share of all work. `isShorter`: there is a gap that is worth it. `now` is the end of what goes on.
 */
export function warpOf(rows, span, now) {
  const work = mergedWork(rows, span, now);
  const total = work.reduce((sum, one) => sum + one.to - one.from, 0);
  const longest = Math.max(GAP_SHARE * total, 4);
  const gaps = gapsOf(work, span).filter((gap) => gap.to - gap.from > WORTH * longest);
  if (gaps.length > MOST_GAPS) return STRAIGHT;
  const saved = gaps.map((gap) => ({ ...gap, length: longest }));
  return { to: (at) => forward(saved, at), back: (x) => backward(saved, x), gaps: saved, isShorter: saved.length > 0 };
}

/** The mapping that changes nothing. */
export const STRAIGHT = { to: (at) => at, back: (x) => x, gaps: [], isShorter: false };

function mergedWork(rows, span, now) {
  const bars = rows
    .flatMap((row) => row.bars.filter((bar) => bar.kind === "work"))
    .map((bar) => ({ from: bar.from, to: Math.max(bar.to ?? now, bar.from + 1) }))
    .filter((bar) => bar.to > span.from && bar.from < span.to)
    .sort((one, two) => one.from - two.from);
  const merged = [];
  for (const bar of bars) {
    const last = merged.at(-1);
    if (last !== undefined && bar.from <= last.to) last.to = Math.max(last.to, bar.to);
    else merged.push({ ...bar });
  }
  return merged;
}

function gapsOf(work, span) {
  const edges = [{ to: span.from }, ...work, { from: span.to }];
  return edges.slice(1).map((one, index) => ({ from: edges[index].to, to: one.from }));
}

function forward(gaps, at) {
  let x = at;
  for (const gap of gaps) {
    if (at <= gap.from) break;
    const inside = Math.min(at, gap.to) - gap.from;
    x -= inside * (1 - gap.length / (gap.to - gap.from));
  }
  return x;
}

function backward(gaps, x) {
  let at = x;
  for (const gap of gaps) {
    const start = forward(gaps, gap.from);
    if (x <= start) break;
    const inside = Math.min(x - start, gap.length);
    at += inside * ((gap.to - gap.from) / gap.length - 1);
  }
  return at;
}
