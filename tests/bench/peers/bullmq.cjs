// BullMQ: one worker, Redis through ioredis, undici's pool with connections that stay open.
// Jobs are added in arrays of 1,000; 50 run at once; a job that has run is removed.
"use strict";

const { Queue, Worker } = require("bullmq");
const { Pool } = require("undici");

const AT_ONCE = 50;
const GROUPS = 10; // as in task.py

const task = JSON.parse(process.argv[2]);

function planned(n) {
  const group = task.rate ? Math.floor((n * GROUPS) / task.rate) : 0;
  return task.moment + group * (1000 / GROUPS);
}

function job(n) {
  const now = Date.now();
  const delay = Math.max(0, planned(n) - now);
  return { name: "post", data: { n }, opts: { timestamp: now, delay, removeOnComplete: true } };
}

async function create(queue) {
  const began = performance.now();
  for (let start = 0; start < task.count; start += 1000) {
    const size = Math.min(1000, task.count - start);
    await queue.addBulk(Array.from({ length: size }, (_, n) => job(start + n)));
  }
  return (performance.now() - began) / 1000;
}

async function post(pool, n) {
  const headers = { "X-Scheduling-Job-Id": `job-${n}`, "Content-Type": "application/json" };
  let number = 1;
  for (let step = 0; step < task.steps; step += 1) {
    const body = `{"n": ${number}}`;
    const answer = await pool.request({ method: "POST", path: "/run", headers, body });
    if (answer.statusCode !== 200) throw new Error(`the target answered ${answer.statusCode}`);
    if (step + 1 < task.steps) number = (await answer.body.json()).n;
    else await answer.body.dump();
  }
}

async function main() {
  const { hostname, port } = new URL(task.store);
  const connection = { host: hostname, port: Number(port), maxRetriesPerRequest: null };
  const pool = new Pool(task.target, { connections: AT_ONCE, keepAliveTimeout: 120000 });
  const queue = new Queue("bench", { connection });
  const seconds = await create(queue);
  const worker = new Worker("bench", ({ data }) => post(pool, data.n), { connection, concurrency: AT_ONCE });
  worker.on("error", (error) => console.error(error));
  worker.on("failed", (_, error) => console.error(error));
  await worker.waitUntilReady();
  console.log(JSON.stringify({ event: "ready", created: task.count, seconds }));
}

main();
