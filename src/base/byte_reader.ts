/** Creates a reader that takes so many bytes from chunks of any sizes. A part is valid until the next chunk is read. */
export function createByteReader<Bytes extends Uint8Array>(source: AsyncIterable<Bytes>) {
  const chunks = source[Symbol.asyncIterator]();
  let rest: Bytes | undefined;

  /** Returns at least one byte and at most `most`; undefined at the end. */
  async function some(most: number): Promise<Bytes | undefined> {
    while (rest === undefined || rest.length === 0) {
      const { done, value } = await chunks.next();
      if (done) return undefined;
      rest = value;
    }
    // A part of a buffer is a buffer, which its type does not say.
    const part = rest.subarray(0, most) as Bytes;
    rest = rest.subarray(part.length) as Bytes;
    return part;
  }

  return {
    some,
    /** Returns a copy of exactly so many bytes; undefined if the source ends before. */
    async exactly(length: number): Promise<Buffer | undefined> {
      const taken = Buffer.alloc(length);
      for (let at = 0; at < length; ) {
        const part = await some(length - at);
        if (part === undefined) return undefined;
        taken.set(part, at);
        at += part.length;
      }
      return taken;
    },
    /** Ends the reading of the source. */
    close: async () => void (await chunks.return?.()),
  };
}
