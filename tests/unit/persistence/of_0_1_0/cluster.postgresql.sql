CREATE TABLE public.copies (
    job_id character varying(260) NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    state bytea NOT NULL,
    at bigint NOT NULL
);
CREATE TABLE public.definitions (
    uid character varying(64) NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    job_id character varying(260) NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    text bytea NOT NULL
);
CREATE TABLE public.jobs (
    job_id character varying(260) NOT NULL COLLATE pg_catalog."C",
    uid character varying(64) NOT NULL COLLATE pg_catalog."C",
    tenant character varying(128) NOT NULL COLLATE pg_catalog."C",
    job_name character varying(4000) NOT NULL COLLATE pg_catalog."C",
    object_id text,
    creator text NOT NULL,
    kind character varying(16) NOT NULL,
    state character varying(16) NOT NULL,
    revision bigint NOT NULL,
    labels text NOT NULL,
    parent_job character varying(260) COLLATE pg_catalog."C",
    parent_execution bigint,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    system smallint NOT NULL,
    next_fire bigint,
    execute_number bigint NOT NULL,
    request_counts bigint NOT NULL,
    missed bigint NOT NULL,
    live bigint NOT NULL,
    waiting bigint NOT NULL,
    latest bytea NOT NULL,
    sequence bigint NOT NULL,
    due_wall bigint,
    due_steady bigint,
    node character varying(64) NOT NULL,
    boot character varying(64) NOT NULL,
    claimed_at bigint NOT NULL
);
CREATE TABLE public.marks (
    name character varying(64) NOT NULL,
    value bigint NOT NULL,
    holder character varying(130) NOT NULL,
    until bigint NOT NULL
);
CREATE TABLE public.nodes (
    node_id character varying(64) NOT NULL COLLATE pg_catalog."C",
    boot character varying(64) NOT NULL,
    address text NOT NULL,
    version character varying(32) NOT NULL,
    state character varying(16) NOT NULL,
    started_at bigint NOT NULL,
    seen_at bigint NOT NULL,
    jobs_held bigint NOT NULL,
    running bigint NOT NULL
);
CREATE TABLE public.outbox (
    delivery_id character varying(255) NOT NULL COLLATE pg_catalog."C",
    content bytea NOT NULL,
    done_at bigint,
    node character varying(64) NOT NULL,
    boot character varying(64) NOT NULL
);
CREATE TABLE public.remembered (
    scope character varying(300) NOT NULL COLLATE pg_catalog."C",
    key character varying(1000) NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    digest bytea NOT NULL,
    answer bytea NOT NULL,
    job_id character varying(260) NOT NULL COLLATE pg_catalog."C"
);
CREATE TABLE public.untold (
    uid character varying(64) NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    content bytea NOT NULL,
    node character varying(64) NOT NULL,
    boot character varying(64) NOT NULL
);
INSERT INTO public.definitions VALUES ('uid-job', 1, 'job', 1000, '\x7b7d');
INSERT INTO public.jobs VALUES ('job', 'uid-job', 'default', 'name of job', NULL, 'api', 'cron', 'active', 1, '{}', NULL, NULL, 1000, 1000, 0, 5000, 0, 0, 0, 0, 0, '\x00ff', 1, 5000, NULL, 'one', '1', 10);
INSERT INTO public.marks VALUES ('format', 1, '', 0);
INSERT INTO public.marks VALUES ('epoch', 1, '', 0);
INSERT INTO public.marks VALUES ('app_id', 0, 'punctual', 0);
INSERT INTO public.nodes VALUES ('one', '1', 'http://a', '0.1.0', 'running', 1, 100, 1, 0);
INSERT INTO public.outbox VALUES ('d1', '\xde0007ab64656c69766572795f6964a26431a3756964a175ae657865637574655f6e756d62657201ae726571756573745f636f756e747301a76f7264696e616c01a56576656e74ab66696e616c4661696c6564a77265717565737484a66d6574686f64a4504f5354a375726caa687474703a2f2f742f78a7686561646572739192a141a162a4626f6479c40500626f6479', NULL, 'one', '1');
ALTER TABLE ONLY public.copies
    ADD CONSTRAINT copies_pkey PRIMARY KEY (job_id);
ALTER TABLE ONLY public.definitions
    ADD CONSTRAINT definitions_pkey PRIMARY KEY (uid, revision);
ALTER TABLE ONLY public.jobs
    ADD CONSTRAINT jobs_pkey PRIMARY KEY (job_id);
ALTER TABLE ONLY public.marks
    ADD CONSTRAINT marks_pkey PRIMARY KEY (name);
ALTER TABLE ONLY public.nodes
    ADD CONSTRAINT nodes_pkey PRIMARY KEY (node_id);
ALTER TABLE ONLY public.outbox
    ADD CONSTRAINT outbox_pkey PRIMARY KEY (delivery_id);
ALTER TABLE ONLY public.remembered
    ADD CONSTRAINT remembered_pkey PRIMARY KEY (scope, key);
ALTER TABLE ONLY public.untold
    ADD CONSTRAINT untold_pkey PRIMARY KEY (uid, sequence);
CREATE INDEX copies_at ON public.copies USING btree (at);
CREATE INDEX definitions_job ON public.definitions USING btree (job_id);
CREATE INDEX jobs_due_steady ON public.jobs USING btree (due_steady);
CREATE INDEX jobs_due_wall ON public.jobs USING btree (due_wall);
CREATE INDEX jobs_holder ON public.jobs USING btree (node, boot, claimed_at);
CREATE INDEX jobs_next_fire ON public.jobs USING btree (next_fire);
CREATE INDEX jobs_parent ON public.jobs USING btree (parent_job, parent_execution, job_id);
CREATE INDEX jobs_state ON public.jobs USING btree (tenant, state, job_id);
CREATE INDEX jobs_uid ON public.jobs USING btree (uid);
CREATE INDEX outbox_done ON public.outbox USING btree (done_at);
CREATE INDEX outbox_holder ON public.outbox USING btree (node, boot);
CREATE INDEX remembered_created ON public.remembered USING btree (created_at);
CREATE INDEX remembered_job ON public.remembered USING btree (job_id);
CREATE INDEX untold_holder ON public.untold USING btree (node, boot);
