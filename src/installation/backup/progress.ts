/** Receives the progress of a backup or restore. */
export interface Watch {
  /** Called often; may throw to stop the work. */
  onProgress(progress: Progress): void;
}

export interface Progress {
  readonly doing: "saving" | "checking" | "loading" | "reading back";
  /** The table, or the model file. */
  readonly what: string;
  readonly done: number;
  /** The total; undefined if it is not known. */
  readonly of: number | undefined;
}
