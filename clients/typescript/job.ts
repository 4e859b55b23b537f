// A job in an Express service: `node generated/built/job.js PUNCTUAL_URL`, with `SHOP_SECRET` in the environment.
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { setTimeout as pause } from "node:timers/promises";
import express from "express";
import createClient from "openapi-fetch";
import { Webhook } from "standardwebhooks";
import type { paths } from "./generated/api.js";

const key = process.env.PUNCTUAL_KEY;
const punctual = createClient<paths>({
  baseUrl: process.argv[2],
  headers: key ? { Authorization: `Bearer ${key}` } : {},
});
const webhook = new Webhook(process.env.SHOP_SECRET ?? "");

/** `data` of an answer, or the problem as an error. */
function dataOf<T>(answer: { data?: { data?: T }; error?: { detail: string } }): T {
  if (answer.data === undefined) throw new Error(answer.error?.detail);
  return answer.data.data as T;
}

/** The work; then its report to where the scheduler asked for it. */
async function close(feedback: URL): Promise<void> {
  const [, , jobId, , counts] = feedback.pathname.split("/");
  const path = { jobId, requestCounts: Number(counts) };
  const query = { token: feedback.searchParams.get("token") ?? "" };
  const body = { status: "succeed", message: "closed", data: { orders: 7 } };
  const params = { path, query };
  const { error } = await punctual.POST("/jobs/{jobId}/feedback/{requestCounts}", { params, body });
  if (error) throw new Error(error.detail);
}

const shop = express();
// The signature is over the bytes of the body: they are read as they came.
shop.post("/close", express.raw({ type: "*/*" }), (request, response) => {
  let call: { feedback: string };
  try {
    call = webhook.verify(request.body, request.headers as Record<string, string>) as typeof call;
  } catch {
    response.sendStatus(401);
    return;
  }
  response.sendStatus(202);
  close(new URL(call.feedback)).catch(console.error);
});
const server = shop.listen(0, "127.0.0.1");
await once(server, "listening");
const { port } = server.address() as AddressInfo;

const created = await punctual.POST("/jobs/{jobId}", {
  params: { path: { jobId: "close-shop" } },
  body: {
    jobName: "Close the shop",
    creator: "1",
    creatorName: "shop",
    timer: { period: "external" },
    async: true,
    request: [
      {
        url: `http://127.0.0.1:${port}/close`,
        body: { feedback: "${schedulingFeedbackUrl}" },
        sign: "shop",
      },
    ],
  },
});
dataOf(created);
const fired = dataOf(await punctual.POST("/jobs/{jobId}/trigger", { params: { path: { jobId: "close-shop" } } }));
const path = { executionId: fired.executionId };
let execution = dataOf(await punctual.GET("/executions/{executionId}", { params: { path } }));
while (execution.endedAt === null) {
  await pause(50);
  execution = dataOf(await punctual.GET("/executions/{executionId}", { params: { path } }));
}
console.log(execution.executionId, execution.state);
server.close();
server.closeAllConnections();
