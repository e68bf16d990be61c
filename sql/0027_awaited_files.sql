-- A version whose file is uploaded later: until the file arrives it has neither a file nor an address nor a checksum. It is
-- not listed and not found for downloads, so the program before can serve beside this one.
-- runs with 26

alter table model_versions
  alter column checksum drop not null,
  drop constraint file_or_address,
  add constraint file_or_address check (file is null or download_url is null),
  add constraint file_or_address_has_checksum
    check (checksum is not null or (file is null and download_url is null));
