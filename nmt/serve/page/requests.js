// Requests to the server, and what to do when it refuses one.

const DEFAULT_WAIT = 5; // seconds, if the server is busy and does not say how long

/** What went wrong and what to do about it, for people. */
class Problem extends Error {
  /** `wait`: seconds until the server may be asked again. */
  constructor(message, { canRetry = false, needsKey = false, wait = 0 } = {}) {
    super(message);
    Object.assign(this, { canRetry, needsKey, wait });
  }
}

/** Return what to do about an answer that is an error. `said`: the server's own words. */
function problemOf(status, said, retryAfter) {
  const wait = Math.ceil(Number(retryAfter)) || DEFAULT_WAIT, own = said ? ` It says: ${said}` : "";
  const needsKey = [401, 403].includes(status) || /\bapi key\b/i.test(said);
  if (needsKey) return new Problem(`This server needs a valid API key: enter it above.${own}`, { needsKey });
  switch (status) {
    case 413: return new Problem("That is more than this server takes at once. Translate it in parts.");
    case 429: return new Problem("You have asked this server too often.", { canRetry: true, wait });
    case 503: return new Problem("The server is busy.", { canRetry: true, wait });
    case 504: return new Problem("The translation took too long. Try again, or translate less at once.", { canRetry: true });
  }
  if (status < 500) return new Problem(`The server cannot translate this.${own}`);
  return new Problem(`The server has failed. Try again, and tell whoever runs it if that does not help.${own}`,
    { canRetry: true });
}

const unreachable = () =>
  new Problem("The server does not answer. Check your connection and try again; your text is still here.", { canRetry: true });

/** Return the answer to a question, as JSON. Without a question, `body`, it is a GET. Throws a Problem. */
export async function ask(url, body, key, signal) {
  const headers = { ...(body && { "Content-Type": "application/json" }), ...withKey(key) };
  const method = body ? "POST" : "GET";
  const response = await fetch(url, { method, headers, signal, body: body && JSON.stringify(body) }).catch(() => {
    throw unreachable();
  });
  const answer = await response.json().catch(() => null);
  if (!response.ok) throw problemOf(response.status, answer?.error ?? "", response.headers.get("Retry-After"));
  if (!answer) throw unreachable(); // cut off
  return answer;
}

/** The header of a key; none without one. It is checked before a body arrives, and a file with it may be larger. */
const withKey = (key) => (key ? { Authorization: `Bearer ${key}` } : {});

/** Send a form with a file and return the path of the translated one. `onProgress` gets the share that was sent. */
export function upload(url, form, key, signal, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest(); // fetch does not tell how much it has sent
    request.open("POST", url);
    for (const [name, value] of Object.entries(withKey(key))) request.setRequestHeader(name, value);
    request.responseType = "json";
    request.upload.addEventListener("progress", ({ loaded, total }) => onProgress(loaded / total));
    request.addEventListener("load", () => {
      const { translatedFileUrl, error } = request.response ?? {};
      if (request.status < 300 && translatedFileUrl) resolve(new URL(translatedFileUrl, location.href).pathname);
      else reject(problemOf(request.status, error ?? "", request.getResponseHeader("Retry-After")));
    });
    for (const name of ["error", "abort"]) request.addEventListener(name, () => reject(unreachable()));
    signal.addEventListener("abort", () => request.abort());
    request.send(form);
  });
}
