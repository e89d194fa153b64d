"use strict";
// The page looks answers up: every number and word below was computed when the page was made.
(() => {
  const { charts, datasets, sizes, shown, examples, word, share, beyond } = JSON.parse(document.getElementById("data").textContent);
  let size = sizes[shown];
  const views = {};

  const records = ({ columns, rows }) =>
    rows.map((row) => Object.fromEntries(columns.map((column, index) => [column, row[index]])));

  // As many entries in a line of a legend as fit beside the labels of the vertical axis; all are as wide as the longest.
  const legend = (spec, width) => {
    const scales = spec.layer.flatMap(({ encoding }) => [encoding.color?.scale, encoding.shape?.scale]);
    const longest = Math.max(1, ...scales.flatMap((scale) => scale?.domain ?? []).map((name) => name.length));
    return { ...spec.config.legend, columns: Math.max(1, Math.floor((width - 70) / (26 + 7 * longest))) };
  };

  // The title of an axis in two lines, if it is too long for one.
  const lines = (title, width) => (title.length * 6 > width - 70 ? title.split(/(?<=,) /) : title);

  const whole = (spec, width) => ({
    ...spec,
    params: spec.params?.map((one) => (one.name === "unit" ? { ...one, value: lines(one.value, width) } : one)),
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
  const measure = document.getElementById("measure");
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

  let presented;

  const present = (answer, index) => {
    presented = answer;
    slider.value = index;
    slider.setAttribute("aria-valuetext", `${answer.shown}: ${answer.headline}`);
    document.getElementById("headline").textContent = answer.headline;
    document.getElementById("facts").replaceChildren(...answer.facts.map(fact));
    document.getElementById("comparison").textContent = answer.comparison;
    document.getElementById("answer-notes").replaceChildren(...answer.notes.map((note) => coded("li", note)));
    follow(answer);
  };

  const show = (index) => {
    present(size.answers[index], index);
    box.value = size.answers[index].shown;
    heard.textContent = "";
  };

  const say = (text, target) => text.replaceAll("{}", target);

  // Below the least that is met: the network of least error, and nothing that was said of another target.
  const none = (target) => {
    const { headline, notes } = size.least;
    const [first] = size.answers;
    const data = { ...first.data, target: [{ error: target }] };
    present({ ...first, shown: `${target}`, headline: say(headline, target), notes, data }, 0);
    heard.textContent = "";
  };

  // From the high plateau or chance on, no network is the answer.
  const any = (target, headline) => {
    const data = { target: [{ error: target }], chosen: [] };
    present({ shown: `${target}`, headline: say(headline, target), facts: [], comparison: "", notes: [], data }, size.answers.length - 1);
    heard.textContent = `Ask for a lower ${word}.`;
  };

  // What was typed as a number, or what to type instead.
  const read = (text) => {
    const percent = share && text.endsWith("%");
    const number = Number(text.replace("%", percent ? "" : "%").replace(",", ".") || NaN);
    const wanted = percent ? Number((number / 100).toPrecision(12)) : number;
    const example = `Write ${word === "error" ? "an" : "a"} ${word} such as ${size.answers[size.start].shown}`;
    if (!Number.isFinite(wanted)) return { help: `${example}.` };
    if (wanted <= 0) return { help: `No network reaches ${text}. ${example}.` };
    if (share && wanted >= 1) {
      const meant = wanted < 100 && !percent ? `: for ${text}% write ${Number((wanted / 100).toPrecision(12))}` : "";
      return { help: `An error is a share of the test set, below 1${meant}.` };
    }
    return { wanted };
  };

  // The strictest tabulated target that is not above what was asked: if met, its network meets the one asked for too.
  const look = (wanted) => {
    const { answers } = size;
    const below = answers.findLastIndex((answer) => answer.target <= wanted * (1 + 1e-9));
    const met = answers.findIndex((answer) => answer.met);
    const exact = below >= 0 && Math.abs(answers[below].target - wanted) <= 1e-9 * wanted;
    const plateau = beyond.find((one) => wanted >= one.from);
    if (plateau) any(wanted, plateau.headline);
    else if (!exact && (below < 0 || met < 0 || below + 1 < met)) none(wanted);
    else if (!exact && !answers[below].met) {
      present(answers[met], met);
      heard.textContent = `No network here reaches ${answers[below].shown}; this is the answer for ${answers[met].shown}, the next higher target.`;
    } else {
      present(answers[below], below);
      heard.textContent = exact ? "" : `This is the answer for ${answers[below].shown}, the nearest target below ${wanted}.`;
    }
  };

  const type = () => {
    const { wanted, help } = read(box.value.trim());
    if (help) heard.textContent = help;
    else look(wanted);
    return !help;
  };

  // The tables of other numbers of examples and measures are hidden, and the chart is given the data of this one.
  const settle = () => {
    slider.max = size.answers.length - 1;
    document.querySelectorAll("[data-size]").forEach((place) => { place.hidden = sizes[place.dataset.size] !== size; });
    if (!views.answer) return;
    for (const [name, place] of Object.entries(size.datasets)) views.answer.data(name, records(datasets[place]));
    const { unit, ...axes } = size.view;
    for (const [name, value] of Object.entries(axes)) views.answer.signal(name, value);
    views.answer.signal("unit", lines(unit, document.getElementById("chart-answer").clientWidth));
  };

  if (slider) {
    slider.addEventListener("input", () => show(Number(slider.value)));
    box.addEventListener("input", type);
    box.addEventListener("keydown", (event) => {
      const step = { ArrowUp: 1, ArrowDown: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      show(Math.min(Math.max(Number(slider.value) + step, 0), size.answers.length - 1));
    });
    for (const one of [select, measure]) one?.addEventListener("change", () => {
      size = sizes[Number(measure?.value ?? 0) * examples.length + Number(select?.value ?? 0)];
      settle();
      if (!type()) show(size.start);
    });
    document.getElementById("ask").addEventListener("submit", (event) => event.preventDefault());
    settle();
    type();
  }

  const folds = document.querySelectorAll("details");
  window.addEventListener("beforeprint", () => folds.forEach((fold) => { fold.open = true; }));

  Promise.all([...document.querySelectorAll("[data-chart]")].map(draw)).then(() => {
    if (slider) {
      settle();
      follow(presented);
    }
    const linked = document.getElementById(window.location.hash.slice(1));
    document.querySelectorAll("details.study").forEach((study) => { study.open = linked !== null && study.parentElement.contains(linked); });
    document.body.dataset.ready = "yes";
  });
})();
