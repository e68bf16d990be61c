-- Model files that this installation hosts. The bytes are in the data folder of the host, by their SHA-256;
-- what is here is what they must be. A row never changes and never goes: links to it may be about.

create table model_files (
  -- 64 lowercase hexadecimal digits, as in model_versions.checksum.
  sha256 text constraint model_files_pkey primary key
    constraint sha256_form check (sha256 ~ '^[0-9a-f]{64}$'),
  size_bytes bigint not null constraint size_bytes_not_negative check (size_bytes >= 0),
  created_at timestamptz not null
);

-- A version has either a file here or an address elsewhere.
alter table model_versions
  add column file text constraint version_has_file references model_files (sha256),
  alter column download_url drop not null,
  add constraint file_or_address check ((file is null) <> (download_url is null)),
  add constraint checksum_is_of_file check (file = checksum);
