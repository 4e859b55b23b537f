"""Every command against a real service (SPEC section 16)."""

import io
import json
import re
import subprocess

import pytest
import yaml

from tests.wire.processes.process import COMMAND, bare_environment
from tests.wire.processes.terminal import Terminal


def test_a_job_is_created_once(terminal: Terminal) -> None:
    """Created, the same again, and refused with exit code 1 where it has another definition (10, 16)."""
    definition = terminal.definition()
    file = terminal.write("job.json", definition)
    created = terminal.done("jobs", "create", "-f", file, "-o", "json")
    assert created.data["definition"] == definition
    assert terminal.done("jobs", "create", "-f", file).code == 0
    terminal.write("job.json", definition | {"jobName": "another"})
    refused = terminal.enter("jobs", "create", "-f", file)
    assert refused.code == 1
    assert refused.err == (
        f"punctual: job.json:1:11: /jobId: the job {definition['jobId']!r} exists with another definition; "
        "change it with 'punctual jobs apply', or delete it first [conflict]\n"
    )


def test_a_definition_comes_from_any_kind_of_file(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """JSON5, YAML, and JSON on standard input (16)."""
    first, second, third = terminal.definition(), terminal.definition(), terminal.definition()
    terminal.done("jobs", "create", "-f", terminal.write("a.json5", f"// one\n{json.dumps(first)[:-1]},}}"))
    terminal.done("jobs", "create", "-f", terminal.write("b.yaml", yaml.safe_dump(second)))
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(third).encode())))
    terminal.done("jobs", "create", "-f", "-")
    for definition in (first, second, third):
        shown = terminal.done("jobs", "get", definition["jobId"], "-o", "yaml")
        assert yaml.safe_load(shown.out)["definition"] == definition


def test_a_terminal_that_lacks_a_character_is_served(terminal: Terminal) -> None:
    """Names of any language, bars and boxes: pages, lists, frames, help and errors (16)."""
    job_id = terminal.make(jobName="\u9031\u5831 \u2192 \u00e9", labels={"team": "\u7d44"})
    terminal.done("jobs", "trigger", job_id, "--wait")
    environ = bare_environment(PYTHONIOENCODING="ascii", PUNCTUAL_URL=terminal.service)
    commands = (
        ("jobs", "get", job_id, "-o", "json"), ("top", "--once"), ("jobs", "get", "\u9031"),
    )  # fmt: skip
    for command in commands:
        done = subprocess.run(
            [*COMMAND, *command], env=environ, capture_output=True, encoding="ascii", timeout=60, check=False
        )
        assert "Traceback" not in done.stderr, done.stderr
        assert done.returncode == (2 if command[-1] == "\u9031" else 0), done
        if command[-1] == "json":
            assert json.loads(done.stdout)["definition"]["jobName"] == "\u9031\u5831 \u2192 \u00e9"


def test_apply_shows_warnings_and_errors_with_their_places(terminal: Terminal) -> None:
    """Each once, on standard error; the table has the results (16)."""
    told = [{"url": terminal.service, "stateEquals": "500"}]
    first = terminal.definition(notification=told)
    file = terminal.write("jobs.json", f'[{json.dumps(first)},\n{{"jobId": "x", "sgn": 1}}]')
    ended = terminal.enter("jobs", "apply", "-f", file)
    assert (ended.code, ended.out) == (1, "")
    assert "jobs.json:2:23: /1/sgn: unknown field 'sgn'" in ended.err
    assert ended.err.count("/1/sgn") == 1
    ended = terminal.done("jobs", "apply", "-f", terminal.write("jobs.json", [first]))
    assert ended.out.splitlines()[1].split() == ["Job", first["jobId"], "created"]
    assert "warning: jobs.json:1:" in ended.err
    assert ": /0/notification: no entry gets " in ended.err


def test_many_are_applied_where_none_is_wrong(terminal: Terminal) -> None:
    """Created, updated or unchanged; exit code 1 where one is refused, and then none is changed (16)."""
    first, second = terminal.definition(), terminal.definition()
    file = terminal.write("jobs.json", [first, second])
    ended = terminal.done("jobs", "apply", "-f", file, "-o", "json")
    assert [item["status"] for item in ended.data] == ["created", "created"]
    terminal.write("jobs.json", [first | {"jobName": "new"}, second, {"jobId": "x"}])
    ended = terminal.enter("jobs", "apply", "-f", file, "-o", "json")
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.endswith("1 of 3 documents are refused; nothing was changed\n")
    terminal.write("jobs.json", [first | {"jobName": "new"}, second])
    ended = terminal.done("jobs", "apply", "-f", file, "-o", "json")
    assert [item["status"] for item in ended.data] == ["updated", "unchanged"]


def test_several_files_are_applied_as_one(terminal: Terminal) -> None:
    """Each of them, in pages of what a request may have; one table and one exit code (16)."""
    first, second = terminal.definition(), terminal.definition()
    ids = [f"{first['jobId']}-{n}" for n in range(1_001)]
    many = terminal.write("many.json", [first | {"jobId": one} for one in ids])
    files = ["-f", many, "-f", terminal.write("one.json", first), "-f", terminal.write("two.json", second)]
    ended = terminal.done("jobs", "apply", *files, "-o", "json")
    assert [item["jobId"] for item in ended.data] == [*ids, first["jobId"], second["jobId"]]
    assert {item["status"] for item in ended.data} == {"created"}
    assert terminal.done("jobs", "diff", *files[2:]).out == "no difference\n"
    assert terminal.done("jobs", "check", *files[2:]).out.count(" is unchanged: ") == 2
    terminal.write("two.json", [{"jobId": "x"}])
    ended = terminal.enter("jobs", "apply", *files)
    assert ended.code == 1
    assert "two.json:1:2: /0/request: " in ended.err
    assert ended.err.endswith("1 of 1003 documents are refused; nothing was changed\n")


def test_a_declaration_is_compared_job_by_job(terminal: Terminal) -> None:
    """An array, or what a service declares; what means the same is no difference (16)."""
    first, second, third = terminal.definition(), terminal.definition(), terminal.definition()
    file = terminal.write("jobs.json", [first, second])
    terminal.done("jobs", "apply", "-f", file)
    spelled = first | {"maxRetries": 5, "retry": []}
    assert terminal.done("jobs", "diff", "-f", terminal.write("same.json", {"timers": [spelled, second]}))
    ended = terminal.enter("jobs", "diff", "-f", terminal.write("new.json", {"timer": [first, third]}))
    assert ended.code == 1
    assert f'+  "jobId": "{third["jobId"]}",' in ended.out.splitlines()
    assert ended.err == "apply would do this: 1 created, 1 unchanged\n"
    assert terminal.enter("jobs", "diff", "-f", terminal.write("none.json", {"timers": [{}]})).code == 2


def test_a_service_is_applied_shown_and_compared(terminal: Terminal) -> None:
    """The source's own form of a declaration, `timer`, is taken as well (11, 16)."""
    name, declared = f"svc-{terminal.folder.name}", terminal.definition()
    file = terminal.write("service.json", {"timer": [declared], "graceSeconds": 5})
    ended = terminal.done("services", "apply", name, "-f", file)
    assert "check-timers" in ended.err
    assert terminal.done("jobs", "get", declared["jobId"], "-o", "json").data["state"] == "active"
    terminal.done("services", "apply", name, "-f", file, "--wait", "--timeout", "30")
    assert terminal.done("services", "drift", name).out == "no drift\n"
    shown = terminal.done("services", "get", name, "-o", "json").data
    assert (shown["graceSeconds"], [one["jobId"] for one in shown["timers"]]) == (5, [declared["jobId"]])
    assert name in terminal.done("services", "list", "--limit", "500").out
    terminal.done("jobs", "apply", "-f", terminal.write("edit.json", declared | {"jobName": "edited"}))
    drift = terminal.enter("services", "drift", name, "-o", "json")
    assert (drift.code, [one["kind"] for one in drift.data["items"]]) == (1, ["overridden"])
    alone = terminal.write("alone.json", [declared])
    terminal.done("services", "apply", name, "-f", alone, "--force")
    assert terminal.done("services", "drift", name).out == "no drift\n"
    assert terminal.enter("services", "apply", name, "-f", terminal.write("x.json", "1")).code == 2


def test_a_list_of_timers_changes_nothing_else(terminal: Terminal) -> None:
    """What an object leaves out is gone, as with PUT; a list speaks of the timers alone (SPEC section 13)."""
    name, declared = f"kept-{terminal.folder.name}", terminal.definition()
    rest = {
        "address": terminal.service,
        "route": "failover",
        "tags": ["a"],
        "onChange": "keep",
        "graceSeconds": 5,
        "rateLimit": {"count": 3, "perSeconds": 0.5},
    }
    file = terminal.write("whole.json", rest | {"timers": []})
    terminal.done("services", "apply", name, "-f", file)
    ended = terminal.done(
        "services", "apply", name, "-f", terminal.write("list.json", [declared]), "-o", "json"
    )
    assert {member: ended.data[member] for member in rest} == rest
    assert [one["jobId"] for one in ended.data["timers"]] == [declared["jobId"]]
    terminal.done("services", "apply", name, "-f", terminal.write("alone.json", {"timers": []}))
    shown = terminal.done("services", "get", name, "-o", "json").data
    assert (shown["address"], shown["route"], shown["rateLimit"], shown["timers"]) == (None, None, None, [])


def test_lists_are_filtered_and_go_on(terminal: Terminal) -> None:
    """By label, text and state; a cursor leads to the next page (16)."""
    label = f"t:{terminal.folder.name}"
    ids = sorted(terminal.make(labels={"t": terminal.folder.name}) for _ in range(3))
    page = terminal.done("jobs", "list", "--label", label, "--limit", "2", "-o", "json").data
    assert [item["jobId"] for item in page["items"]] == ids[:2]
    table = terminal.done("jobs", "list", "--label", label, "--limit", "2")
    assert page["nextCursor"] in table.err
    rest = terminal.done("jobs", "list", "--label", label, "--cursor", page["nextCursor"])
    assert [line.split()[0] for line in rest.out.splitlines()] == ["jobId", ids[2]]
    terminal.done("jobs", "pause", ids[0])
    paused = terminal.done("jobs", "list", "--label", label, "--state", "paused", "-o", "json").data
    assert [item["jobId"] for item in paused["items"]] == ids[:1]


def test_the_system_jobs_are_listed_when_asked_for(terminal: Terminal) -> None:
    """And cannot be destroyed (11)."""
    items = terminal.done("jobs", "list", "--system", "-o", "json").data["items"]
    # Trials of other tests are jobs of the system, too, until they are cleaned away.
    lasting = [item["jobId"] for item in items if not item["jobId"].startswith("trial:")]
    assert lasting == ["check-timers", "clean", "outbox"]
    assert terminal.enter("jobs", "delete", "clean").code == 1
    assert terminal.done("jobs", "trigger", "clean", "--wait", "-o", "json").data["state"] == "succeeded"


def test_watching_what_is_not_there_ends(terminal: Terminal) -> None:
    """Rather than waiting an hour for it (16)."""
    assert terminal.enter("executions", "watch", "none-1", "--timeout", "3600").code == 1


def test_an_execution_is_named_as_it_was_entered(terminal: Terminal) -> None:
    """The id of a job alone is none of an execution; the message says what is (16)."""
    job = terminal.make()
    for command in ("get", "replay"):
        ended = terminal.enter("executions", command, f"{job}#7")
        assert (ended.code, ended.err) == (1, f"punctual: there is no execution '{job}#7'\n")
        ended = terminal.enter("executions", command, job)
        said = f"punctual: there is no execution '{job}'; write its executionId, JOB#NUMBER or JOB#last\n"
        assert (ended.code, ended.err) == (1, said)
    terminal.done("jobs", "trigger", job, "--wait")
    last = f"{job}#last"
    assert terminal.done("executions", "replay", last, "-o", "json").data["executeNumber"] == 2
    assert terminal.done("executions", "watch", last, "-o", "json").data["executeNumber"] == 2
    terminal.done("executions", "log", last)
    terminal.done("jobs", "trigger", job, "--delay", "3600")
    assert terminal.done("executions", "cancel", last).err == f"{job}#3 is cancelled\n"
    assert terminal.done("executions", "get", last, "-o", "json").data["state"] == "cancelled"


def test_a_result_is_printed(terminal: Terminal) -> None:
    """The body alone, or with what is said of it; a trigger that waits prints it behind the page (16)."""
    job = terminal.make(keepResult=True)
    ended = terminal.done("jobs", "trigger", job, "--wait").out
    page, _, printed = ended.partition("\nresult\n")
    assert f"{job}#1" in page
    assert re.search(r"^result +200 application/json, \d+ bytes$", page, re.MULTILINE)
    assert terminal.done("executions", "result", f"{job}#last").out == printed
    assert json.loads(printed)["data"]["status"] == "live"
    whole = terminal.done("executions", "result", f"{job}#1", "--wait", "-o", "json").data
    assert (whole["status"], whole["encoding"], whole["body"]) == (200, "json", json.loads(printed))
    plain = terminal.make()
    terminal.done("jobs", "trigger", plain, "--wait")
    assert "keepResult" in terminal.enter("executions", "result", f"{plain}#1").err


def test_waiting_runs_out_of_time_with_4(terminal: Terminal) -> None:
    """The execution goes on; it can be cancelled, and then ends with 5 (16)."""
    job = terminal.make()
    ended = terminal.enter("jobs", "trigger", job, "--delay", "3600", "--wait", "--timeout", "0")
    assert ended.code == 4
    assert "after 0 s " in ended.err
    assert f" {job}#1 is scheduled; see 'punctual executions get {job}#1'" in ended.err
    retry = [{"errorEquals": "404", "intervalSeconds": 3600}]
    failing = terminal.make("/nothing/here", retry=retry)
    terminal.done("jobs", "trigger", failing)
    while terminal.done("executions", "get", f"{failing}#1", "-o", "json").data["state"] != "failed":
        pass
    ended = terminal.enter("executions", "watch", f"{failing}#1", "--timeout", "0")
    assert ended.code == 4
    waits = r" is failed: waits for retry 1 at \d{4}-\d\d-\d\d \d\d:\d\d:\d\dZ; see 'punctual "
    assert re.search(waits, ended.err), ended.err
    found = terminal.done("executions", "list", "--job", job, "--state", "scheduled", "-o", "json").data
    execution = found["items"][0]["executionId"]
    terminal.done("executions", "cancel", execution, "--reason", "wrong day")
    ended = terminal.enter("executions", "watch", execution, "-o", "json")
    assert ended.code == 5
    assert ended.data["reason"] == "wrong day"
    assert terminal.enter("executions", "cancel", execution).code == 1


def test_an_execution_is_replayed(terminal: Terminal) -> None:
    """With edited parameters (16)."""
    job = terminal.make("/jobs?limit=${trigger.size}")
    first = terminal.done("jobs", "trigger", job, "size=3", "--wait", "-o", "json").data
    again = terminal.done("executions", "replay", first["executionId"], "size=4", "--wait", "-o", "json").data
    assert again["triggeredBy"] == "replay"
    assert again["attempts"][0]["steps"][0]["url"].endswith("limit=4")
    started = terminal.done("executions", "replay", first["executionId"], "size=5", "-o", "json").data
    assert started["executeNumber"] == 3


def test_a_job_is_paused_resumed_and_destroyed(terminal: Terminal) -> None:
    """Each says what it did (16)."""
    job = terminal.make(timer={"dueTime": "1h", "period": "1h"})
    assert terminal.done("jobs", "pause", job, "--drain").err == f"{job} is paused\n"
    assert terminal.done("jobs", "get", job, "-o", "json").data["state"] == "paused"
    resumed = terminal.done("jobs", "resume", job, "--misfire", "fire_once")
    assert resumed.err == f"{job} is active; 0 firings fell into the pause\n"
    wrong = terminal.enter("jobs", "resume", job, "--misfire", "all")
    assert (wrong.code, wrong.err) == (
        2,
        "punctual: --misfire 'all' must be one of skip, fire_once, fire_all\n",
    )
    assert terminal.done("jobs", "disable", job).err == f"{job} is disabled\n"
    assert "active (disabled)" in terminal.done("jobs", "list", "--text", job).out
    assert "active (disabled)" in terminal.done("jobs", "get", job).out
    refused = terminal.enter("jobs", "trigger", job)
    assert (refused.code, f"the job '{job}' is disabled" in refused.err) == (1, True)
    assert terminal.done("jobs", "enable", job).err == f"{job} is enabled\n"
    coming = terminal.done("jobs", "next", job, "--count", "2")
    assert len(coming.out.splitlines()) == 3
    assert terminal.done("jobs", "delete", job).err == f"{job} is destroyed\n"
    assert terminal.enter("jobs", "get", job).code == 1


def test_events_are_printed_as_they_come(terminal: Terminal) -> None:
    """A line for each, also as JSON; a kind that does not exist is a mistake in the command line (16)."""
    terminal.done("events", "--timeout", "1")  # from now on they are kept for some minutes
    job = terminal.make()
    terminal.done("jobs", "trigger", job, "--wait")
    printed = terminal.done("events", "--job", job, "--after", "0-1", "--timeout", "1", "-o", "json").out
    found = [json.loads(line) for line in printed.splitlines()]
    assert [one["kind"] for one in found] == ["gap", "jobCreated", "started", "finalSucceed"]
    last = terminal.done("events", "--job", job, "--after", found[2]["id"], "--timeout", "1").out
    assert last.split()[2:] == ["finalSucceed", f"{job}#1"]
    labelled = terminal.done("events", "--label", "no:body", "--after", found[2]["id"], "--timeout", "1")
    assert labelled.out == ""
    wrong = terminal.enter("events", "--event", "nothing", "--timeout", "1")
    assert wrong.code == 2
    assert "--event" in wrong.err


def test_a_job_and_an_execution_have_pages(terminal: Terminal) -> None:
    """Fields, the timer as text, the latest executions; attempts, steps; a failure ends with 5 (16)."""
    job = terminal.make("/nothing/here", timer={"dueTime": "0s", "period": "0 30 2 * * ?"})
    ended = terminal.enter("jobs", "trigger", job, "--wait")
    assert ended.code == 5
    assert "ended terminated 404" in ended.err
    assert "error        404 (http): there is nothing at '/nothing/here'" in ended.out
    assert "GET http" in ended.out
    assert not ended.out.startswith("{")
    shown = terminal.done("jobs", "get", job).out
    assert "timer         At 02:30" in shown
    assert "(cron, quartz)\n" in shown
    assert "terminated  404" in shown.partition("latest executions")[2]
    assert terminal.done("executions", "get", f"{job}#1").out == ended.out
    row = terminal.done("executions", "list", "--job", job, "--since", "1h").out.splitlines()[1].split()
    assert row[:3] == [f"{job}#1", "terminated", "404"]
    (failed,) = terminal.done("executions", "list", "--job", job, "-o", "json").data["items"]
    assert failed["message"] in " ".join(row)
    (row,) = [line for line in terminal.done("jobs", "list", "--text", job).out.splitlines() if job in line]
    assert "a job" in row
    assert "terminated 404" in row
    assert [line.split()[2] for line in terminal.done("executions", "log", f"{job}#1").out.splitlines()][
        -1
    ] == "ended"
    assert terminal.enter("executions", "get", f"{job}#x").code == 1
    execution = terminal.done("executions", "get", f"{job}#1", "-o", "json").data
    assert execution["error"] == "404"
    for command in ("watch", "replay"):
        further = ["--wait"] if command == "replay" else []
        assert terminal.enter("executions", command, execution["executionId"], *further).code == 5


def test_what_became_of_firings_revisions_and_retries_is_shown(terminal: Terminal) -> None:
    """The ledger, the definitions as they were, and the retry plan (16)."""
    job = terminal.make(timer={"dueTime": "0s", "period": "1h"}, retry=[{"errorEquals": "5xx"}])
    terminal.done("executions", "watch", f"{job}#1")
    assert "fired" in terminal.done("jobs", "firings", job).out
    assert terminal.done("jobs", "firings", job, "--until", "1h").out == ""
    assert terminal.done("jobs", "revisions", job).out.splitlines()[1].startswith("1 ")
    plan = terminal.done("jobs", "retry-plan", job)
    assert [line.split()[:4] for line in plan.out.splitlines()[1:]] == [
        ["1", "retry[0]", "1.0", "s"],
        ["2", "retry[0]", "2.0", "s"],
    ]
    assert plan.err == "2 retries after the error 500; then the policy is spent\n"
    assert terminal.enter("jobs", "retry-plan", "none").err == "punctual: there is no job 'none'\n"


def test_the_scheduler_is_shown_as_a_whole(terminal: Terminal) -> None:
    """What is planned, and figures (16)."""
    job = terminal.make(timer={"dueTime": "30m", "period": "1h"})
    assert job in terminal.done("upcoming", "--within", "45m", "--limit", "500").out
    assert job not in terminal.done("upcoming", "--within", "1m", "--limit", "500").out
    often = terminal.make(timer={"dueTime": "20m", "period": "1m"})
    both = ("--job", job, "--job", often, "--within", "45m", "-o", "json")
    plan = terminal.done("upcoming", *both, "--per-job", "2").data["items"]
    assert [one["jobId"] for one in plan] == [often, often, job]
    counted = terminal.done("upcoming", "--within", "1h", "--by", "15m", "-o", "json").data
    assert (len(counted["counts"]), counted["total"]["value"] >= 40) == (5, True)
    table = terminal.done("upcoming", "--within", "1h", "--by", "15m")
    assert table.out.splitlines()[0].split() == ["from", "firings"]
    assert table.err.endswith("firings are planned in this time\n")
    assert terminal.enter("upcoming", "--by", "15m", "--job", job).code == 2
    assert "lateness" in terminal.done("stats").out
    nodes = terminal.done("nodes").out
    assert "processes of" in nodes
    assert "versions: punctual" in nodes
    assert "formats: state" in nodes
    assert terminal.done("stats", "-o", "json").data["jobs"]["active"] >= 1


def test_outcomes_are_shown(terminal: Terminal) -> None:
    """By day with jobs that stand out, counted by state and error, drawn by buckets, as signs (16)."""
    good, bad = terminal.make(labels={"team": terminal.folder.name}), terminal.make("/nowhere")
    terminal.done("jobs", "trigger", good, "--wait")
    assert terminal.enter("jobs", "trigger", bad, "--wait").code == 5
    shown = terminal.done("jobs", "stats", bad).out
    assert [line.split()[:4] for line in shown.splitlines()[2:3]] == [["total", "1", "0", "1"]]
    assert "failed by: http 1" in shown
    everything = terminal.done("stats", "--daily").out
    assert "most failed:" in everything
    assert bad in everything
    label = ("--label", f"team:{terminal.folder.name}")
    found = terminal.done("stats", *label, "-o", "json").data
    assert (found["total"]["byOutcome"]["succeeded"], found["failing"]) == (1, [])
    assert [one["jobId"] for one in found["slowest"]] == [good]
    none = terminal.done("stats", "--from", "2001-01-01", "--to", "2001-01-02")
    assert none.err == "no execution of 2001-01-01 to 2001-01-02 has ended\n"
    assert terminal.enter("stats", "--from", "yesterday").code == 2
    counted = terminal.done("executions", "count", "--job", bad, "--since", "1h").out
    assert counted.splitlines()[:2] == ["executions  1", "state       terminated 1"]
    assert "404" in counted
    counts = terminal.done("executions", "count", "--job", good, "-o", "json").data
    assert (counts["total"], counts["byError"]) == ({"value": 1, "isCapped": False}, [])
    drawn = terminal.done("executions", "series", "--job", bad, "--since", "1h", "--bucket", "1h").out
    assert drawn.splitlines()[0].split()[:3] == ["from", "succeeded", "failed"]
    assert [line.split()[2:4] for line in drawn.splitlines()[1:]] == [["0", "1"]]
    whole = terminal.done("executions", "series", "-o", "json").data
    assert whole["bucketSeconds"] == 900
    assert sum(one["byState"].get("terminated", 0) for one in whole["buckets"]) >= 1
    assert terminal.done("executions", "series", "--job", "none").err == "no executions in this time\n"
    # The newest last; a job without any, or none at all, has no sign
    terminal.done("jobs", "trigger", good, "--wait")
    shown = terminal.done("jobs", "outcomes", good, bad, "none")
    assert [line.split() for line in shown.out.splitlines()[1:]] == [
        [good, "..", "succeeded"],
        [bad, "x", "terminated", "404"],
        ["none", "-", "-"],
    ]
    assert ". succeeded" in shown.err
    items = terminal.done("jobs", "outcomes", good, "--count", "1", "-o", "json").data["items"]
    assert [[run["executeNumber"] for run in one["executions"]] for one in items] == [[2]]
    assert terminal.enter("jobs", "outcomes").code == 2


def test_jobs_are_counted(terminal: Terminal) -> None:
    """By state, kind and what their newest execution came to (16)."""
    team = ("--label", f"team:{terminal.folder.name}")
    labels = {"team": terminal.folder.name}
    good, bad, _ = (
        terminal.make(labels=labels),
        terminal.make("/nowhere", labels=labels),
        terminal.make(labels=labels),
    )
    for job in (good, bad):
        terminal.enter("jobs", "trigger", job, "--wait")
    assert [line.split(maxsplit=1) for line in terminal.done("jobs", "count", *team).out.splitlines()] == [
        ["jobs", "3"],
        ["state", "active 3"],
        ["kind", "external 3"],
        ["last", "outcome  succeeded 1, terminated 1, none 1"],
    ]
    failed = ("--last-outcome", "terminated")
    counted = terminal.done("jobs", "count", *team, *failed, "-o", "json").data
    assert counted["total"] == {"value": 1, "isCapped": False}
    found = terminal.done("jobs", "list", *team, *failed, "-o", "json").data["items"]
    assert [job["jobId"] for job in found] == [bad]


def test_a_template_is_tried(terminal: Terminal) -> None:
    """As JSON in a body, as text in a URL; what a job would refuse is refused (16)."""
    root = ("--root", '{"price": 4.2, "name": "a b"}')
    shown = terminal.done("templates", "preview", '{"total": "${$.price}|json"}', *root)
    assert json.loads(shown.out) == {"total": 4.2}
    shown = terminal.done("templates", "preview", "http://x/${name}", *root, "--place", "url")
    assert shown.out == "http://x/a%20b\n"
    assert terminal.enter("templates", "preview", "${nothing.here", *root).code == 1
    assert terminal.enter("templates", "preview", "x", "--root", "{").code == 2


def test_a_notification_is_sent_again_and_given_up(terminal: Terminal) -> None:
    """One that nobody takes (16)."""
    told = [{"url": f"{terminal.service}/nothing", "guarantee": "outbox"}]
    job = terminal.make(notification=told)
    terminal.done("jobs", "trigger", job, "--wait")
    found = terminal.done("deliveries", "list", "--job", job, "-o", "json").data["items"]
    while not found[0]["attempts"]:
        found = terminal.done("deliveries", "list", "--job", job, "-o", "json").data["items"]
    shown = terminal.done("deliveries", "list", "--job", job).out.splitlines()
    assert len(shown) == len(found) + 1 > 1
    assert "nextTryAt" in shown[0].split()
    assert found[0]["nextTryAt"][:10] in shown[1]
    delivery = found[0]["deliveryId"]
    assert terminal.done("deliveries", "resend", delivery).err == f"{delivery} is tried again\n"
    assert terminal.done("deliveries", "dismiss", delivery).err == f"{delivery} is dismissed\n"
    refused = terminal.enter("deliveries", "dismiss", delivery)
    assert (refused.code, "is dismissed, and not pending" in refused.err) == (1, True)


def test_queues_are_shown(terminal: Terminal) -> None:
    """What waits, and an empty one (16)."""
    name = f"q-{terminal.folder.name}"
    job = terminal.make(request=[{"url": f"queue://{name}"}])
    terminal.done("jobs", "trigger", job)
    (row,) = [line for line in terminal.done("queues", "list").out.splitlines() if name in line]
    assert row.split()[1] == "1"
    shown = terminal.done("queues", "get", name)
    assert shown.out.splitlines()[0].split() == ["depth", "1"]
    assert shown.err == "no part is held\n"
    terminal.done("executions", "cancel", f"{job}#1")


def test_a_real_process_has_no_colour_off_a_terminal(service: str) -> None:
    """Whatever the terminal could do (16)."""
    for arguments in (["jobs", "list"], ["jobs", "nonsense"]):
        done = subprocess.run(
            [*COMMAND, *arguments],
            env=bare_environment(PUNCTUAL_URL=service),
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
        assert "\x1b" not in done.stdout + done.stderr, arguments
