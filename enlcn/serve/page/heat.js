// A map over the greyed photo: black, violet, red, orange, pale yellow, as `enlcn attention` draws it.

const STOPS = [[0, 0, 4], [81, 18, 124], [183, 55, 121], [252, 137, 97], [252, 253, 191]];
const HEAT = Array.from({ length: 256 }, (_, level) => {
  const place = (level / 255) * (STOPS.length - 1);
  const low = Math.min(Math.floor(place), STOPS.length - 2);
  return STOPS[low].map((value, channel) => value + (STOPS[low + 1][channel] - value) * (place - low));
});

export function bytes(base64) {
  return Uint8Array.from(atob(base64), (letter) => letter.charCodeAt(0));
}

// The photo's brightness at the size of the maps.
export function grey(photo, { width, height }) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.imageSmoothingQuality = "high";
  context.drawImage(photo, 0, 0, width, height);
  const { data } = context.getImageData(0, 0, width, height);
  return Float32Array.from({ length: width * height }, (_, i) => (data[4 * i] + data[4 * i + 1] + data[4 * i + 2]) / 3);
}

// The level that all but the brightest 0.3 % stay under: a single peak must not leave the rest in the dark.
function bright(levels) {
  const counts = new Uint32Array(256);
  for (const level of levels) counts[level] += 1;
  let above = levels.length * 0.003;
  for (let level = 255; level > 24; level -= 1) {
    above -= counts[level];
    if (above <= 0) return level;
  }
  return 24;
}

export function draw(levels, background, { width, height }) {
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  const image = new ImageData(width, height);
  const gain = 255 / bright(levels);
  for (let i = 0; i < levels.length; i += 1) {
    const colour = HEAT[Math.min(255, Math.round(levels[i] * gain))];
    for (let channel = 0; channel < 3; channel += 1) {
      image.data[4 * i + channel] = 0.25 * background[i] + 0.85 * colour[channel];
    }
    image.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

export function mark(point, { width, height }, small = true) {
  const dot = document.createElement("span");
  dot.className = small ? "point small" : "point";
  place(dot, (point.x + 0.5) / width, (point.y + 0.5) / height);
  return dot;
}

export function place(dot, x, y) {
  dot.style.left = `${x * 100}%`;
  dot.style.top = `${y * 100}%`;
}
