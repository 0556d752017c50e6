// Pictures on their way: sent a few at a time, followed, cancelled, downloaded.
import { ProblemError, call, follow, pause, withQuery } from "./api.js";

const AT_ONCE = 2;
const THUMB = 96;
let number = 0;

export class Item {
  constructor(file, settings) {
    this.key = number += 1;
    this.file = file;
    this.settings = settings;
    this.state = "new";
    this.job = null;
    this.error = null;
    this.kept = null;
    this.pictures = null;
    this.bitmap = undefined;
  }

  get name() { return this.file.name || "pasted picture"; }

  // As `enlcn upscale` would call it.
  get resultName() {
    const extension = { jpeg: "jpg", tiff: "tif" }[this.job.format] || this.job.format;
    return `${this.name.replace(/\.[^.]+$/, "")}_x${this.settings.scale}.${extension}`;
  }

  get isBusy() { return ["new", "sending", "queued", "running"].includes(this.state); }

  // The input as the browser reads it; null where it cannot.
  async input() {
    if (this.bitmap === undefined) {
      this.bitmap = await createImageBitmap(this.file).catch(() => null);
    }
    return this.bitmap;
  }

  async thumbnail() {
    const bitmap = await this.input();
    if (!bitmap) return null;
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = THUMB;
    const side = Math.min(bitmap.width, bitmap.height);
    const context = canvas.getContext("2d");
    context.imageSmoothingQuality = "high";
    context.drawImage(bitmap, (bitmap.width - side) / 2, (bitmap.height - side) / 2, side, side, 0, 0, THUMB, THUMB);
    return canvas;
  }

  // What was made, fetched once and as soon as it is there: the server keeps it for some minutes only.
  files() {
    if (!this.kept) {
      const { id, files } = this.job;
      const fetched = {};
      const kept = (async () => {
        for (const name of ["before", "preview", "result"]) { // the result last: a server that stops waits for it
          if (files[name]) fetched[name] = await (await call(`/v1/jobs/${id}/${name}`)).blob();
        }
        return fetched;
      })();
      kept.catch(() => { if (this.kept === kept) this.kept = null; });
      this.kept = kept;
    }
    return this.kept;
  }

  // Before and after as images, made when first looked at.
  async compared() {
    if (!this.pictures) {
      const shown = async (blob) => {
        const image = new Image();
        image.src = URL.createObjectURL(blob);
        await image.decode();
        return image;
      };
      this.pictures = this.files().then(({ before, preview, result }) => Promise.all([shown(before), shown(preview || result)]));
      this.pictures.catch(() => { this.pictures = null; });
    }
    return this.pictures;
  }

  async release() {
    const { pictures } = this;
    this.pictures = this.kept = null;
    for (const image of (await pictures?.catch(() => null)) || []) URL.revokeObjectURL(image.src);
  }
}

export class Queue extends EventTarget {
  constructor() {
    super();
    this.items = [];
    this.running = 0;
  }

  add(files, settings) {
    const added = [...files].map((file) => new Item(file, { ...settings }));
    this.items.push(...added);
    for (const item of added) this.tell("added", item);
    this.next();
    return added;
  }

  again(item, settings) {
    this.stop(item);
    item.release();
    item.settings = { ...settings };
    item.state = "new";
    item.error = item.job = item.step = null;
    this.tell("changed", item);
    this.next();
  }

  remove(item) {
    this.stop(item);
    item.release();
    this.items = this.items.filter((other) => other !== item);
    this.tell("removed", item);
  }

  cancel(item) {
    this.stop(item);
    item.state = "cancelled";
    this.tell("changed", item);
  }

  stop(item) {
    item.controller?.abort();
    item.controller = null;
    if (item.job) call(`/v1/jobs/${item.job.id}`, { method: "DELETE" }).catch(() => {});
  }

  next() {
    while (this.running < AT_ONCE) {
      const item = this.items.find((one) => one.state === "new");
      if (!item) return;
      this.running += 1;
      item.state = "sending";
      this.run(item).finally(() => { this.running -= 1; this.next(); });
    }
  }

  async run(item) {
    const controller = item.controller = new AbortController();
    const settle = (state, error = null) => {
      if (item.controller !== controller) return; // cancelled, or sent again meanwhile
      item.state = state;
      item.error = error;
      this.tell("changed", item);
    };
    try {
      item.job = await this.send(item, controller.signal);
      item.state = item.job.state;
      this.tell("changed", item);
      const job = await follow(item.job.id, controller.signal, (news) => {
        item.job = news;
        item.state = news.state;
        this.tell("changed", item);
      });
      settle(job.state, job.problem && new ProblemError(job.problem));
      if (item.controller === controller && item.state === "done") await item.files().catch(() => {}); // asked for again when it is needed
    } catch (error) {
      if (error.name !== "AbortError") settle("failed", error);
    }
  }

  async send(item, signal) {
    const path = withQuery("/v1/upscale", { ...item.settings, respond: "job", compare: "true" });
    for (;;) {
      this.tell("changed", item);
      try {
        const response = await call(path, { method: "POST", body: item.file, signal, headers: { "Content-Type": "application/octet-stream" } });
        return await response.json();
      } catch (error) {
        if (error.status !== 429) throw error;
        item.step = "the server is busy, trying again";
        this.tell("changed", item);
        await pause(1000 * Math.min(error.retryAfter || 2, 10), signal);
      }
    }
  }

  async save(item) {
    const { result } = await item.files();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(result);
    link.download = item.resultName;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  tell(name, item) { this.dispatchEvent(new CustomEvent(name, { detail: item })); }
}
