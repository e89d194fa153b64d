"use strict";
// The page looks answers up: every number and word below was computed when the page was made.
(() => {
  const { charts, datasets, sizes, shown, word } = JSON.parse(document.getElementById("data").textContent);
  let size = sizes[shown];
  const views = {};

  const records = ({ columns, rows }) =>
    rows.map((row) => Object.fromEntries(columns.map((column, index) => [column, row[index]])));

  // As many entries in a line of a legend as fit.
  const legend = (spec, width) => ({ ...spec.config.legend, columns: width < 440 ? 4 : spec.config.legend.columns });

  const whole = (spec, width) => ({
    ...spec,
    config: { ...spec.config, legend: legend(spec, width) },
    datasets: Object.fromEntries(Object.entries(spec.datasets).map(([name, place]) => [name, records(datasets[place])])),
  });

  const draw = async (place) => {
    const name = place.dataset.chart;
    const options = { ast: true, actions: false, renderer: "svg", tooltip: { theme: "custom", disableDefaultStyle: false } };
    const { view } = await vegaEmbed(place, whole(charts[name], place.clientWidth), options);
    views[name] = view;
    place.dataset.drawn = "yes";
  };

  const select = document.getElementById("examples");
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
    const answer = size.answers[index];
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

  // The strictest tabulated target that is not above what was asked: its network meets the one asked for too.
  const nearest = (wanted) => size.answers.findLastIndex((answer) => answer.target <= wanted * (1 + 1e-9));

  const type = () => {
    const wanted = Number(box.value.trim().replace(",", "."));
    if (!box.value.trim() || !Number.isFinite(wanted) || wanted <= 0) {
      heard.textContent = `Write ${word === "error" ? "an" : "a"} ${word} such as ${size.answers[size.start].shown}.`;
      return;
    }
    const found = nearest(wanted);
    const index = Math.max(found, 0);
    const answer = size.answers[index];
    if (found < 0) heard.textContent = `Below ${answer.shown}, the least that this page looked for: this is the best there is.`;
    else if (Math.abs(answer.target - wanted) > 1e-9 * wanted) heard.textContent = `The answer for ${answer.shown}, the nearest one below ${box.value.trim()}.`;
    else heard.textContent = "";
    show(index, true);
  };

  // The tables of the other numbers of examples are hidden, and the chart is given the data of this one.
  const settle = () => {
    slider.max = size.answers.length - 1;
    document.querySelectorAll("[data-size]").forEach((place) => { place.hidden = sizes[place.dataset.size] !== size; });
    if (views.answer) for (const [name, place] of Object.entries(size.datasets)) views.answer.data(name, records(datasets[place]));
  };

  if (slider) {
    slider.addEventListener("input", () => show(Number(slider.value), false));
    box.addEventListener("input", type);
    box.addEventListener("keydown", (event) => {
      const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      show(Math.min(Math.max(Number(slider.value) + step, 0), size.answers.length - 1), false);
    });
    if (select) select.addEventListener("change", () => {
      size = sizes[select.value];
      settle();
      type();
    });
    document.getElementById("ask").addEventListener("submit", (event) => event.preventDefault());
    settle();
    show(Number(slider.value), false);
  }

  const folds = document.querySelectorAll("details");
  window.addEventListener("beforeprint", () => folds.forEach((fold) => { fold.open = true; }));

  Promise.all([...document.querySelectorAll("[data-chart]")].map(draw)).then(() => {
    if (slider) {
      settle();
      follow(size.answers[Number(slider.value)]);
    }
    document.body.dataset.ready = "yes";
  });
})();
