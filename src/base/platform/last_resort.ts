/**
 * Returns the response for a handler that threw: the contract's `SERVER_ERROR`, with the same text as in
 * `wire/error_response.ts`. It replaces the runtimes' own error pages, which show a stack or are empty.
 */
export function lastResort(): Response {
  return new Response(JSON.stringify({ error: "Internal error", code: "SERVER_ERROR" }), {
    status: 500,
    headers: { "Content-Type": "application/json", "Cache-Control": "no-store" },
  });
}
