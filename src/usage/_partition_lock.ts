/** The advisory lock of processes that create or drop partitions: any number except that of the migrations. */
export const PARTITION_LOCK = 4_127_551_890;
