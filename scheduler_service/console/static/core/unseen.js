// Characters that change how a line is read without being seen: controls and those of writing direction.

const UNSEEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** `text` with unseen characters written as `\u202e`, so that no text of a target can disguise what it is. */
export function showUnseen(text) {
  return text.replace(UNSEEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
