// A job outside of the console: as a command, and as a file.

import { SERVICE, copy, pathOf, saveFile } from "../../core.js";

/** Copies the command that creates this job. */
export async function copyAsCurl(job) {
  await copy(createCommand(job));
}

/** Saves the definition as a file that the list of jobs imports. */
export async function exportJob(job) {
  saveFile(`${job.jobId.replace(/[^\w.-]+/g, "_")}.json`, JSON.stringify([job.definition], null, 2));
}

/** A command of a POSIX shell that creates the job. */
function createCommand(job) {
  const url = new URL(pathOf("jobs", job.jobId), SERVICE).href;
  return [`curl -X POST ${quoteForShell(url)}`, "-H 'Content-Type: application/json'", `-d ${quoteForShell(JSON.stringify(job.definition, null, 2))}`].join(" \\\n  ");
}

function quoteForShell(text) {
  return `'${text.replaceAll("'", "'\\''")}'`;
}
