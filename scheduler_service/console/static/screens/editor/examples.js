// What a new job may begin with; addresses are examples for the reader to replace.

/** By the word in `?example=`: a definition. */
export const EXAMPLES = {
  first: {
    jobName: "",
    timer: { period: "0 0 9 * * ?", timezone: "UTC" },
    request: [{ method: "GET", url: "" }],
  },
  chain: {
    jobName: "",
    timer: { period: "0 0 9 * * ?", timezone: "UTC" },
    request: [
      { method: "GET", url: "https://api.example.com/orders/open", respEnvName: "orders" },
      { method: "POST", url: "https://api.example.com/reports", body: { orders: "${$.orders.items}|json", at: "${schedulingFireTime}" }, retryFrom: "step" },
    ],
    retry: [{ errorEquals: "5xx", intervalSeconds: 10, maxAttempts: 3 }],
  },
  async: {
    jobName: "",
    timer: { period: "external" },
    request: [{ method: "POST", url: "https://api.example.com/exports", body: { reportTo: "${schedulingFeedbackUrl}" } }],
    async: true,
    timeoutSeconds: 3600,
  },
  queue: {
    jobName: "",
    timer: { period: "external" },
    request: [{ url: "queue://thumbnails", body: { image: "${$.image}" }, leaseSeconds: 60, renewSeconds: 30 }],
  },
};

/** The text of a new job: `example` is a word of EXAMPLES, else the first. */
export function textOfExample(example, zone) {
  const definition = EXAMPLES[example] ?? EXAMPLES.first;
  const timer = definition.timer.timezone === undefined ? definition.timer : { ...definition.timer, timezone: zone };
  return JSON.stringify({ ...definition, timer }, null, 2);
}
