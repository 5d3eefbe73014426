// Translation while typing, by a model that runs in this browser. Texts are inserted into the document only as text nodes.
import { render } from "./card.js";
import "./files.js"; // FILES: address -> size in bytes and hash of the content

const PAUSE = 300; // milliseconds without typing before the text is translated
const CONTROL_WAIT = 5000; // milliseconds to wait for the service worker, without which the page works, too

const get = (id) => document.getElementById(id);
const text = get("text"), result = get("result"), from = get("source-language"), to = get("target-language");
const folder = new URL("./", location.href).href;

let ofTab = null; // storage of this tab, unless the browser refuses it
try {
  ofTab = sessionStorage;
} catch {}

let about; // languages, settings and files of the model
let worker = null, state = "none"; // the model's thread: none, loading, ready, failed
let newest = new Int32Array(1); // the number of the newest request, which the model's thread can read if memory is shared
let lines = []; // translated lines
let timer; // of the next request

/** Return an element that contains text. */
const element = (tag, inside, properties = {}) =>
  Object.assign(document.createElement(tag), { textContent: inside }, properties);

// --- languages -----------------------------------------------------------------------------------

const tag = (code) => code.replaceAll("_", "-"); // language tag for HTML

/** Return the name of a language in the language of the browser, or else its code. */
function nameOf(code) {
  try {
    return new Intl.DisplayNames(navigator.languages, { type: "language" }).of(tag(code)) ?? code;
  } catch {
    return code;
  }
}

const directionOf = (source, target) =>
  about.directions.findIndex((direction) => direction.source === source && direction.target === target);

/** Fill a menu with languages, without duplicates, and keep the selected one if possible. */
function offer(select, languages) {
  const codes = [...new Set(languages)], chosen = select.value;
  if (codes.join() === Array.from(select.options, (option) => option.value).join()) return; // the menu may be open
  select.replaceChildren(...codes.map((code) => element("option", nameOf(code), { value: code })));
  if (codes.includes(chosen)) select.value = chosen;
}

/** Update the page for the selected languages. */
function showLanguages() {
  offer(from, about.directions.map((direction) => direction.source));
  offer(to, about.directions.filter(({ source }) => source === from.value).map(({ target }) => target));
  get("swap").disabled = directionOf(to.value, from.value) < 0;
  text.parentElement.lang = tag(from.value);
  result.lang = tag(to.value);
  document.title = `${nameOf(from.value)} → ${nameOf(to.value)}`;
  if (about.directions.length === 1) document.querySelector("h1").textContent = document.title;
}

function swapLanguages() {
  const [source, target] = [from.value, to.value];
  if (directionOf(target, source) < 0) return;
  from.value = target;
  showLanguages();
  to.value = source;
  if (lines.length && !isBusy()) text.value = translation();
  changed(0);
}

// --- the text and its translation ----------------------------------------------------------------

const translation = () => lines.join("\n");
const isBusy = () => result.getAttribute("aria-busy") === "true";

function setBusy(busy) {
  result.setAttribute("aria-busy", busy);
  get("copy").disabled = busy || !lines.length;
}

/** Abort what is being translated, and schedule the next request, since the text or its languages have changed. */
function changed(pause = PAUSE) {
  if (!about) return; // called again when the page is ready
  Atomics.add(newest, 0, 1);
  clearTimeout(timer);
  showText();
  showLanguages();
  if (!text.value.trim()) return showNothing();
  if (state === "none") load();
  setBusy(state !== "failed");
  if (state === "ready") timer = setTimeout(translate, pause);
  return undefined;
}

function showText() {
  get("mirror").textContent = `${text.value}\n`; // gives the last line its height
  get("copied").textContent = "";
  get("clear").disabled = !text.value;
  get("count").textContent = `${[...text.value].length.toLocaleString()} characters`;
}

function translate() {
  lines = [];
  worker.postMessage({ id: newest[0], lines: text.value.split("\n"), direction: directionOf(from.value, to.value) });
}

/** Show the translation of a line; the first one replaces the translation before. */
function showLine(at, line) {
  if (!lines.length) result.replaceChildren();
  lines[at] = line;
  while (result.children.length <= at) result.append(element("span", "", { dir: "auto" }));
  result.children[at].textContent = line;
}

function showNothing() {
  lines = [];
  result.replaceChildren();
  setBusy(false);
}

async function copyTranslation() {
  if (isBusy() || !lines.length) return;
  try {
    await navigator.clipboard.writeText(translation());
  } catch { // without HTTPS, only the selection can be copied
    getSelection().selectAllChildren(result);
    document.execCommand("copy");
  }
  get("copied").textContent = "Copied";
}

// --- messages ------------------------------------------------------------------------------------

/** Show a message with a button that calls `again`, or hide it if it is empty. */
function tell(message, again = null) {
  get("message-text").textContent = message;
  get("message").hidden = !message;
  get("retry").hidden = !again;
  get("retry").onclick = () => {
    tell("");
    again();
  };
}

/** Return a sentence about a problem of the model's thread. */
function explained(problem) {
  if (/memory|allocat|RangeError/i.test(problem)) return "This device has too little memory for the translator: close other pages.";
  if (/WebAssembly/i.test(problem)) return "This browser cannot run the translator, since it has no WebAssembly.";
  if (!navigator.onLine) return "You are offline, and the translator has not been downloaded completely.";
  if (/fetch|network|incomplete|too long|import|: \d{3}$/i.test(problem)) return "The translator could not be downloaded. If trying again fails, reload the page.";
  return `The translator has failed: ${problem}.`;
}

function fail(problem) {
  worker?.terminate();
  [worker, state] = [null, "failed"]; // typing does not try again
  get("progress").hidden = get("loaded").hidden = true;
  get("load").hidden = false;
  get("load-state").textContent = "";
  setBusy(false);
  tell(explained(problem), load);
}

// --- loading -------------------------------------------------------------------------------------

const megabytes = (bytes) => (bytes / 1e6).toLocaleString(undefined, { maximumFractionDigits: bytes < 1e7 ? 1 : 0 });

/** Load the model, unless that has begun. */
function load() {
  if (worker) return;
  state = "loading";
  tell("");
  setBusy(Boolean(text.value.trim()));
  get("load").hidden = true;
  get("progress").hidden = get("loaded").hidden = false;
  get("load-state").textContent = "Loading …";
  const shared = globalThis.crossOriginIsolated ? new SharedArrayBuffer(4) : new ArrayBuffer(4);
  new Int32Array(shared)[0] = newest[0];
  newest = new Int32Array(shared);
  worker = new Worker("worker.js", { type: "module" });
  worker.onerror = (event) => fail(event.message ?? "import");
  worker.onmessage = ({ data }) => heard(data);
  worker.postMessage({ load: { shared } });
}

/** Act on a message of the model's thread. */
function heard({ id, at, text: line, done, loaded, of, ready, problem }) {
  if (problem !== undefined) return fail(problem);
  if (of) {
    get("progress").value = loaded / of;
    get("loaded").textContent = `${megabytes(loaded)} of ${megabytes(of)} MB`;
    if (loaded === of) get("load-state").textContent = "Starting …";
  } else if (ready) {
    state = "ready";
    get("progress").hidden = get("loaded").hidden = true;
    get("load-state").textContent = "The translator is ready.";
    tellWhenKept();
    changed(0);
  } else if (id === newest[0]) {
    if (done) setBusy(false);
    else showLine(at, line);
  }
  return undefined;
}

/** Return whether all files are kept on this device, as the service worker keeps them. */
async function isKept() {
  let stored;
  try {
    stored = new Set((await (await caches.open(`nmt ${folder}`)).keys()).map(({ url }) => url));
  } catch { // there is no storage, or the browser refuses it
    return false;
  }
  return Object.entries(FILES).every(([name, [, hash]]) => stored.has(`${folder}${name}?${hash}`));
}

/** Say when all files are kept; they are, at the latest, some seconds after they have been downloaded. */
async function tellWhenKept() {
  for (let i = 0; i < 20; i++) {
    if (await isKept()) {
      get("load-state").textContent = "The translator is ready. It works offline, too.";
      return;
    }
    await new Promise((done) => setTimeout(done, 500));
  }
}

/** Wait until the service worker controls the page; return whether it does. */
async function controlled() {
  const workers = navigator.serviceWorker;
  if (!workers) return false;
  const registration = await workers.register("sw.js", { updateViaCache: "none" });
  registration.addEventListener("updatefound", () => {
    const { installing } = registration;
    installing?.addEventListener("statechange", () => {
      if (installing.state === "installed" && registration.active) offerUpdate(installing);
    });
  });
  if (registration.waiting) offerUpdate(registration.waiting);
  if (registration.active) registration.update().catch(() => {}); // looks for a new version at once; fails offline
  if (registration.active && !workers.controller) return false; // reloaded past it by Ctrl+Shift+R
  const limit = new Promise((done) => setTimeout(done, CONTROL_WAIT));
  if (!workers.controller) await Promise.race([new Promise((done) => (workers.oncontrollerchange = done)), limit]);
  return Boolean(workers.controller);
}

function offerUpdate(installed) {
  get("update").hidden = false;
  get("use-update").onclick = () => {
    navigator.serviceWorker.oncontrollerchange = () => location.reload();
    installed.postMessage("activate");
  };
}

/** Reload the page once if the service worker can isolate it, so that several threads can be used. */
function reloadsForIsolation(isControlled) {
  if (!isControlled || globalThis.crossOriginIsolated || !isSecureContext) return false;
  if (ofTab?.getItem("reloaded")) return false;
  ofTab?.setItem("reloaded", "yes");
  ofTab?.setItem("text", text.value);
  location.reload();
  return true;
}

// --- the page ------------------------------------------------------------------------------------

function listen() {
  const on = (id, event, action) => get(id).addEventListener(event, action);
  on("text", "input", () => changed());
  for (const select of [from, to]) select.addEventListener("input", () => changed(0));
  on("swap", "click", swapLanguages);
  on("copy", "click", copyTranslation);
  on("load", "click", () => load());
  on("clear", "click", () => {
    text.value = "";
    changed();
    text.focus();
  });
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey) return;
    const shortcut = event.key === "Enter" ? (event.shiftKey ? copyTranslation : () => changed(0))
      : event.shiftKey && event.key.toLowerCase() === "s" ? swapLanguages : null;
    if (!shortcut) return;
    event.preventDefault();
    shortcut();
  });
}

async function start() {
  let isControlled = false, canKeep = Boolean(navigator.serviceWorker);
  try {
    isControlled = await controlled();
  } catch { // storage is full, or the browser refuses it, as in a private window
    canKeep = false;
  }
  if (reloadsForIsolation(isControlled)) return;
  ofTab?.removeItem("reloaded");
  try {
    const answer = await fetch("about.json");
    if (!answer.ok) throw new Error(answer.status);
    about = await answer.json();
  } catch {
    tell("The page could not be downloaded completely.", start);
    return;
  }
  const size = Object.entries(FILES).reduce((sum, [name, [bytes]]) => (/^(?:lib|model)\//.test(name) ? sum + bytes : sum), 0);
  const isSeveral = about.directions.length > 1;
  get("languages").hidden = !isSeveral;
  for (const part of document.querySelectorAll(".several")) part.hidden = !isSeveral;
  get("loader").hidden = false;
  get("load").textContent = `Load the translator (${megabytes(size)} MB)`;
  get("load-state").textContent = canKeep ? "It is downloaded once and runs in this browser."
    : "It runs in this browser, which does not let the page keep it: it is downloaded at each visit.";
  text.value ||= ofTab?.getItem("text") ?? "";
  ofTab?.removeItem("text");
  showText();
  showLanguages();
  if (await isKept()) load();
  changed(0);
  text.focus();
}

get("not-started").remove();
render(get("card"));
listen();
start();
