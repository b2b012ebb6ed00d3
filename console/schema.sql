CREATE TABLE agentd_tasks (
	seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	request_id bytea NOT NULL UNIQUE, -- its SHA-256, since ids may be long and hold any character
	ended      boolean NOT NULL,
	record     text NOT NULL, -- JSON
	request    bytea NOT NULL,
	draft      bytea,
	agent_seen timestamptz NOT NULL DEFAULT now() -- when an agent last waited for the answer
);
CREATE INDEX ON agentd_tasks (ended, seq);
