// What several screens use and the list of jobs does not: it comes with the first of them. They import it from core.js, as all else.

import "./components/charts.js";
import "./components/code.js";
import "./components/days.js";
import "./components/diff.js";
import "./components/json_area.js";
import "./components/json_member.js";
import "./components/outlook.js";
import "./components/soft.js";
