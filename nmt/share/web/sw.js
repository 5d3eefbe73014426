// The service worker of the page: keeps all files for use without a network, and isolates the page, which ONNX Runtime
// needs to use several threads. A file is kept by its address and the hash of its content, so that a new version
// downloads only what has changed, and replaces the old version only when it is complete.
importScripts("files.js"); // FILES: address -> size in bytes and hash of the content
const LARGE = /^(?:lib|model)\//; // downloaded when the visitor loads the translator

const scope = registration.scope, CACHE = `nmt ${scope}`;
const kept = (name) => `${scope}${name}?${FILES[name][1]}`;
const nameOf = (address) => address.slice(scope.length).replace(/[?#].*$/, "") || "index.html";
const HEADERS = { "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Embedder-Policy": "require-corp",
  "Cross-Origin-Resource-Policy": "same-origin",
  // of index.html, also for the model's thread, to which that of the page does not apply
  "Content-Security-Policy": "default-src 'none'; script-src 'self' 'wasm-unsafe-eval'; worker-src 'self'; connect-src 'self'; style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'" };

async function isKept(name) {
  return (await caches.open(CACHE)).match(kept(name));
}

/** Keep a file, unless it is incomplete or of another version. */
async function keep(name, response) {
  const content = await response.arrayBuffer(), digest = await crypto.subtle.digest("SHA-256", content);
  const hash = Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("");
  if (hash !== FILES[name][1]) throw new Error(`${name}: incomplete, or of another version`);
  const { headers } = response; // without those of compression, which has been undone
  const type = { "Content-Type": headers.get("Content-Type") ?? "application/octet-stream" };
  await (await caches.open(CACHE)).put(kept(name), new Response(content, { headers: type }));
}

const request = (name) => fetch(`${scope}${name}`, { cache: "no-cache" });

async function install() {
  const cache = await caches.open(CACHE), addresses = (await cache.keys()).map(({ url }) => url);
  const hadModel = addresses.some((address) => LARGE.test(nameOf(address)));
  for (const name of Object.keys(FILES)) {
    if ((LARGE.test(name) && !hadModel) || await isKept(name)) continue;
    const response = await request(name);
    if (!response.ok) throw new Error(`${name}: ${response.status}`);
    await keep(name, response);
  }
}

/** Remove the files of older versions. */
async function tidy() {
  const cache = await caches.open(CACHE), wanted = new Set(Object.keys(FILES).map(kept));
  for (const stored of await cache.keys()) if (!wanted.has(stored.url)) await cache.delete(stored);
  await clients.claim();
}

/** Return a response with the headers that isolate the page. */
function isolated(response) {
  const headers = new Headers(response.headers);
  for (const [name, value] of Object.entries(HEADERS)) headers.set(name, value);
  const { status, statusText } = response;
  return new Response(status === 204 || status === 304 ? null : response.body, { status, statusText, headers });
}

const script = (content) => new Response(content, { headers: { "Content-Type": "text/javascript" } });

async function answer(name, event) {
  const stored = await isKept(name);
  if (stored) return isolated(stored);
  const response = await request(name);
  if (response.status !== 200) return isolated(response);
  event.waitUntil(keep(name, response.clone()).catch(() => {})); // what cannot be kept is downloaded again
  return isolated(response);
}

addEventListener("install", (event) => event.waitUntil(install()));
addEventListener("activate", (event) => event.waitUntil(tidy()));
addEventListener("message", ({ data }) => data === "activate" && skipWaiting());
addEventListener("fetch", (event) => {
  const { method, url } = event.request, name = url.startsWith(scope) ? nameOf(url) : "";
  if (method !== "GET") return;
  // the files of this version, also if there is a newer one
  if (name === "files.js") event.respondWith(isolated(script(`globalThis.FILES = ${JSON.stringify(FILES)};`)));
  else if (Object.hasOwn(FILES, name)) event.respondWith(answer(name, event));
});
