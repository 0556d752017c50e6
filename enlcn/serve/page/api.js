// The server's API: requests with the token, problems as errors, events as they come.

export class ProblemError extends Error {
  constructor(problem, retryAfter) {
    super(problem.detail || problem.title);
    this.title = problem.title;
    this.status = problem.status;
    this.kind = (problem.type || "").split("#")[1] || "";
    this.retryAfter = retryAfter;
  }
}

let ask = async () => false;
let asking = null; // several requests may need the token at once; people are asked once
export const onTokenNeeded = (how) => { ask = how; };
const askToken = () => (asking ??= ask().finally(() => { asking = null; }));

function authorised(headers = {}) {
  let token = null;
  try { token = sessionStorage.getItem("token"); } catch { /* no storage, no token kept */ }
  return token ? { ...headers, Authorization: `Bearer ${token}` } : headers;
}

async function toProblem(response) {
  let problem = { title: "The server did not answer as expected", status: response.status, detail: response.statusText };
  try { problem = await response.json(); } catch { /* not one of ours: a proxy in between, perhaps */ }
  return new ProblemError(problem, Number(response.headers.get("Retry-After")) || null);
}

export async function call(path, options = {}) {
  let response;
  try {
    response = await fetch(path, { ...options, headers: authorised(options.headers) });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ProblemError({ title: "The server cannot be reached", status: 0, detail: "Is it still running?" });
  }
  if (response.status === 401 && await askToken()) return call(path, options);
  if (!response.ok) throw await toProblem(response);
  return response;
}

export const getJson = async (path) => (await call(path)).json();

export function withQuery(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") query.append(name, one);
    }
  }
  return `${path}?${query}`;
}

// Follow a job to its end; `tell` gets each state. A stream that breaks off is taken up again.
export async function follow(id, signal, tell) {
  for (let attempt = 0; ; attempt += 1) {
    try {
      const response = await call(`/v1/jobs/${id}/events`, { signal });
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        text += value;
        const events = text.split("\n\n");
        text = events.pop();
        for (const event of events) {
          const line = event.split("\n").find((part) => part.startsWith("data: "));
          if (!line) continue;
          const job = JSON.parse(line.slice(6));
          tell(job);
          if (["done", "failed", "cancelled"].includes(job.state)) return job;
          attempt = 0;
        }
      }
    } catch (error) {
      if (error.name === "AbortError" || (error instanceof ProblemError && error.status >= 400)) throw error;
    }
    if (attempt > 4) throw new ProblemError({ title: "The server cannot be reached", status: 0, detail: "Is it still running?" });
    await pause(500 * 2 ** attempt, signal);
  }
}

export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, milliseconds);
    signal?.addEventListener("abort", () => { clearTimeout(timer); reject(new DOMException("stopped", "AbortError")); }, { once: true });
  });
}
