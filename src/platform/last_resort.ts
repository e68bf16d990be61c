/**
 * What is answered where the answer itself failed: the contract's `SERVER_ERROR`, word for word as
 * `http/error_response.ts` renders it, in place of the runtimes' own pages, which would show a stack or nothing.
 */
export function lastResort(): Response {
  return new Response(JSON.stringify({ error: "Internal error", code: "SERVER_ERROR" }), {
    status: 500,
    headers: { "Content-Type": "application/json", "Cache-Control": "no-store" },
  });
}
