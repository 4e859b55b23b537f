PRAGMA auto_vacuum = 0;
PRAGMA application_id = 1347767875;
PRAGMA user_version = 6;
BEGIN TRANSACTION;
CREATE TABLE completions (place INTEGER PRIMARY KEY, lease TEXT NOT NULL UNIQUE, digest BLOB NOT NULL, at INTEGER NOT NULL);
CREATE TABLE definitions (
            uid TEXT NOT NULL,
            revision INTEGER NOT NULL,
            job_id TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            text BLOB NOT NULL,
            PRIMARY KEY (uid, revision)
        );
INSERT INTO "definitions" VALUES('uid-job',1,'job',1000,X'7B317D');
CREATE TABLE deliveries (delivery_id TEXT PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE jobs (
            job_id TEXT PRIMARY KEY,
            uid TEXT NOT NULL,
            tenant TEXT NOT NULL,
            job_name TEXT NOT NULL,
            object_id TEXT,
            creator TEXT NOT NULL,
            kind TEXT NOT NULL,
            state TEXT NOT NULL,
            revision INTEGER NOT NULL,
            labels TEXT NOT NULL,
            parent_job TEXT,
            parent_execution INTEGER,
            created_at INTEGER NOT NULL,
            updated_at INTEGER NOT NULL,
            system INTEGER NOT NULL,
            face INTEGER NOT NULL,
            sequence INTEGER NOT NULL,
            due_wall INTEGER,
            due_steady INTEGER,
            next_fire INTEGER,
            execute_number INTEGER NOT NULL,
            request_counts INTEGER NOT NULL,
            missed INTEGER NOT NULL,
            live INTEGER NOT NULL,
            waiting INTEGER NOT NULL,
            latest BLOB NOT NULL,
            document BLOB
        );
INSERT INTO "jobs" VALUES('job','uid-job','default','name of job',NULL,'api','cron','active',1,'{}',NULL,NULL,1000,1000,0,5898726780665707087,1,5000,NULL,5000,0,0,0,0,0,X'00FF',X'646F63');
INSERT INTO "jobs" VALUES('other','uid-other','default','name of other',NULL,'api','cron','active',1,'{"team":"x"}',NULL,NULL,1000,1000,0,3929251357414196900,1,NULL,NULL,5000,0,0,0,0,0,X'00FF',X'646F63');
CREATE TABLE journal (page INTEGER PRIMARY KEY, content BLOB NOT NULL);
CREATE TABLE meta (key TEXT PRIMARY KEY, value NOT NULL);
INSERT INTO "meta" VALUES('boot',1);
INSERT INTO "meta" VALUES('node_id','node-one');
CREATE TABLE parts (
        part_id TEXT PRIMARY KEY,
        uid TEXT NOT NULL,
        execute_number INTEGER NOT NULL,
        request_counts INTEGER NOT NULL,
        step INTEGER NOT NULL,
        total INTEGER NOT NULL,
        tenant TEXT NOT NULL,
        queue TEXT NOT NULL,
        priority INTEGER NOT NULL,
        named INTEGER NOT NULL,
        specific TEXT NOT NULL,
        created_at INTEGER NOT NULL,
        state INTEGER NOT NULL,
        free_at INTEGER NOT NULL,
        instance TEXT,
        lease TEXT,
        until INTEGER,
        retries INTEGER NOT NULL,
        options BLOB NOT NULL,
        content BLOB NOT NULL,
        ended BLOB
    );
CREATE TABLE remembered (
            scope TEXT NOT NULL,
            key TEXT NOT NULL,
            created_at INTEGER NOT NULL,
            digest BLOB NOT NULL,
            answer BLOB NOT NULL,
            job_id TEXT NOT NULL,
            PRIMARY KEY (scope, key)
        );
CREATE TABLE unwritten (
            uid TEXT NOT NULL,
            sequence INTEGER NOT NULL,
            job_id TEXT NOT NULL,
            tenant TEXT NOT NULL,
            at INTEGER NOT NULL,
            records BLOB NOT NULL,
            PRIMARY KEY (uid, sequence)
        );
CREATE INDEX jobs_due_wall ON jobs (due_wall, job_id) WHERE due_wall IS NOT NULL;
CREATE INDEX jobs_due_steady ON jobs (due_steady, job_id) WHERE due_steady IS NOT NULL;
CREATE INDEX jobs_next_fire ON jobs (next_fire, job_id) WHERE next_fire IS NOT NULL;
CREATE INDEX jobs_live ON jobs (job_id, live) WHERE live > 0;
CREATE INDEX jobs_waiting ON jobs (job_id, waiting) WHERE waiting > 0;
CREATE INDEX jobs_uid ON jobs (uid);
CREATE INDEX jobs_state ON jobs (tenant, state, job_id);
CREATE INDEX jobs_name ON jobs (job_name, job_id);
CREATE INDEX jobs_created ON jobs (created_at, job_id);
CREATE INDEX jobs_updated ON jobs (updated_at, job_id);
CREATE INDEX jobs_parent ON jobs (parent_job, parent_execution, job_id) WHERE parent_job IS NOT NULL;
CREATE INDEX definitions_job ON definitions (job_id);
CREATE INDEX remembered_created ON remembered (created_at);
CREATE INDEX remembered_job ON remembered (job_id);
CREATE INDEX parts_free ON parts (tenant, queue, priority DESC, named DESC, created_at, part_id) WHERE state = 0;
CREATE INDEX parts_delayed ON parts (free_at) WHERE state = 0;
CREATE UNIQUE INDEX parts_lease ON parts (lease) WHERE lease IS NOT NULL;
CREATE INDEX parts_until ON parts (until) WHERE until IS NOT NULL;
CREATE INDEX parts_step ON parts (uid, execute_number, request_counts, step);
CREATE INDEX parts_ended ON parts (part_id) WHERE state = 2;
CREATE INDEX parts_held ON parts (tenant, queue, instance, until) WHERE state = 1;
COMMIT;
