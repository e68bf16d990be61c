/** Decodes base64url; undefined for another spelling of the same bytes, which a lenient decoder accepts, too. */
export function decodeBase64url(text: string): Buffer | undefined {
  const bytes = Buffer.from(text, "base64url");
  return bytes.toString("base64url") === text ? bytes : undefined;
}
