// Translation of a file: upload with progress, and download.
import { upload } from "./requests.js";

const get = (id) => document.getElementById(id);

/** Return the name of a translated file: letter.txt becomes letter.en.txt. */
const nameInto = (name, target) => name.replace(/(\.[^.]*)?$/, (ending) => `.${target}${ending}`);

function setSending(sending) {
  get("send-file").disabled = sending;
  get("stop-file").hidden = get("file-progress").hidden = !sending;
}

function showProgress(share) {
  if (share < 1) get("file-progress").value = share;
  else get("file-progress").removeAttribute("value"); // the duration of the translation is unknown
}

/** Translate the selected file. `fields`: further form fields; `onProblem` is called with a problem. */
async function translateFile(limit, { key, ...fields }, onProblem) {
  const tell = (message) => (get("file-state").textContent = message), [file] = get("file").files;
  if (!file) return tell("Choose a file first.");
  if (file.size > limit) return tell("The file is too large for this server. Translate it in parts.");
  const form = new FormData();
  for (const [name, value] of Object.entries({ file, ...fields })) if (value) form.append(name, value);
  const own = new AbortController();
  get("stop-file").onclick = () => own.abort();
  get("download").hidden = true;
  tell("Sending and translating the file …");
  setSending(true);
  try {
    const { href, notes } = await upload("translate_file", form, key, own.signal, showProgress);
    const name = nameInto(file.name, fields.target);
    Object.assign(get("download"), { href, download: name, textContent: `Download ${name}`, hidden: false });
    return tell(["The file has been translated.", ...notes.map((note) => `Note: ${note}.`)].join(" "));
  } catch (problem) {
    if (own.signal.aborted) return tell("Stopped.");
    onProblem(problem);
    return tell(problem.wait ? `${problem.message} Try again in ${problem.wait} s.` : problem.message);
  } finally {
    setSending(false);
  }
}

/** Set up the translation of files in the supported formats. `asked` returns the languages, the terms and the key. */
export function offerFiles({ file_formats: formats, limits: { file_bytes: limit } }, asked, onProblem) {
  const size = (limit / 2 ** 20).toLocaleString("en", { maximumFractionDigits: 1 });
  get("files").hidden = !formats.length;
  get("file").accept = formats.join(",");
  get("file-note").textContent = `${formats.join(", ")}; at most ${size} MB. The languages selected above are used.`;
  get("file-form").onsubmit = (event) => {
    event.preventDefault();
    translateFile(limit, asked(), onProblem);
  };
}
