-- How people log in: by a code of the host, or at an OpenID Connect provider. See src/operators/sessions.ts.
-- runs with 27

-- Who the operator is at the provider; null for one whom a command created. A subject belongs to its issuer, so both
-- together name one person for ever.
alter table operators
  add column issuer text constraint operator_issuer_length check (length(issuer) between 1 and 2000),
  add column subject text constraint operator_subject_length check (length(subject) between 1 and 255),
  add constraint operator_identity_whole check ((issuer is null) = (subject is null)),
  add constraint operator_identity_unique unique (issuer, subject);

alter table operator_sessions
  -- When the person proved at the provider who they are; null for a code, which proves it when the session begins.
  add column proved_at timestamptz,
  -- The minutes without a request after which the session ends, as they were set when it began.
  add column idle_minutes integer not null default 30
    constraint session_idle_minutes check (idle_minutes between 1 and 720);
