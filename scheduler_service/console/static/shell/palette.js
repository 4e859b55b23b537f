// The command palette on Ctrl+K: goes to a part or a job by id or name, and runs, pauses or edits it.

import { get, pathOf, put } from "../core/api.js";
import { html } from "../core/html.js";
import { t } from "../core/language.js";
import { attempt } from "../core/notices.js";
import { linkTo, navigate } from "../core/router.js";
import { may } from "../core/session.js";
import { triggerJob } from "../core/trigger.js";
import { computed, onMounted, ref, watch } from "../core/vue.js";
import { Icon } from "../components/icons.js";
import { StateBadge } from "../components/marks.js";
import { ownParts } from "./navigation.js";

const SHOWN_JOBS = 6;
const PAUSE_MS = 120;

/** The palette; exists while it is open, and calls `onClose`. */
export const Palette = {
  props: { onClose: Function },
  setup(props) {
    const element = ref(null);
    const text = ref("");
    const jobs = ref([]);
    const at = ref(0);
    let aborter = null;
    let timer = 0;

    onMounted(() => element.value.showModal());
    watch(text, (value) => {
      at.value = 0;
      clearTimeout(timer);
      timer = setTimeout(() => find(value.trim()), PAUSE_MS);
    });

    async function find(value) {
      aborter?.abort();
      aborter = new AbortController();
      if (value === "") jobs.value = [];
      else jobs.value = (await attempt(() => get("jobs", { text: value, limit: SHOWN_JOBS }, { signal: aborter.signal })))?.items ?? jobs.value;
    }

    const commands = computed(() => [...executionNamed(text.value.trim()), ...jobs.value.flatMap(commandsOf), ...partsLike(text.value)]);

    function run(command) {
      element.value.close();
      command.run();
    }

    function onKey(event) {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (step !== undefined) at.value = Math.min(Math.max(at.value + step, 0), commands.value.length - 1);
      else if (event.key === "Enter" && commands.value[at.value]) run(commands.value[at.value]);
      else return;
      event.preventDefault();
    }

    return () => html`
      <dialog ref=${element} class="dialog palette" aria-label=${t("palette.title")} onClose=${props.onClose}>
        <input
          type="text"
          role="combobox"
          aria-expanded="true"
          aria-controls="palette-list"
          aria-activedescendant=${`palette-${at.value}`}
          aria-label=${t("palette.hint")}
          placeholder=${t("palette.hint")}
          value=${text.value}
          onInput=${(event) => (text.value = event.target.value)}
          onKeydown=${onKey}
        />
        <ul id="palette-list" role="listbox" aria-label=${t("palette.title")}>
          ${commands.value.map(
            (one, index) => html`
              <li
                key=${one.key}
                id=${`palette-${index}`}
                role="option"
                aria-selected=${index === at.value ? "true" : "false"}
                onClick=${() => run(one)}
              >
                <${Icon} name=${one.icon}/><span class="grow">${one.text}</span>${one.state && html`<${StateBadge} state=${one.state}/>`}
              </li>
            `,
          )}
        </ul>
      </dialog>
    `;
  },
};

function partsLike(text) {
  const wanted = text.trim().toLowerCase();
  const all = may("editor") ? [...ownParts(), ["/new", "plus", "jobs.new"]] : ownParts();
  return all
    .filter(([path, , name]) => wanted === "" || path.includes(wanted) || t(name).toLowerCase().includes(wanted))
    .map(([path, icon, name]) => ({ key: path, icon, text: t(name), run: () => navigate(`#${path}`) }));
}

function executionNamed(text) {
  return /^[^#\s]+#(\d+|last)$/.test(text) ? [{ key: `execution ${text}`, icon: "executions", text, run: () => navigate(linkTo("executions", text)) }] : [];
}

function commandsOf(job) {
  const id = job.jobId;
  const commands = [{ key: `go ${id}`, icon: "jobs", text: job.jobName === id ? id : `${job.jobName} · ${id}`, state: job.state, run: () => navigate(linkTo("jobs", id)) }];
  if (may("operator")) commands.push(triggerOf(id), job.state === "paused" ? switchOf(id, 1) : switchOf(id, 0));
  return commands;
}

function triggerOf(id) {
  const run = async () => {
    const executionId = await triggerJob(id);
    if (executionId !== undefined) navigate(linkTo("executions", executionId));
  };
  return { key: `run ${id}`, icon: "play", text: t("palette.run", { jobId: id }), run };
}

function switchOf(id, active) {
  const word = active === 1 ? "resume" : "pause";
  const run = () => attempt(() => put(pathOf("jobs", id), { active }), t(`jobs.${word}d`, { jobId: id }));
  return { key: `${word} ${id}`, icon: active === 1 ? "resume" : "pause", text: t(`palette.${word}`, { jobId: id }), run };
}
