// One row of the waterfall: its name, how it stands, its time, and its bars.

import { formatDuration, html, now, t } from "../../core.js";
import { offsetText } from "./axis.js";
import { placeIn } from "./scale.js";
import { nameOfRow, statusOfRow } from "./words.js";

// A bar that is shorter (a percentage of the axis) has no room for words.
const LABELLED = 8;

/** A row of rowsOf; `isLive` lets it grow. A click opens it, a double click looks at it closely. */
export const WaterfallRow = {
  props: { row: Object, view: Object, warp: Object, origin: Number, isLive: Boolean, isChosen: Boolean, isAt: Boolean, onChoose: Function, onFit: Function },
  setup(props) {
    return () => {
      const { row } = props;
      const { text, mono } = nameOfRow(row);
      return html`
        <tr class=${[`kind-${row.kind}`, { chosen: props.isChosen }]} aria-current=${props.isAt ? "true" : undefined} onDblclick=${props.onFit}>
          <th scope="row" class=${`depth-${row.depth}`}>
            <button type="button" aria-expanded=${String(props.isChosen)} onClick=${props.onChoose}>
              <span class=${["mark", row.tone]} aria-hidden="true"></span><span>${text}</span>${mono && html`<span class="mono cut" title=${mono}>${mono}</span>`}
            </button>
          </th>
          <td class=${["status", `ink-${row.tone}`]}>${statusOfRow(row)}</td>
          <td class="right number dim">${offsetText(row.from - props.origin)}</td>
          <td class="right number">${tookOf(row)}</td>
          <td class="track" aria-hidden="true" onClick=${props.onChoose}>
            <div class="lane">${row.bars.map((bar, index) => barOf(bar, index, props))}</div>
          </td>
        </tr>
      `;
    };
  },
};

/** How long a row took; of a notification only where it has arrived. */
function tookOf(row) {
  if (row.kind === "notification" && row.notification.state !== "delivered") return "";
  return formatDuration((row.to ?? Math.max(now.value, row.from)) - row.from);
}

function barOf(bar, index, { view, warp, isLive }) {
  const end = bar.to ?? Math.max(now.value, bar.from);
  const [first, last] = [warp.to(bar.from), warp.to(end)];
  if (last < view.from || first > view.to) return null;
  const left = placeIn(view, first);
  const width = placeIn(view, last) - left;
  const isBroken = warp.gaps.some((gap) => bar.from <= gap.from && end >= gap.to);
  const classes = ["span", bar.kind, bar.tone, { growing: isLive && bar.to === null, broken: isBroken, before: first < view.from, after: last > view.to }];
  const text = bar.words === undefined ? "" : t(bar.words, { time: formatDuration(end - bar.from) });
  return html`<span key=${index} class=${classes} title=${text || undefined} style=${{ left: `${left}%`, width: `${width}%` }}>${width > LABELLED && !bar.isCrowded && text && html`<span class="words">${text}</span>`}</span>`;
}
