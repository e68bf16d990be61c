/** Any number but the migrations': processes that make or drop partitions take turns on it. */
export const PARTITION_LOCK = 4_127_551_890;
