// Requests to the server, and messages about rejected requests.

const DEFAULT_WAIT = 5; // seconds to wait if the server is busy and sends no Retry-After

/** An error with a message for the user that says what to do. */
class Problem extends Error {
  /** `wait`: seconds until the next request is allowed. */
  constructor(message, { canRetry = false, needsKey = false, wait = 0 } = {}) {
    super(message);
    Object.assign(this, { canRetry, needsKey, wait });
  }
}

/** Return the problem that an error response describes. `said`: the message of the server. */
function problemOf(status, said, retryAfter) {
  const wait = Math.ceil(Number(retryAfter)) || DEFAULT_WAIT, own = said ? ` It reports: ${said}` : "";
  const needsKey = [401, 403].includes(status) || /\bapi key\b/i.test(said);
  if (needsKey) return new Problem(`This server needs a valid API key: enter it above.${own}`, { needsKey });
  switch (status) {
    case 413: return new Problem("This is too large for the server. Translate it in parts.");
    case 429: return new Problem("You have sent too many requests to this server.", { canRetry: true, wait });
    case 503: return new Problem("The server is busy.", { canRetry: true, wait });
    case 504: return new Problem("The translation took too long. Try again, or translate less at once.", { canRetry: true });
  }
  if (status === 400 && /\bset source\b/.test(said))
    return new Problem(`The language of the text was not recognized: select it above, under “From”.${own}`);
  if (status < 500) return new Problem(`The server cannot translate this.${own}`);
  return new Problem(`The server failed. Try again, and contact its operator if the problem persists.${own}`,
    { canRetry: true });
}

const unreachable = () =>
  new Problem("The server does not answer. Check your connection and try again; your text is still here.", { canRetry: true });

const SHOWN = 5; // maximum number of lost texts that a message quotes

/** Return a message about the placeholders, addresses and tags that a translation lacks. */
export const missing = (lost) =>
  `The translation lacks ${lost.slice(0, SHOWN).join(", ")}${lost.length > SHOWN ? ", …" : ""}: add this where it belongs.`;

/** Send a POST request with `body` as JSON, or a GET request without one; return the JSON answer. Throws a Problem. */
export async function ask(url, body, key, signal) {
  const headers = { ...(body && { "Content-Type": "application/json" }), ...withKey(key) };
  const method = body ? "POST" : "GET";
  const response = await fetch(url, { method, headers, signal, body: body && JSON.stringify(body) }).catch(() => {
    throw unreachable();
  });
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw problemOf(response.status, answer?.error ?? "", response.headers.get("Retry-After"));
  if (!answer) throw unreachable(); // the answer was truncated
  return answer;
}

/** Return the header with the key, if any. The server checks it before the body and then accepts larger files. */
const withKey = (key) => (key ? { Authorization: `Bearer ${key}` } : {});

/** Upload a form with a file and return the path of the translation and notes on it. `onProgress` receives the fraction sent. */
export function upload(url, form, key, signal, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch does not report upload progress
    request.open("POST", url);
    for (const [name, value] of Object.entries(withKey(key))) request.setRequestHeader(name, value);
    request.responseType = "json";
    request.upload.addEventListener("progress", ({ loaded, total }) => onProgress(loaded / total));
    request.addEventListener("load", () => {
      const { translatedFileUrl, notes = [], error } = request.response ?? {};
      if (request.status < 300 && translatedFileUrl)
        resolve({ href: new URL(translatedFileUrl, location.href).pathname, notes });
      else reject(problemOf(request.status, error ?? "", request.getResponseHeader("Retry-After")));
    });
    for (const name of ["error", "abort"]) request.addEventListener(name, () => reject(unreachable()));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
