// A request as a command line of curl.

// Characters that a shell or a terminal would take for something else, and those that are not seen.
const ODD = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/;
const ODD_EACH = new RegExp(ODD.source, "g");

/** `curl` for a request: `message` has `headers` and `body` as the history keeps them, masked values included. */
export function curlOf(method, url, message) {
  const parts = [`curl -X ${quote(method)} ${quote(url)}`];
  for (const [name, value] of Object.entries(message?.headers ?? {})) parts.push(`-H ${quote(`${name}: ${value}`)}`);
  if (message?.body != null) parts.push(`--data-raw ${quote(message.body)}`);
  return parts.join(" \\\n  ");
}

/** A word of a shell: quoted where it must be; odd characters are written with escapes, so that pasting does what is read. */
function quote(text) {
  if (/^[\w./:@%+,=-]+$/.test(text)) return text;
  if (!ODD.test(text)) return `'${text.replaceAll("'", "'\\''")}'`;
  const escaped = text.replace(/[\\']/g, "\\$&").replace(ODD_EACH, escapeOf);
  return `$'${escaped}'`;
}

function escapeOf(one) {
  if (one === "\n") return "\\n";
  if (one === "\t") return "\\t";
  return `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`;
}
