// Starts the console.

import { createApp, h } from "./core/vue.js";

createApp({ render: () => h("main", "Punctual") }).mount("#application");
