/** The settings of the PostgreSQL inside: fixed settings, and those that an operator may change. */
import { constants } from "node:fs";
import { join } from "node:path";
import { hostMemoryBytes } from "../../base/host/mod.ts";
import { readRegularFile } from "../../base/read_regular_file.ts";

/**
 * The fixed settings: no TCP, the socket in the server's own folder, and logs without the text and the values of
 * statements, because these may hold secrets. They are given on the command line at every start, so that a change in
 * the data folder cannot override them.
 */
export const fixedSettings: Readonly<Record<string, string>> = {
  listen_addresses: "",
  // Relative to the data folder, because the path of a socket may have only 107 bytes. The path of a folder may be
  // longer.
  unix_socket_directories: ".",
  unix_socket_permissions: "0700",
  port: "5432",
  timezone: "UTC",
  log_timezone: "UTC",
  lc_messages: "C",
  cluster_name: "claviger",
  logging_collector: "off",
  log_destination: "stderr",
  // The kind of process and the SQLSTATE: `_server_log.ts` reads them.
  log_line_prefix: "%b|%e|",
  log_error_verbosity: "terse",
  log_statement: "none",
  log_duration: "off",
  log_min_duration_statement: "-1",
  log_min_error_statement: "panic",
  log_parameter_max_length: "0",
  log_parameter_max_length_on_error: "0",
  log_checkpoints: "off",
  log_autovacuum_min_duration: "-1",
};

/** Written into `postgresql.conf` when a cluster is created. Operators may change them there or with `alter system`. */
export const initialSettings: Readonly<Record<string, string>> = {
  shared_buffers: "128MB",
  max_connections: "40",
  max_wal_size: "1GB",
  jit: "off",
  // Not `worker`, which has three more processes: no statement here reads in bulk.
  io_method: "sync",
  max_logical_replication_workers: "0",
};

const MEGABYTE = 1024 * 1024;

/**
 * Returns the setting by which PostgreSQL keeps an eighth of the memory for its pages, from 128 MB to 2 GB; nothing if
 * the operator has set the size. It is given at every start, so it follows the memory, also in a cluster that is older
 * than this rule.
 */
export function sharedBuffers(cluster: string, memoryBytes = hostMemoryBytes()): Record<string, string> {
  try {
    const valuesIn = (file: string) => {
      const text = readRegularFile(join(cluster, file), MEGABYTE, constants.O_NOFOLLOW);
      return [...text.matchAll(/^\s*shared_buffers\s*=?\s*'?([^'\s#]+)/gim)].map(([, value]) => value);
    };
    const values = ["postgresql.conf", "postgresql.auto.conf"].flatMap(valuesIn);
    if (values.some((value) => value !== initialSettings.shared_buffers)) return {};
  } catch {
    // PostgreSQL says at its start what is wrong with the file.
    return {};
  }
  const megabytes = Math.floor(memoryBytes / 8 / MEGABYTE);
  return { shared_buffers: `${Math.min(Math.max(megabytes, 128), 2_048)}MB` };
}

/** Renders settings as arguments of `postgres`. */
export function toArguments(settings: Readonly<Record<string, string>>): string[] {
  return Object.entries(settings).flatMap(([name, value]) => ["-c", `${name}=${value}`]);
}
