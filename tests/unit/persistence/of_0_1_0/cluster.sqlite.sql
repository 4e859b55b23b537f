PRAGMA auto_vacuum = 0;
PRAGMA application_id = 0;
PRAGMA user_version = 0;
BEGIN TRANSACTION;
CREATE TABLE copies (
	job_id VARCHAR(260) NOT NULL, 
	sequence BIGINT NOT NULL, 
	state BLOB NOT NULL, 
	at BIGINT NOT NULL, 
	PRIMARY KEY (job_id)
);
CREATE TABLE definitions (
	uid VARCHAR(64) NOT NULL, 
	revision BIGINT NOT NULL, 
	job_id VARCHAR(260) NOT NULL, 
	created_at BIGINT NOT NULL, 
	text BLOB NOT NULL, 
	PRIMARY KEY (uid, revision)
);
INSERT INTO "definitions" VALUES('uid-job',1,'job',1000,X'7B7D');
CREATE TABLE jobs (
	job_id VARCHAR(260) NOT NULL, 
	uid VARCHAR(64) NOT NULL, 
	tenant VARCHAR(128) NOT NULL, 
	job_name VARCHAR(4000) NOT NULL, 
	object_id TEXT, 
	creator TEXT NOT NULL, 
	kind VARCHAR(16) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	revision BIGINT NOT NULL, 
	labels TEXT NOT NULL, 
	parent_job VARCHAR(260), 
	parent_execution BIGINT, 
	created_at BIGINT NOT NULL, 
	updated_at BIGINT NOT NULL, 
	system SMALLINT NOT NULL, 
	next_fire BIGINT, 
	execute_number BIGINT NOT NULL, 
	request_counts BIGINT NOT NULL, 
	missed BIGINT NOT NULL, 
	live BIGINT NOT NULL, 
	waiting BIGINT NOT NULL, 
	latest BLOB NOT NULL, 
	sequence BIGINT NOT NULL, 
	due_wall BIGINT, 
	due_steady BIGINT, 
	node VARCHAR(64) NOT NULL, 
	boot VARCHAR(64) NOT NULL, 
	claimed_at BIGINT NOT NULL, 
	PRIMARY KEY (job_id)
);
INSERT INTO "jobs" VALUES('job','uid-job','default','name of job',NULL,'api','cron','active',1,'{}',NULL,NULL,1000,1000,0,5000,0,0,0,0,0,X'00FF',1,5000,NULL,'one','1',10);
CREATE TABLE marks (
	name VARCHAR(64) NOT NULL, 
	value BIGINT NOT NULL, 
	holder VARCHAR(130) NOT NULL, 
	until BIGINT NOT NULL, 
	PRIMARY KEY (name)
);
INSERT INTO "marks" VALUES('format',1,'',0);
INSERT INTO "marks" VALUES('epoch',1,'',0);
INSERT INTO "marks" VALUES('app_id',0,'punctual',0);
CREATE TABLE nodes (
	node_id VARCHAR(64) NOT NULL, 
	boot VARCHAR(64) NOT NULL, 
	address TEXT NOT NULL, 
	version VARCHAR(32) NOT NULL, 
	state VARCHAR(16) NOT NULL, 
	started_at BIGINT NOT NULL, 
	seen_at BIGINT NOT NULL, 
	jobs_held BIGINT NOT NULL, 
	running BIGINT NOT NULL, 
	PRIMARY KEY (node_id)
);
INSERT INTO "nodes" VALUES('one','1','http://a','0.1.0','running',1,100,1,0);
CREATE TABLE outbox (
	delivery_id VARCHAR(255) NOT NULL, 
	content BLOB NOT NULL, 
	done_at BIGINT, 
	node VARCHAR(64) NOT NULL, 
	boot VARCHAR(64) NOT NULL, 
	PRIMARY KEY (delivery_id)
);
INSERT INTO "outbox" VALUES('d1',X'DE0007AB64656C69766572795F6964A26431A3756964A175AE657865637574655F6E756D62657201AE726571756573745F636F756E747301A76F7264696E616C01A56576656E74AB66696E616C4661696C6564A77265717565737484A66D6574686F64A4504F5354A375726CAA687474703A2F2F742F78A7686561646572739192A141A162A4626F6479C40500626F6479',NULL,'one','1');
CREATE TABLE remembered (
	scope VARCHAR(300) NOT NULL, 
	"key" VARCHAR(1000) NOT NULL, 
	created_at BIGINT NOT NULL, 
	digest BLOB NOT NULL, 
	answer BLOB NOT NULL, 
	job_id VARCHAR(260) NOT NULL, 
	PRIMARY KEY (scope, "key")
);
CREATE TABLE untold (
	uid VARCHAR(64) NOT NULL, 
	sequence BIGINT NOT NULL, 
	content BLOB NOT NULL, 
	node VARCHAR(64) NOT NULL, 
	boot VARCHAR(64) NOT NULL, 
	PRIMARY KEY (uid, sequence)
);
CREATE INDEX jobs_next_fire ON jobs (next_fire);
CREATE INDEX jobs_uid ON jobs (uid);
CREATE INDEX jobs_due_wall ON jobs (due_wall);
CREATE INDEX jobs_parent ON jobs (parent_job, parent_execution, job_id);
CREATE INDEX jobs_due_steady ON jobs (due_steady);
CREATE INDEX jobs_state ON jobs (tenant, state, job_id);
CREATE INDEX jobs_holder ON jobs (node, boot, claimed_at);
CREATE INDEX definitions_job ON definitions (job_id);
CREATE INDEX remembered_job ON remembered (job_id);
CREATE INDEX remembered_created ON remembered (created_at);
CREATE INDEX outbox_done ON outbox (done_at);
CREATE INDEX outbox_holder ON outbox (node, boot);
CREATE INDEX untold_holder ON untold (node, boot);
CREATE INDEX copies_at ON copies (at);
COMMIT;
