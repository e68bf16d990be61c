/**
 * A bucket on a server that speaks the protocol of Amazon S3: reads, writes, lists and removes objects.
 *
 * Each request and answer is in memory and bounded, so a large object is read by ranges and written by parts. A request
 * that failed by chance is sent again. Every other failure is a {@linkcode BucketFailure} with a sentence.
 */

export { BucketFailure } from "./_failure.ts";
export { sign } from "./_send.ts";
export { type Bucket, type BucketSettings, createBucket, openBucket, PART_BYTES } from "./bucket.ts";
