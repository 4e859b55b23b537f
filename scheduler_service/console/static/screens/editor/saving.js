// Saving the draft: creates the job, or replaces its definition if nobody else has done so meanwhile.

import { call, pathOf } from "../../core.js";

/** Saves `text` as job `jobId`; `etag` is the revision that it was made from (null: the job is new). The answer of the API. Throws ApiError: 409, 412, 422. */
export function saveJob({ text, jobId, etag }) {
  const path = pathOf("jobs", jobId);
  if (etag === null) return call("POST", path, { bodyText: text });
  return call("POST", `${path}/update`, { bodyText: text, headers: { "If-Match": etag } });
}

/** Why a definition was refused, as the checks tell it: the problem of an error 422, else null. */
export function problemOf(error) {
  return error.status === 422 || error.status === 400 ? error.problem : null;
}
