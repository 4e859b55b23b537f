// Where the console's own files lie: below the hash of this version.

export const ASSETS = new URL(".", import.meta.url);
