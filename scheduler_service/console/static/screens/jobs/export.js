// Definitions as a file that can be imported again.

import { get, pathOf, saveFile } from "../../core.js";

const PAGE = 100;
const ABREAST = 6;

/**
 * Saves the definitions of `{jobIds}`, or of all that `{filter}` (the query of the list) finds, as an array of JSON; `tell(count)` is called as they come.
 * Throws ApiError.
 */
export async function exportJobs({ jobIds, filter }, tell) {
  const definitions = jobIds === undefined ? await readFiltered(filter, tell) : await readAll(jobIds, tell);
  saveFile(`jobs-${new Date().toISOString().slice(0, 10)}.json`, `${JSON.stringify(definitions, null, 2)}\n`);
}

async function readFiltered(filter, tell) {
  const found = [];
  let cursor = null;
  do {
    const page = await get("jobs", { ...filter, definitions: true, limit: PAGE, cursor });
    // Those that are too long for a list are read one by one.
    const alone = await readAll(page.items.filter((job) => job.definition === null).map((job) => job.jobId), () => {});
    found.push(...page.items.map((job) => job.definition ?? alone.shift()));
    cursor = page.nextCursor;
    tell(found.length);
  } while (cursor !== null);
  return found.filter((one) => one !== undefined);
}

async function readAll(jobIds, tell) {
  const found = [];
  for (let start = 0; start < jobIds.length; start += ABREAST) {
    const jobs = await Promise.all(jobIds.slice(start, start + ABREAST).map((jobId) => get(pathOf("jobs", jobId))));
    found.push(...jobs.map((job) => job.definition));
    tell(found.length);
  }
  return found;
}
