CREATE TABLE public.declared_timers (
    tenant character varying NOT NULL COLLATE pg_catalog."C",
    job_id character varying NOT NULL COLLATE pg_catalog."C",
    service character varying NOT NULL COLLATE pg_catalog."C",
    digest bytea NOT NULL,
    uid character varying NOT NULL COLLATE pg_catalog."C",
    revision bigint NOT NULL,
    removed_at bigint,
    paused smallint NOT NULL,
    finished smallint NOT NULL
);
CREATE TABLE public.deliveries (
    delivery_id character varying NOT NULL COLLATE pg_catalog."C",
    uid character varying NOT NULL COLLATE pg_catalog."C",
    execute_number bigint NOT NULL,
    request_counts bigint NOT NULL,
    job_id character varying NOT NULL COLLATE pg_catalog."C",
    tenant character varying NOT NULL COLLATE pg_catalog."C",
    event character varying NOT NULL COLLATE pg_catalog."C",
    name text NOT NULL,
    url text NOT NULL,
    state character varying NOT NULL COLLATE pg_catalog."C",
    created_at bigint NOT NULL,
    at bigint NOT NULL,
    tries bigint NOT NULL,
    payload bytea NOT NULL
);
CREATE TABLE public.entries (
    id bigint NOT NULL,
    uid character varying NOT NULL COLLATE pg_catalog."C",
    execute_number bigint NOT NULL,
    first bigint NOT NULL,
    last bigint NOT NULL,
    payload bytea NOT NULL
);
CREATE SEQUENCE public.entries_id_seq
    START WITH 1
    INCREMENT BY 1
    NO MINVALUE
    NO MAXVALUE
    CACHE 1;
ALTER SEQUENCE public.entries_id_seq OWNED BY public.entries.id;
CREATE TABLE public.executions (
    uid character varying NOT NULL COLLATE pg_catalog."C",
    execute_number bigint NOT NULL,
    job_id character varying NOT NULL COLLATE pg_catalog."C",
    tenant character varying NOT NULL COLLATE pg_catalog."C",
    sequence bigint NOT NULL,
    revision bigint NOT NULL,
    state character varying NOT NULL COLLATE pg_catalog."C",
    triggered_by character varying NOT NULL COLLATE pg_catalog."C",
    planned_at bigint NOT NULL,
    created_at bigint NOT NULL,
    started_at bigint,
    ended_at bigint,
    reason text,
    error text,
    failure_type character varying COLLATE pg_catalog."C",
    attempt_count bigint NOT NULL,
    progress text,
    params bytea,
    params_complete smallint DEFAULT '1'::smallint NOT NULL,
    dropped smallint DEFAULT '0'::smallint NOT NULL
);
CREATE TABLE public.firings (
    uid character varying NOT NULL COLLATE pg_catalog."C",
    planned_at bigint NOT NULL,
    until bigint NOT NULL,
    execute_number bigint NOT NULL,
    sequence bigint NOT NULL,
    at bigint NOT NULL,
    outcome character varying NOT NULL COLLATE pg_catalog."C",
    count bigint,
    reason text
);
CREATE TABLE public.history_version (
    version_num character varying(32) NOT NULL
);
CREATE TABLE public.manager_service (
    tenant character varying NOT NULL COLLATE pg_catalog."C",
    name character varying NOT NULL COLLATE pg_catalog."C",
    address text,
    route character varying COLLATE pg_catalog."C",
    tags text NOT NULL,
    timers bytea NOT NULL,
    digest bytea NOT NULL,
    on_change character varying NOT NULL COLLATE pg_catalog."C",
    grace bigint NOT NULL,
    rate_limit text,
    created_at bigint NOT NULL,
    updated_at bigint NOT NULL,
    removed_at bigint
);
ALTER TABLE ONLY public.entries ALTER COLUMN id SET DEFAULT nextval('public.entries_id_seq'::regclass);
INSERT INTO public.declared_timers VALUES ('default', 'job', 'billing', '\x64', 'u1', 1, NULL, 0, 0);
INSERT INTO public.deliveries VALUES ('u1-1', 'u1', 1, 1, 'job', 'default', 'succeed', '', 'http://h/', 'delivered', 1790000000001, 1790000000001, 0, '\x80');
INSERT INTO public.deliveries VALUES ('u1-2', 'u1', 2, 2, 'job', 'default', 'succeed', '', 'http://h/', 'delivered', 1790000000002, 1790000000002, 0, '\x80');
INSERT INTO public.entries VALUES (1, 'u1', 1, 1, 1, '\x9393010184a474797065ae417474656d707453746172746564ae657865637574655f6e756d62657201ae726571756573745f636f756e747301a26174cf000001a0c4506ff293010286a474797065a953746570456e646564ae657865637574655f6e756d62657201ae726571756573745f636f756e747301a5696e64657800a26174cf000001a0c4507006a865786368616e676589a66d6574686f64a4504f5354a375726cb5687474703a2f2f3132372e302e302e312f776f726baf726571756573745f686561646572739392a5582d4f6e65a13192a5582d54776fa16192a5582d54776fa162ac726571756573745f626f6479c4077b226e223a317da6737461747573ccc8b0726573706f6e73655f686561646572739192ac436f6e74656e742d54797065b06170706c69636174696f6e2f6a736f6ead726573706f6e73655f626f6479c40b7b226f6b223a747275657da773656e745f6174cf000001a0c4506c14a86475726174696f6e0793010384a474797065ac417474656d7074456e646564ae657865637574655f6e756d62657201ae726571756573745f636f756e747301a26174cf000001a0c4507007');
INSERT INTO public.entries VALUES (2, 'u1', 2, 2, 2, '\x9393020184a474797065ae417474656d707453746172746564ae657865637574655f6e756d62657202ae726571756573745f636f756e747302a26174cf000001a0c45073da93020286a474797065a953746570456e646564ae657865637574655f6e756d62657202ae726571756573745f636f756e747302a5696e64657800a26174cf000001a0c45073eea865786368616e676589a66d6574686f64a4504f5354a375726cb5687474703a2f2f3132372e302e302e312f776f726baf726571756573745f686561646572739392a5582d4f6e65a13192a5582d54776fa16192a5582d54776fa162ac726571756573745f626f6479c4077b226e223a317da6737461747573ccc8b0726573706f6e73655f686561646572739192ac436f6e74656e742d54797065b06170706c69636174696f6e2f6a736f6ead726573706f6e73655f626f6479c40b7b226f6b223a747275657da773656e745f6174cf000001a0c4506c14a86475726174696f6e0793020384a474797065ac417474656d7074456e646564ae657865637574655f6e756d62657202ae726571756573745f636f756e747302a26174cf000001a0c45073ef');
INSERT INTO public.executions VALUES ('u1', 1, 'job', 'default', 1, 1, 'succeeded', 'timer', 1790000001000, 1790000001005, NULL, 1790000000001, NULL, NULL, NULL, 0, NULL, '\x7b7d', 1, 0);
INSERT INTO public.executions VALUES ('u1', 2, 'job', 'default', 2, 1, 'succeeded', 'timer', 1790000002000, 1790000002005, NULL, 1790000000002, NULL, NULL, NULL, 0, NULL, '\x7b7d', 1, 0);
INSERT INTO public.firings VALUES ('u1', 1790000001000, 1790000001000, 1, 1, 1790000000001, 'fired', 1, NULL);
INSERT INTO public.firings VALUES ('u1', 1790000002000, 1790000002000, 2, 2, 1790000000002, 'fired', 1, NULL);
INSERT INTO public.history_version VALUES ('0002');
INSERT INTO public.manager_service VALUES ('default', 'billing', NULL, NULL, '[]', '\x5b5d', '\x', 'update', 86400000, NULL, 1, 1, NULL);
SELECT pg_catalog.setval('public.entries_id_seq', 2, true);
ALTER TABLE ONLY public.declared_timers
    ADD CONSTRAINT declared_timers_pkey PRIMARY KEY (tenant, job_id);
ALTER TABLE ONLY public.deliveries
    ADD CONSTRAINT deliveries_pkey PRIMARY KEY (delivery_id);
ALTER TABLE ONLY public.entries
    ADD CONSTRAINT entries_pkey PRIMARY KEY (id);
ALTER TABLE ONLY public.executions
    ADD CONSTRAINT executions_pkey PRIMARY KEY (uid, execute_number);
ALTER TABLE ONLY public.firings
    ADD CONSTRAINT firings_pkey PRIMARY KEY (uid, planned_at, until, execute_number);
ALTER TABLE ONLY public.history_version
    ADD CONSTRAINT history_version_pkc PRIMARY KEY (version_num);
ALTER TABLE ONLY public.manager_service
    ADD CONSTRAINT manager_service_pkey PRIMARY KEY (tenant, name);
CREATE INDEX declared_timers_of_service ON public.declared_timers USING btree (tenant, service, job_id);
CREATE INDEX deliveries_newest ON public.deliveries USING btree (tenant, created_at);
CREATE INDEX deliveries_of_execution ON public.deliveries USING btree (uid, execute_number);
CREATE UNIQUE INDEX entries_of_execution ON public.entries USING btree (uid, execute_number, first, last);
CREATE INDEX executions_by_state ON public.executions USING btree (tenant, state, created_at) WHERE ((state)::text <> 'succeeded'::text);
CREATE INDEX executions_newest ON public.executions USING btree (tenant, created_at, state);
CREATE INDEX executions_of_job ON public.executions USING btree (tenant, job_id, created_at);
CREATE INDEX executions_planned ON public.executions USING btree (tenant, planned_at);
CREATE INDEX firings_by_age ON public.firings USING btree (at);
