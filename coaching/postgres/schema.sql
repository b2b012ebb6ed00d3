CREATE TABLE agentd_sessions (
	id        uuid PRIMARY KEY,
	run_id    bytea NOT NULL UNIQUE, -- may hold any character, also NUL
	closing   boolean NOT NULL DEFAULT false,
	last_used timestamptz NOT NULL DEFAULT now(),
	key_id    text NOT NULL, -- of the key that encrypts config
	config    bytea NOT NULL
);
CREATE TABLE agentd_leases (
	id      uuid PRIMARY KEY,
	session uuid NOT NULL REFERENCES agentd_sessions ON DELETE CASCADE,
	expires timestamptz NOT NULL
);
CREATE INDEX ON agentd_leases (session);
CREATE TABLE agentd_answers (
	session  uuid NOT NULL REFERENCES agentd_sessions ON DELETE CASCADE,
	request  text NOT NULL,
	lease    uuid NOT NULL, -- that claims the answer, or claimed it
	provider text,
	response bytea, -- NULL: it is being looked for
	settled  timestamptz,
	PRIMARY KEY (session, request)
);
