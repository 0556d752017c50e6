// The attention explorer: click a point, see where each attention and its rivals look from there.
import { call, withQuery } from "./api.js";
import * as heat from "./heat.js";

const NAMES = { features: "ENLCA", exact: "Exact non-local", hashed: "Hashed (NLSA)", "criss-cross": "Criss-cross" };
const NOTES = { features: "random features, linear cost", exact: "all pixels, quadratic cost", hashed: "its bucket and two beside", "criss-cross": "its row and column" };
const percent = (value) => `${(100 * value).toFixed(value < 0.0995 ? 1 : 0)}\u00a0%`;
const $ = (id) => document.getElementById(id);

export class Explorer {
  constructor(settings, complain) {
    Object.assign(this, { settings, complain });
    this.item = this.photo = this.point = this.answer = null;
    this.seed = null;
    $("look").addEventListener("click", (event) => this.onClick(event));
    $("look").addEventListener("keydown", (event) => this.onKey(event));
    for (const id of ["lab-k", "lab-m"]) $(id).addEventListener("input", () => { this.nameSliders(); this.soon(); });
    $("lab-module").addEventListener("change", () => this.compare());
    $("lab-draw").addEventListener("click", () => { this.seed = 1 + Math.floor(Math.random() * 1e6); this.compare(); });
    $("lab-own").addEventListener("click", () => { this.asTrained(); this.compare(); });
  }

  async show(item) {
    if (this.item === item) return;
    this.item = item;
    this.point = this.answer = null;
    $("maps").replaceChildren();
    $("look-facts").textContent = "";
    $("lab").hidden = $("look-mark").hidden = true;
    let photo = await item.input();
    if (!photo && item.state === "done") photo = (await item.compared())[0];
    if (this.item !== item) return;
    this.photo = photo;
    this.size = item.job ? item.job.input : photo && { width: photo.width, height: photo.height };
    $("look").hidden = !photo;
    $("look-hint").textContent = photo
      ? "Click a point of the picture to see where each attention looks from there. With the keyboard: arrows move the point, Enter looks."
      : "This browser cannot show the picture's format; it can once the picture has been enlarged.";
    if (!photo) { this.item = null; return; }
    const canvas = $("look-canvas");
    const shrink = Math.min(1, 1400 / Math.max(photo.width, photo.height));
    canvas.width = Math.max(1, Math.round(photo.width * shrink));
    canvas.height = Math.max(1, Math.round(photo.height * shrink));
    canvas.getContext("2d").drawImage(photo, 0, 0, canvas.width, canvas.height);
  }

  onClick(event, panel = $("look")) {
    if (!this.photo) return;
    const bounds = panel.querySelector("canvas").getBoundingClientRect();
    this.lookFrom((event.clientX - bounds.left) / bounds.width, (event.clientY - bounds.top) / bounds.height);
  }

  onKey(event) {
    if (!this.photo) return;
    const step = event.shiftKey ? 10 : 1;
    const moves = { ArrowLeft: [-step, 0], ArrowRight: [step, 0], ArrowUp: [0, -step], ArrowDown: [0, step] };
    const { width, height } = this.size;
    if (event.key in moves) {
      const [x, y] = this.point || [width >> 1, height >> 1];
      this.setPoint(x + moves[event.key][0], y + moves[event.key][1]);
      clearTimeout(this.timer);
      this.timer = setTimeout(() => this.look(), 350);
    } else if (event.key === "Enter" || event.key === " ") {
      if (!this.point) this.setPoint(width >> 1, height >> 1);
      this.look();
    } else return;
    event.preventDefault();
  }

  setPoint(x, y) {
    const { width, height } = this.size;
    this.point = [Math.min(width - 1, Math.max(0, x)), Math.min(height - 1, Math.max(0, y))];
    $("look-mark").hidden = false;
    heat.place($("look-mark"), (this.point[0] + 0.5) / width, (this.point[1] + 0.5) / height);
  }

  lookFrom(u, v) {
    this.setPoint(Math.floor(u * this.size.width), Math.floor(v * this.size.height));
    this.look();
  }

  async ask(parameters) {
    this.controller?.abort();
    const controller = this.controller = new AbortController();
    const [x, y] = this.point;
    const path = withQuery("/v1/attention", { x, y, model: this.settings().model, ...parameters });
    const headers = { "Content-Type": "application/octet-stream" };
    const response = await call(path, { method: "POST", body: this.item.file, signal: controller.signal, headers });
    return response.json();
  }

  async look() {
    $("maps").setAttribute("aria-busy", "true");
    try {
      const answer = await this.ask({});
      this.answer = answer;
      this.background = heat.grey(this.photo, answer.size);
      this.showFacts(answer);
      $("maps").replaceChildren(...answer.modules.map((module) => this.row(module, answer)));
      const fresh = $("lab").hidden;
      $("lab").hidden = false;
      if (fresh) this.asTrained();
      this.fillModules(answer);
      if (this.isAsTrained()) this.showComparison(answer);
      else await this.compare();
    } catch (error) {
      if (error.name !== "AbortError") this.complain(error);
    } finally {
      $("maps").setAttribute("aria-busy", "false");
    }
  }

  showFacts({ checkpoint, size, input }) {
    const { attention } = checkpoint;
    const contrast = { true: "trained with contrastive loss", false: "trained without contrastive loss", null: "contrastive loss not recorded" };
    const trained = checkpoint.trained ? contrast[String(attention.contrast)] : "not trained";
    const shrunk = size.width === input.width ? "" : ` · looked at in ${size.width} × ${size.height}`;
    $("look-facts").textContent = `${checkpoint.name}: k = ${attention.k ?? "free"}, m = ${attention.m ?? "none"}, ${trained}${shrunk}`;
  }

  row(module, answer) {
    const row = document.createElement("section");
    const title = document.createElement("h3");
    const note = document.createElement("small");
    note.textContent = module.relative_error == null ? "" : `estimate against exact: ${percent(module.relative_error)} relative error`;
    title.append(`Attention ${module.module} of ${answer.checkpoint.attention.modules}`, note);
    const panels = document.createElement("div");
    panels.className = "row";
    panels.append(...module.maps.map((map) => this.figure(map, answer)));
    row.append(title, panels);
    return row;
  }

  figure(map, answer) {
    const figure = document.createElement("figure");
    const panel = this.panel(map, answer);
    panel.setAttribute("role", "img");
    panel.setAttribute("aria-label", `${NAMES[map.weighing]}: the heaviest 1 % of the pixels hold ${percent(map.focus)} of the weight`);
    const caption = document.createElement("figcaption");
    const note = document.createElement("small");
    note.textContent = `${NOTES[map.weighing]}; top 1 % of pixels: ${percent(map.focus)}`;
    caption.append(NAMES[map.weighing], note);
    figure.append(panel, caption);
    return figure;
  }

  panel(map, answer) {
    const panel = document.createElement("div");
    panel.className = "photo";
    panel.title = "Click to look from here";
    panel.addEventListener("click", (event) => this.onClick(event, panel));
    panel.append(heat.draw(heat.bytes(map.levels), this.background, answer.size), heat.mark(answer.point, answer.size));
    return panel;
  }

  fillModules({ modules, checkpoint }) {
    const select = $("lab-module");
    if (select.options.length === checkpoint.attention.modules) return;
    select.replaceChildren(...modules.map(({ module }) => new Option(`No. ${module}`, module)));
  }

  asTrained() {
    const { k, m } = this.answer.checkpoint.attention;
    this.seed = null;
    $("lab-k").value = k ?? 6;
    $("lab-m").value = Math.log2(m ?? 128);
    this.nameSliders();
  }

  isAsTrained() {
    const { k, m } = this.answer.checkpoint.attention;
    return this.seed === null && Number($("lab-k").value) === (k ?? 6) && 2 ** $("lab-m").value === (m ?? 128);
  }

  nameSliders() {
    $("lab-k-value").textContent = `k = ${$("lab-k").value}`;
    $("lab-m-value").textContent = `m = ${2 ** $("lab-m").value}`;
    $("lab-m").setAttribute("aria-valuetext", `${2 ** $("lab-m").value} features`);
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.compare(), 160);
  }

  async compare() {
    if (!this.point) return;
    $("lab").setAttribute("aria-busy", "true");
    const altered = this.isAsTrained() ? {} : { k: $("lab-k").value, m: 2 ** $("lab-m").value, seed: this.seed };
    try {
      this.showComparison(await this.ask({ ...altered, modules: [$("lab-module").value], weighings: ["exact", "features"] }));
    } catch (error) {
      if (error.name !== "AbortError") this.complain(error);
    } finally {
      $("lab").setAttribute("aria-busy", "false");
    }
  }

  showComparison(answer) {
    const module = answer.modules.find((one) => one.module === Number($("lab-module").value)) || answer.modules[0];
    for (const map of module.maps) {
      const place = document.getElementById(`lab-${map.weighing}`);
      if (place) place.replaceChildren(this.panel(map, answer));
    }
    $("lab-error").textContent = percent(module.relative_error);
    $("lab-misplaced").textContent = `${percent(module.misplaced)} of the weight lies elsewhere`;
  }
}
