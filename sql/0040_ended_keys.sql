-- When an operator ended keys in the console, so that a stolen session ends only a few. See src/operators/ended_keys.ts.
-- runs with 27

alter table operators
  -- The newest ones, as many as the rule needs. A key that was not ended after all can be among them.
  add column ended_keys_at timestamptz[] not null default '{}';
