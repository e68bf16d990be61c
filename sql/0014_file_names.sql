-- The name that the file of a hosted version had on the operator's host; null where it was added before, and where
-- the name cannot be one for clients: they get the model's name and version then. Without a rewrite of the table.
alter table model_versions
  add column file_name text constraint file_name_length check (length(file_name) between 1 and 255);
