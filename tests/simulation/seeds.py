"""Seeds that have found a defect, each with what it was: they are played in the long run."""

SEEDS: dict[tuple[str, int], str] = {
    ("alone", 249): "firings that a job owed when it was destroyed were in no ledger",
    ("alone", 7001355): "the judge looked for more firings than a count had, after a pause",
    ("alone", 7000891): "the judge looked for firings that were planned while the clock was set ahead",
    ("alone", 7003786): "the judge did not count tries that the target had not seen",
    ("alone", 1202): "what a resumed job caught up began before the moment to which jitter had moved it",
    ("siblings", 357): "records that the history had stayed where their deletion was refused once",
    ("dapr", 360): "a node that came back went on from before turns of which daprd had refused the states",
    ("dapr", 77): "turns of qos 0 were numbered anew where a job came back to its node",
    ("dapr", 5001081): "a node did not know of notifications whose adoption the database did not confirm",
    ("dapr", 5000849): "a reminder that went astray to a node that stopped broke the sidecars",
    (
        "dapr",
        22000562,
    ): "a node whose clock was set back waited an hour for the entry that it left when it died",
}
