// Translation while typing. Texts are inserted into the document only as text nodes and sent only in request bodies.
import { offerFiles } from "./files.js";
import { ask, missing } from "./requests.js";
import { Words } from "./words.js";

const PAUSE = 300; // milliseconds without typing before the text is translated
const MOST_TRIES = 3; // maximum number of retries of a text when the server is busy

const get = (id) => document.getElementById(id);
const text = get("text"), result = get("result"), from = get("source-language"), to = get("target-language");
const words = new Words(get("mirror"), result);

let info; // languages, limits and features of the server
let lines = []; // translated lines: source, text, best (the first translation), alternatives, alignment
let detected = []; // detected languages of the translated text
let running = null; // the AbortController of the newest request
let timer; // of the next request
let notBefore = 0, tries = 0; // earliest time of the next request, and number of retries

/** Return an element that contains text or other nodes. */
function element(tag, inside, properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...[inside].flat());
  return made;
}

// --- languages -----------------------------------------------------------------------------------

const nameOf = (code) => info.languages.find((language) => language.code === code)?.name ?? code;
const tag = (code) => code.replace("_", "-"); // language tag for HTML
const directionOf = (source, target) =>
  info.directions.find((direction) => direction.source === source && direction.target === target);

/** Fill a menu with languages, without duplicates, and keep the selected one if possible. */
function offer(select, languages) {
  const codes = [...new Set(languages)], chosen = select.value;
  if (codes.join() === Array.from(select.options, (option) => option.value).join()) return; // the menu may be open
  select.replaceChildren(...codes.map((code) => element("option", nameOf(code), { value: code })));
  if (codes.includes(chosen)) select.value = chosen;
}

/** Return the language of the text; null if it is not known, or if the text has several. */
const sourceLanguage = () => (from.value !== "auto" ? from.value : detected.length === 1 ? detected[0] : null);

function offerSources() {
  const sources = info.directions.map((direction) => direction.source);
  offer(from, new Set(sources).size > 1 ? ["auto", ...sources] : sources);
}

/** Update the page for the selected languages and the detected one. */
function showLanguages() {
  const source = sourceLanguage(), [first] = from.options, names = detected.map(nameOf).join(", ");
  if (first.value === "auto") first.textContent = names ? `${names} (detected)` : "Detect language";
  const possible = info.directions.filter((direction) => from.value === "auto" || direction.source === from.value);
  offer(to, possible.map((direction) => direction.target));
  const via = directionOf(source, to.value)?.via ?? [];
  get("route").textContent = via.length ? `by way of ${via.map(nameOf).join(" and ")}` : "";
  get("swap").disabled = !directionOf(to.value, source);
  text.parentElement.lang = tag(source ?? "");
  result.lang = get("choices").lang = tag(to.value);
}

function swapLanguages() {
  const target = sourceLanguage();
  if (!directionOf(to.value, target)) return;
  from.value = to.value;
  detected = [];
  showLanguages();
  to.value = target;
  if (lines.length && !isBusy()) text.value = translation();
  changed(0);
}

// --- the text and its translation ----------------------------------------------------------------

const translation = () => lines.map((line) => line.text).join("\n");
const isBusy = () => result.getAttribute("aria-busy") === "true";

function setBusy(busy) {
  result.setAttribute("aria-busy", busy);
  get("copy").disabled = busy || !lines.length;
}

/** Discard old requests and results, and schedule a new request, since the text or its options have changed. */
function changed(pause = PAUSE) {
  if (!info) return; // called again when the server has answered
  running?.abort();
  clearTimeout(timer);
  tries = 0;
  words.forget(text.value);
  get("copied").textContent = "";
  get("clear").disabled = !text.value;
  const length = [...text.value].length, { characters } = info.limits;
  get("count").textContent = `${length.toLocaleString("en")} / ${characters.toLocaleString("en")} characters`;
  get("count").classList.toggle("over", length > characters);
  showLanguages();
  const refused = refusal(length);
  if (refused || !text.value.trim()) {
    show([]);
    tell(refused);
    return;
  }
  setBusy(true);
  timer = setTimeout(translate, Math.max(pause, notBefore - Date.now()));
}

/** Return a message if the text exceeds a limit of the server. */
function refusal(length) {
  const { characters, items } = info.limits, n = text.value.split("\n").filter((line) => line.trim()).length;
  const over = (length - characters).toLocaleString("en");
  const most = `the limit of ${characters} characters`;
  if (length > characters) return `The text exceeds ${most} by ${over}: shorten it, or translate it in parts.`;
  if (n > items) return `The text has ${n} lines, but this server accepts ${items} at once. Translate it in parts.`;
  return "";
}

/** Return the body of a request and the indices of its lines; blank lines are not sent. */
function question() {
  const sources = text.value.split("\n"), filled = [...sources.keys()].filter((number) => sources[number].trim());
  const body = {
    text: filled.map((number) => sources[number]), source: from.value, target: to.value,
    n_best: 1 + info.features.alternatives, alignment: info.features.alignment,
    confidence: info.features.confidence,
  };
  const terms = wantedTerms();
  if (terms) body.terms = terms;
  return { sources, filled, body };
}

async function translate() {
  clearTimeout(timer);
  running?.abort();
  const own = (running = new AbortController());
  setBusy(true);
  try {
    const { sources, filled, body } = question();
    const answer = await ask("v1/translate", body, get("key").value, own.signal);
    if (own.signal.aborted) return;
    const made = sources.map((source) => ({ source, text: "", alternatives: [] }));
    answer.translations.forEach((found, i) => {
      const others = (found.alternatives ?? []).map((each) => each.text).filter((each) => each !== found.text);
      made[filled[i]] = { ...found, source: sources[filled[i]], best: found.text, alternatives: [...new Set(others)] };
    });
    detected = [...new Set(answer.translations.flatMap((found) => found.detected?.language ?? []))];
    notBefore = tries = 0;
    show(made);
  } catch (problem) {
    if (own.signal.aborted) return;
    show([]);
    fail(problem, translate);
  }
}

/** Show translated lines, or nothing if there are none. */
function show(made) {
  lines = made;
  for (const line of lines) line.best = line.text;
  if (!lines.length) detected = [];
  showLanguages();
  showResult();
  showAlternatives();
  setBusy(false);
}

function showResult() {
  words.show(lines);
  get("copied").textContent = "";
  const lost = lines.flatMap((line) => (line.lost ?? []).filter((part) => line.text === line.best || !line.text.includes(part)));
  tell(lost.length ? missing(lost) : "");
}

/** Show the alternatives of each line as buttons. A pressed button then offers the translation that it replaced. */
function showAlternatives() {
  const groups = lines.flatMap((line, number) => {
    if (!line.alternatives.length) return [];
    const buttons = line.alternatives.map((alternative) => {
      const button = element("button", alternative, { type: "button", dir: "auto" });
      button.addEventListener("click", () => {
        if (isBusy()) return; // the line may have been removed
        [line.text, button.textContent] = [button.textContent, line.text];
        showResult();
      });
      return element("li", button);
    });
    const head = lines.length > 1 ? [element("h3", `Line ${number + 1}`, { lang: "en" })] : [];
    return [...head, element("ul", buttons)];
  });
  get("choices").replaceChildren(...groups);
  get("alternatives").hidden = !groups.length;
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

/** Show a message, or hide it if it is empty. */
function tell(message, canRetry = false) {
  get("message-text").textContent = message;
  get("retry").hidden = !canRetry;
  get("message").hidden = !message;
}

/** Show a problem, and call `again` after the waiting time that the server asks for. */
function fail(problem, again) {
  let { message } = problem;
  needKey(problem);
  if (problem.wait) {
    notBefore = Date.now() + 1000 * problem.wait;
    if (++tries <= MOST_TRIES) timer = setTimeout(again, 1000 * problem.wait);
    message += tries <= MOST_TRIES ? ` Retrying in ${problem.wait} s.` : ` Try again in ${problem.wait} s.`;
  }
  tell(message, problem.canRetry);
}

function needKey(problem) {
  if (problem.needsKey) get("key-form").hidden = false;
}

// --- terms ---------------------------------------------------------------------------------------

const termRows = () =>
  Array.from(get("term-rows").rows, (row) => Array.from(row.querySelectorAll("input"), (input) => input.value.trim()));

/** Return the terms with their translations, or undefined if there are none. */
function wantedTerms() {
  const pairs = termRows().filter(([source, target]) => source && target);
  return pairs.length ? Object.fromEntries(pairs) : undefined;
}

function addTerm() {
  const number = get("term-rows").rows.length + 1;
  const [source, target] = ["in the text", "in the translation"].map((where) =>
    element("input", [], { autocomplete: "off", dir: "auto", ariaLabel: `Term ${number} ${where}` }));
  const remove = element("button", "×", { type: "button", title: "Remove", ariaLabel: `Remove term ${number}` });
  const row = element("tr", [source, target, remove].map((cell) => element("td", cell)));
  row.addEventListener("input", () => changed());
  remove.addEventListener("click", () => {
    row.remove();
    get("add-term").focus();
    changed(0);
  });
  get("term-rows").append(row);
  source.focus();
}

// --- the page ------------------------------------------------------------------------------------

function listen() {
  const on = (id, event, action) => get(id).addEventListener(event, action);
  on("text", "input", () => changed());
  for (const select of [from, to]) select.addEventListener("input", () => changed(0));
  on("swap", "click", swapLanguages);
  on("copy", "click", copyTranslation);
  on("retry", "click", () => (info ? translate() : start()));
  on("add-term", "click", addTerm);
  on("clear", "click", () => {
    text.value = "";
    changed();
    text.focus();
  });
  on("key-form", "submit", (event) => {
    event.preventDefault();
    sessionStorage.setItem("api-key", get("key").value);
    tell("");
    if (info) changed(0);
    else start();
  });
  for (const place of [text, result]) {
    place.addEventListener("mousemove", (event) => words.markAt(event.clientX, event.clientY));
    place.addEventListener("mouseleave", () => words.mark(null));
  }
  document.addEventListener("selectionchange", () => {
    if (document.activeElement === text) words.markAtCursor(text.selectionStart);
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

/** Request the features of the server, and start the page. */
async function start() {
  try {
    info = await ask("v1/info", null, get("key").value);
  } catch (problem) {
    return fail(problem, start);
  }
  tell("");
  tries = 0;
  get("key-form").hidden = !info.key_required;
  get("terms").hidden = !info.features.terms;
  offerFiles(info, () => ({ source: from.value, target: to.value, terms: JSON.stringify(wantedTerms()),
    key: get("key").value }), needKey);
  offerSources();
  changed(0);
  return text.focus();
}

get("key").value = sessionStorage.getItem("api-key") ?? "";
listen();
start();
