-- Versions whose downloads an operator has ended, and since when. A day later a purge lets go of the file.

alter table model_versions
  add column retired_at timestamptz,
  drop constraint file_or_address,
  add constraint file_or_address
    check ((file is null) <> (download_url is null) or (retired_at is not null and download_url is null));
