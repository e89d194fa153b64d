"use strict";
// The page looks answers up: every number and word below was computed when the page was made.
(() => {
  const { charts, datasets, answers, start } = JSON.parse(document.getElementById("data").textContent);
  const views = {};

  const records = ({ columns, rows }) =>
    rows.map((row) => Object.fromEntries(columns.map((column, index) => [column, row[index]])));

  const whole = (spec) => ({
    ...spec,
    datasets: Object.fromEntries(Object.entries(spec.datasets).map(([name, place]) => [name, records(datasets[place])])),
  });

  const draw = async (place) => {
    const name = place.dataset.chart;
    const options = { ast: true, actions: false, renderer: "svg", tooltip: { theme: "custom", disableDefaultStyle: false } };
    const { view } = await vegaEmbed(place, whole(charts[name]), options);
    views[name] = view;
    place.dataset.drawn = "yes";
  };

  const slider = document.getElementById("slider");
  const box = document.getElementById("box");
  const heard = document.getElementById("heard");

  const element = (tag, text) => Object.assign(document.createElement(tag), { textContent: text });

  // Words between backticks are commands.
  const coded = (tag, text) => {
    const made = document.createElement(tag);
    text.split("`").forEach((part, index) => made.append(index % 2 ? element("code", part) : part));
    return made;
  };

  const fact = ([name, value, remark]) => {
    const row = document.createElement("div");
    const detail = document.createElement("dd");
    detail.append(element("strong", value), " ", element("span", remark));
    row.append(element("dt", name), detail);
    return row;
  };

  const follow = (answer) => {
    const view = views.answer;
    if (!view) return;
    for (const [name, rows] of Object.entries(answer.data)) view.data(name, rows);
    view.runAsync();
  };

  const show = (index, typed) => {
    const answer = answers[index];
    slider.value = index;
    slider.setAttribute("aria-valuetext", `${answer.shown}: ${answer.headline}`);
    document.getElementById("headline").textContent = answer.headline;
    document.getElementById("facts").replaceChildren(...answer.facts.map(fact));
    document.getElementById("comparison").textContent = answer.comparison;
    document.getElementById("answer-notes").replaceChildren(...answer.notes.map((note) => coded("li", note)));
    if (!typed) {
      box.value = answer.shown;
      heard.textContent = "";
    }
    follow(answer);
  };

  // The strictest tabulated target that is not above what was typed: its network meets the typed target too.
  const nearest = (wanted) => {
    let found = -1;
    answers.forEach((answer, index) => { if (answer.target <= wanted) found = index; });
    return found;
  };

  const type = () => {
    const wanted = Number(box.value.trim().replace(",", "."));
    if (!box.value.trim() || !Number.isFinite(wanted) || wanted <= 0) {
      heard.textContent = `Write an error such as ${answers[start].shown}.`;
      return;
    }
    const found = nearest(wanted);
    const index = Math.max(found, 0);
    const answer = answers[index];
    if (found < 0) heard.textContent = `Below ${answer.shown}, the least that this page looked for: this is the best there is.`;
    else if (answer.target !== wanted) heard.textContent = `The answer for ${answer.shown}, the nearest one below ${box.value.trim()}.`;
    else heard.textContent = "";
    show(index, true);
  };

  if (slider) {
    slider.addEventListener("input", () => show(Number(slider.value), false));
    box.addEventListener("input", type);
    box.addEventListener("keydown", (event) => {
      const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      show(Math.min(Math.max(Number(slider.value) + step, 0), answers.length - 1), false);
    });
    document.getElementById("ask").addEventListener("submit", (event) => event.preventDefault());
    show(Number(slider.value), false);
  }

  const folds = document.querySelectorAll("details");
  window.addEventListener("beforeprint", () => folds.forEach((fold) => { fold.open = true; }));

  Promise.all([...document.querySelectorAll("[data-chart]")].map(draw)).then(() => {
    if (slider) follow(answers[Number(slider.value)]);
    document.body.dataset.ready = "yes";
  });
})();
