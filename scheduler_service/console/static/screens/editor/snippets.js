// The definition as texts that run elsewhere: a shell, a program with the SDK's client, a service that declares the job in code.

import { SERVICE, session } from "../../core.js";

const STEP_MEMBERS = ["successCodes", "retryFrom", "timeoutSeconds", "followRedirects", "headers", "route", "tags"];
const QUEUE_MEMBERS = ["specificInstances", "parallelism", "priority", "leaseSeconds", "renewSeconds", "queueTimeoutSeconds", "maxUnexpectedRetries", "unexpectedRetryDelaySeconds"];
const OPTION_NAMES = {
  jobId: "job_id",
  jobName: "job_name",
  jobDescription: "job_description",
  objectId: "object_id",
  creator: "creator",
  creatorName: "creator_name",
  timer: "timer",
  async: "asynchronous",
  timeoutSeconds: "timeout_seconds",
  retry: "retry",
  maxRetries: "max_retries",
  qos: "qos",
  maxConcurrency: "max_concurrency",
  overlapPolicy: "overlap_policy",
  queueLimit: "queue_limit",
  leadSeconds: "lead_seconds",
  startPolicy: "start_policy",
  disabled: "disabled",
  historyDetail: "history_detail",
  labels: "labels",
  notification: "notification",
  paramsSchema: "params_schema",
};

/** A call of curl that creates the job, or replaces it; the key comes from the environment where the service has one. */
export function curlOf({ text, jobId, isNew }) {
  const path = `jobs/${encodeURIComponent(jobId)}${isNew ? "" : "/update"}`;
  const key = session.needsKey ? `  -H "Authorization: Bearer $PUNCTUAL_KEY" \\\n` : "";
  return `curl -sS -X POST ${quoted(SERVICE + path)} \\\n${key}  -H 'Content-Type: application/json' \\\n  --data-binary @- <<'JSON'\n${text}\nJSON\n`;
}

/** A program that does the same with the client of the SDK. */
export function clientOf({ value, jobId, isNew }) {
  const key = session.needsKey ? `, key=os.environ["PUNCTUAL_KEY"]` : "";
  const call = isNew ? `client.jobs.create(definition, job_id=${python(jobId)})` : `client.jobs.update(${python(jobId)}, definition)`;
  return `${session.needsKey ? "import os\n\n" : ""}from client_sdk import BlockingClient

definition = ${python(value)}

with BlockingClient(${python(SERVICE.replace(/\/$/, ""))}${key}) as client:
    job = ${call}
    print(job.job_id, job.state, job.next_fire_time)
`;
}

/**
 * A service that declares the job in code: what the first step calls becomes the function, so its address and further steps are left out. Work
 * for a queue is declared by a worker.
 */
export function declarationOf({ value, jobId }) {
  const [step = {}] = Array.isArray(value.request) ? value.request : [];
  const queue = /^queue:\/\/([^/?]+)/.exec(step.url ?? "")?.[1];
  const key = session.needsKey ? `, key=os.environ["PUNCTUAL_KEY"]` : "";
  const client = `Client(${python(SERVICE.replace(/\/$/, ""))}${key})`;
  const head = queue === undefined
    ? `from client_sdk import Client, Service\n\nservice = Service("my-service", client=${client})`
    : `from client_sdk import Worker\n\nworker = Worker(${python(queue)})`;
  return `${session.needsKey && queue === undefined ? "import os\n\n" : ""}from typing import Any

${head}


@${queue === undefined ? "service" : "worker"}.job(
${optionsOf(value, step, jobId, queue !== undefined)})
def ${functionOf(jobId)}(**params: Any) -> dict[str, Any]:
    """Does the work of ${jobId}."""
    return {"params": params}
`;
}

/** A JSON value as Python writes it, over several lines where it is long. */
export function python(value, depth = 0) {
  if (value === null || value === undefined) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return pythonText(value);
  if (typeof value === "number") return String(value);
  const isList = Array.isArray(value);
  const parts = isList
    ? value.map((one) => python(one, depth + 1))
    : Object.entries(value).map(([name, one]) => `${pythonText(name)}: ${python(one, depth + 1)}`);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  const short = `${open}${parts.join(", ")}${close}`;
  if (short.length + 4 * depth < 88 && !short.includes("\n")) return short;
  const space = "    ".repeat(depth + 1);
  return `${open}\n${parts.map((part) => `${space}${part},\n`).join("")}${"    ".repeat(depth)}${close}`;
}

/** JSON's escapes are Python's too, but for pairs of surrogates, which JSON.stringify leaves as they are. */
function pythonText(text) {
  return JSON.stringify(text).replace(/[\u007f-\u009f\u2028\u2029\u202a-\u202e\u2066-\u2069]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

function optionsOf(value, step, jobId, isQueue) {
  const own = Object.entries(OPTION_NAMES).filter(([name]) => name in value || name === "jobId");
  const options = own.map(([name, option]) => [option, name === "jobId" ? jobId : value[name]]);
  if ("body" in step) options.push(["body", step.body]);
  if ("sign" in step) options.push(["sign", step.sign]);
  const members = (isQueue ? QUEUE_MEMBERS : STEP_MEMBERS).filter((name) => name in step);
  if (members.length > 0) options.push(["step", Object.fromEntries(members.map((name) => [name, step[name]]))]);
  return options.map(([option, one]) => `    ${option}=${python(one, 1)},\n`).join("");
}

function functionOf(jobId) {
  const name = jobId.toLowerCase().replace(/[^a-z0-9]+/g, "_").replace(/^_+|_+$/g, "");
  return `run_${name || "job"}`;
}

function quoted(text) {
  return `'${text.replace(/'/g, "'\\''")}'`;
}
