// Starts an execution of a job from wherever its id stands.

import { pathOf, post } from "./api.js";
import { t } from "./language.js";
import { sayDone, sayFailed } from "./notices.js";
import { linkTo, navigate } from "./router.js";

/** Runs a job without parameters: the id of the execution, or undefined. A job that refuses that is opened with the form of its parameters. */
export async function triggerJob(jobId) {
  try {
    const { executionId } = await post(`${pathOf("jobs", jobId)}/trigger`, {});
    sayDone(t("jobs.triggered", { jobId }));
    return executionId;
  } catch (error) {
    if (error.status === 422) navigate(`${linkTo("jobs", jobId)}?run=true`);
    else sayFailed(error);
    return undefined;
  }
}
