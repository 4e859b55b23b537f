"""The clock of a page: when the frame with its first rows was on the screen, told by the page itself.

A driver that looks from outside asks after 20, 70, 170, 270 and 770 ms, and has put 30 ms of scripts of its
own into the page by then.
"""

import json
import time

from playwright.sync_api import BrowserContext, Page

ROWS = "main tbody tr, main .figure, main .empty, main .waterfall tr"
BLANK = "body > pre"
"""What Chromium shows of a plain text: the least that a page can be."""
_TOLD = "first rows at "
_WATCH = """
(() => {
  let isFound = false;
  const look = () => {
    const first = document.querySelector(ROWS);
    if (isFound || first === null || first.closest("[hidden]") !== null) return;
    isFound = true;
    requestAnimationFrame(() => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => tell(performance.now());
      port2.postMessage(null);
    });
  };
  // The first frame with anything in it is on the screen a little after the page has handed it over.
  const tell = (drawn) => new PerformanceObserver((list) => {
    const [shown] = list.getEntriesByName("first-contentful-paint");
    if (shown) console.debug(TOLD + (performance.timeOrigin + Math.max(drawn, shown.startTime)));
  }).observe({ type: "paint", buffered: true });
  new MutationObserver(look).observe(document, { childList: true, subtree: true, attributes: true });
})();
"""


def watch_rows(context: BrowserContext) -> None:
    """Each page that is opened from now on tells when its first rows were shown."""
    given = f"const ROWS = {json.dumps(f'{ROWS}, {BLANK}')}, TOLD = {json.dumps(_TOLD)};"
    context.add_init_script(f"(() => {{ {given} {_WATCH} }})();")


def time_rows(page: Page, url: str) -> float:
    """Milliseconds from the call of the navigation until the first rows are shown."""
    with page.expect_console_message(lambda message: message.text.startswith(_TOLD)) as told:
        began = time.time() * 1_000
        page.goto(url, wait_until="commit")
    return float(told.value.text.removeprefix(_TOLD)) - began
