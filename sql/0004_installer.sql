-- The installer token, sealed, and the canary that proves the secret it is sealed with.

create table installer_token (
  only_row boolean constraint installer_token_pkey primary key default true
    constraint installer_token_single check (only_row),
  sealed text not null,
  expires_at timestamptz,
  set_at timestamptz not null
);

create table secret_canary (
  only_row boolean constraint secret_canary_pkey primary key default true
    constraint secret_canary_single check (only_row),
  sealed text not null,
  created_at timestamptz not null
);
