/** The files of `sql/`, in order, as text inside the program. A test compares this list with the folder. */
import licensing from "../../sql/0001_licensing.sql" with { type: "text" };
import usage from "../../sql/0002_usage.sql" with { type: "text" };
import models from "../../sql/0003_models.sql" with { type: "text" };
import installer from "../../sql/0004_installer.sql" with { type: "text" };
import audit from "../../sql/0005_audit.sql" with { type: "text" };
import modelFiles from "../../sql/0006_model_files.sql" with { type: "text" };
import claims from "../../sql/0007_claims.sql" with { type: "text" };
import cheaperCommits from "../../sql/0008_cheaper_commits.sql" with { type: "text" };
import eventIndex from "../../sql/0009_event_index.sql" with { type: "text" };
import noClaimsIndex from "../../sql/0010_no_claims_index.sql" with { type: "text" };
import licenseClaims from "../../sql/0011_license_claims.sql" with { type: "text" };
import retiredModels from "../../sql/0012_retired_models.sql" with { type: "text" };
import search from "../../sql/0013_search.sql" with { type: "text" };
import fileNames from "../../sql/0014_file_names.sql" with { type: "text" };
import refusals from "../../sql/0015_refusals.sql" with { type: "text" };
import operators from "../../sql/0016_operators.sql" with { type: "text" };
import lists from "../../sql/0017_lists.sql" with { type: "text" };
import listIndexes from "../../sql/0018_list_indexes.sql" with { type: "text" };
import signedLicenses from "../../sql/0019_signed_licenses.sql" with { type: "text" };
import processes from "../../sql/0020_processes.sql" with { type: "text" };
import activity from "../../sql/0021_activity.sql" with { type: "text" };
import statistics from "../../sql/0022_statistics.sql" with { type: "text" };
import lastBackup from "../../sql/0023_last_backup.sql" with { type: "text" };
import failedLoginHours from "../../sql/0024_failed_login_hours.sql" with { type: "text" };

export interface Migration {
  readonly number: number;
  readonly name: string;
  readonly text: string;
  /**
   * True for a migration that takes long while other processes write: it is not one transaction. An empty line
   * ends each statement, and all of them can be repeated after an interruption.
   */
  readonly isConcurrent?: boolean;
}

export const migrations: readonly Migration[] = [
  { number: 1, name: "0001_licensing", text: licensing },
  { number: 2, name: "0002_usage", text: usage },
  { number: 3, name: "0003_models", text: models },
  { number: 4, name: "0004_installer", text: installer },
  { number: 5, name: "0005_audit", text: audit },
  { number: 6, name: "0006_model_files", text: modelFiles },
  { number: 7, name: "0007_claims", text: claims },
  { number: 8, name: "0008_cheaper_commits", text: cheaperCommits },
  { number: 9, name: "0009_event_index", text: eventIndex },
  { number: 10, name: "0010_no_claims_index", text: noClaimsIndex },
  { number: 11, name: "0011_license_claims", text: licenseClaims },
  { number: 12, name: "0012_retired_models", text: retiredModels },
  { number: 13, name: "0013_search", text: search },
  { number: 14, name: "0014_file_names", text: fileNames },
  { number: 15, name: "0015_refusals", text: refusals },
  { number: 16, name: "0016_operators", text: operators },
  { number: 17, name: "0017_lists", text: lists },
  { number: 18, name: "0018_list_indexes", text: listIndexes, isConcurrent: true },
  { number: 19, name: "0019_signed_licenses", text: signedLicenses },
  { number: 20, name: "0020_processes", text: processes },
  { number: 21, name: "0021_activity", text: activity },
  { number: 22, name: "0022_statistics", text: statistics },
  { number: 23, name: "0023_last_backup", text: lastBackup },
  { number: 24, name: "0024_failed_login_hours", text: failedLoginHours },
];
