// Before and after, one over the other: a divider between them, one zoom and one place for both, to the pixel.

const SMALLEST = 0.02;
const LARGEST = 32;

export class Viewer {
  constructor({ box, canvas, divider, zoom }) {
    Object.assign(this, { box, canvas, divider, zoom });
    this.context = canvas.getContext("2d");
    this.before = this.after = this.ghost = null;
    this.split = 0.5;
    this.scale = 1; // device pixels of the screen per pixel of the result
    this.centre = [0, 0]; // pixel of the result in the middle of the view
    this.fitted = true;
    this.pointers = new Map();
    new ResizeObserver(() => this.resize()).observe(box);
    this.listen();
  }

  show(before, after) {
    const same = this.after && this.after.width === after.width && this.after.height === after.height;
    this.before = before;
    this.after = after;
    if (!same || this.fitted) this.fit();
    this.draw();
  }

  clear() {
    if (!this.after) return;
    this.before = this.after = null;
    this.draw();
  }

  // The input, faint, while there is nothing else to show.
  haunt(picture) {
    if (this.ghost === picture) return;
    this.ghost = picture;
    this.draw();
  }

  resize() {
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.max(1, Math.round(this.box.clientWidth * ratio));
    this.canvas.height = Math.max(1, Math.round(this.box.clientHeight * ratio));
    if (this.fitted) this.fit();
    this.draw();
  }

  fit() {
    if (!this.after) return;
    this.scale = Math.min(this.canvas.width / this.after.naturalWidth, this.canvas.height / this.after.naturalHeight);
    this.centre = [this.after.naturalWidth / 2, this.after.naturalHeight / 2];
    this.fitted = true;
    this.draw();
  }

  // Zoom so that the pixel under (x, y), in device pixels of the canvas, stays where it is.
  zoomTo(scale, x = this.canvas.width / 2, y = this.canvas.height / 2) {
    if (!this.after) return;
    const next = Math.min(LARGEST, Math.max(SMALLEST, scale));
    const [dx, dy] = [x - this.canvas.width / 2, y - this.canvas.height / 2];
    this.centre = [this.centre[0] + dx / this.scale - dx / next, this.centre[1] + dy / this.scale - dy / next];
    this.scale = next;
    this.fitted = false;
    this.keepInside();
    this.draw();
  }

  pan(dx, dy) {
    this.centre = [this.centre[0] - dx / this.scale, this.centre[1] - dy / this.scale];
    this.fitted = false;
    this.keepInside();
    this.draw();
  }

  keepInside() {
    const { naturalWidth: width, naturalHeight: height } = this.after;
    this.centre = [Math.min(width, Math.max(0, this.centre[0])), Math.min(height, Math.max(0, this.centre[1]))];
  }

  setSplit(split) {
    this.split = Math.min(1, Math.max(0, split));
    this.divider.style.left = `${this.split * 100}%`;
    this.divider.setAttribute("aria-valuenow", Math.round(this.split * 100));
    this.divider.setAttribute("aria-valuetext", `${Math.round(this.split * 100)} % before`);
    this.draw();
  }

  draw() {
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.paint());
  }

  paint() {
    const { context, canvas } = this;
    context.clearRect(0, 0, canvas.width, canvas.height);
    this.divider.hidden = !this.after;
    if (!this.after) {
      if (this.ghost) this.paintGhost();
      return;
    }
    const edge = Math.round((this.holdBefore ? 1 : this.split) * canvas.width);
    const width = this.after.naturalWidth * this.scale;
    const height = this.after.naturalHeight * this.scale;
    const left = Math.round(canvas.width / 2 - this.centre[0] * this.scale);
    const top = Math.round(canvas.height / 2 - this.centre[1] * this.scale);
    context.imageSmoothingEnabled = this.scale < 1; // from 1 : 1 on, every pixel is a square
    context.imageSmoothingQuality = "high";
    for (const [image, from, to] of [[this.before, 0, edge], [this.after, edge, canvas.width]]) {
      context.save();
      context.beginPath();
      context.rect(from, 0, to - from, canvas.height);
      context.clip();
      context.drawImage(image, left, top, width, height);
      context.restore();
    }
    this.zoom.textContent = `${this.scale < 0.1 ? (this.scale * 100).toFixed(1) : Math.round(this.scale * 100)} %`;
  }

  paintGhost() {
    const { context, canvas, ghost } = this;
    const scale = Math.min(canvas.width / ghost.width, canvas.height / ghost.height);
    const [width, height] = [ghost.width * scale, ghost.height * scale];
    context.globalAlpha = 0.35;
    context.imageSmoothingEnabled = true;
    context.drawImage(ghost, (canvas.width - width) / 2, (canvas.height - height) / 2, width, height);
    context.globalAlpha = 1;
  }

  listen() {
    const { canvas, divider, box } = this;
    const place = (event) => {
      const bounds = canvas.getBoundingClientRect();
      const ratio = canvas.width / bounds.width;
      return [(event.clientX - bounds.left) * ratio, (event.clientY - bounds.top) * ratio];
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      this.pointers.set(event.pointerId, place(event));
    });
    canvas.addEventListener("pointermove", (event) => {
      const old = this.pointers.get(event.pointerId);
      if (!old || !this.after) return;
      const now = place(event);
      if (this.pointers.size === 1) {
        this.pan(now[0] - old[0], now[1] - old[1]);
      } else {
        const [, other] = [...this.pointers].find(([id]) => id !== event.pointerId);
        const spread = (point) => Math.hypot(point[0] - other[0], point[1] - other[1]) || 1;
        this.zoomTo(this.scale * spread(now) / spread(old), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
      }
      this.pointers.set(event.pointerId, now);
    });
    for (const end of ["pointerup", "pointercancel"]) {
      canvas.addEventListener(end, (event) => this.pointers.delete(event.pointerId));
    }
    canvas.addEventListener("dblclick", (event) => (this.fitted ? this.zoomTo(1, ...place(event)) : this.fit()));
    box.addEventListener("wheel", (event) => {
      event.preventDefault();
      this.zoomTo(this.scale * Math.exp(-event.deltaY * (event.ctrlKey ? 0.01 : 0.0016)), ...place(event));
    }, { passive: false });

    divider.addEventListener("pointerdown", (event) => { divider.setPointerCapture(event.pointerId); event.preventDefault(); divider.focus(); });
    divider.addEventListener("pointermove", (event) => {
      if (!divider.hasPointerCapture(event.pointerId)) return;
      this.setSplit(place(event)[0] / canvas.width);
    });
    divider.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 0.1 : 0.02;
      const moves = { ArrowLeft: this.split - step, ArrowRight: this.split + step, ArrowDown: this.split - step, ArrowUp: this.split + step, Home: 0, End: 1, PageUp: this.split + 0.1, PageDown: this.split - 0.1 };
      if (!(event.key in moves)) return;
      event.preventDefault();
      this.setSplit(moves[event.key]);
    });
    canvas.addEventListener("keydown", (event) => this.onKey(event));
    canvas.addEventListener("keyup", (event) => { if (event.key.toLowerCase() === "b") { this.holdBefore = false; this.draw(); } });
    canvas.addEventListener("blur", () => { this.holdBefore = false; this.draw(); });
  }

  onKey(event) {
    if (!this.after || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = event.shiftKey ? 240 : 60;
    const actions = {
      "+": () => this.zoomTo(this.scale * 1.25), "=": () => this.zoomTo(this.scale * 1.25), "-": () => this.zoomTo(this.scale / 1.25),
      0: () => this.fit(), 1: () => this.zoomTo(1), 2: () => this.zoomTo(2), 4: () => this.zoomTo(4),
      ArrowLeft: () => this.pan(step, 0), ArrowRight: () => this.pan(-step, 0), ArrowUp: () => this.pan(0, step), ArrowDown: () => this.pan(0, -step),
      b: () => { this.holdBefore = true; this.draw(); },
    };
    const action = actions[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!action) return;
    event.preventDefault();
    action();
  }
}
