// The model's thread. Messages: {load}, then {id, lines, direction}; answers: {loaded, of}, {ready}, {id, at, text},
// {id, done} and {problem}.
import "./files.js"; // FILES
import { Translator } from "./translator.js";

const BETWEEN_PAUSES = 20; // milliseconds
const here = new URL("./", import.meta.url).href;
let translator;
let newest = new Int32Array(1); // the newest request, in memory that the page can write to if it may share any
let isBusy = false, waiting = null; // the request to translate next
let paused = 0; // when messages could arrive

/** Download files with progress towards `of` bytes; returns their content by address. */
async function download(names, of) {
  let loaded = 0, told = 0;
  const got = new Map();
  for (const name of names) {
    const answer = await fetch(new URL(name, here));
    if (!answer.ok) throw new Error(`${name}: ${answer.status}`);
    const bytes = new Uint8Array(FILES[name][0]);
    let at = 0;
    for (const reader = answer.body.getReader(); ; ) {
      const { done, value } = await reader.read();
      if (done) break;
      if (at + value.length > bytes.length) throw new Error(`${name}: too long`);
      bytes.set(value, at);
      at += value.length;
      loaded += value.length;
      if (loaded - told > of / 200) postMessage({ loaded: (told = loaded), of });
    }
    if (at < bytes.length) throw new Error(`${name}: incomplete`);
    got.set(new URL(name, here).href, bytes);
  }
  postMessage({ loaded: of, of });
  return got;
}

async function load({ shared }) {
  if (typeof WebAssembly === "undefined") throw new Error("WebAssembly");
  newest = new Int32Array(shared);
  const about = await (await fetch(new URL("about.json", here))).json();
  const large = Object.keys(FILES).filter((name) => /^(?:lib|model)\//.test(name));
  const size = large.reduce((sum, name) => sum + FILES[name][0], 0);
  const got = await download(large.filter((name) => !name.endsWith(".js")), size); // import downloads these
  const binary = new URL("lib/ort-wasm-simd-threaded.wasm", here).href;
  const library = await import("./lib/transformers.js"), { env } = library, { wasm } = env.backends.onnx;
  Object.assign(env, { allowLocalModels: true, allowRemoteModels: false, localModelPath: here, useBrowserCache: false,
    useWasmCache: false });
  env.fetch = async (address) => { // from what has been downloaded
    const bytes = got.get(new URL(address, here).href);
    return bytes ? new Response(bytes) : new Response(null, { status: 404 });
  };
  wasm.wasmPaths = { wasm: binary };
  wasm.wasmBinary = got.get(binary)?.buffer;
  wasm.numThreads = self.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency || 1) : 1;
  const json = async (name) => {
    const answer = await env.fetch(`model/${name}`);
    return answer.ok ? answer.json() : undefined;
  };
  translator = await Translator.load(library, about, json, "model", { device: "wasm" });
  got.clear();
  postMessage({ ready: true, threads: wasm.numThreads });
}

/** Let messages arrive, unless they just could: a timer takes 4 ms, but a line that is remembered less. */
async function pause() {
  if (performance.now() - paused < BETWEEN_PAUSES) return;
  await new Promise((done) => setTimeout(done));
  paused = performance.now();
}

async function work() {
  isBusy = true;
  while (waiting) {
    const { id, lines, direction } = waiting;
    waiting = null;
    const isStopped = () => waiting !== null || newest[0] > id;
    for (const [at, line] of lines.entries()) {
      for await (const text of translator.translate(line, direction, isStopped)) {
        postMessage({ id, at, text });
        await pause();
      }
      if (isStopped()) break;
    }
    if (!isStopped()) postMessage({ id, done: true });
  }
  isBusy = false;
}

onmessage = async ({ data }) => {
  try {
    if (data.load) return await load(data.load);
    waiting = data;
    if (!isBusy) await work();
  } catch (error) {
    isBusy = false;
    postMessage({ problem: String(error?.message ?? error) });
  }
  return undefined;
};
