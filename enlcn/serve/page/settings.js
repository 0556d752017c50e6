// What is asked of the next pictures: model, scale, precision, format and what goes with it.
import { getJson } from "./api.js";

const $ = (id) => document.getElementById(id);
const HOLDS_ALPHA = ["auto", "png", "webp", "avif", "tiff"];
const HAS_QUALITY = ["jpeg", "webp", "avif"];
let models = [];

const chosenModel = () => models.find((one) => one.name === $("model").value);
const scaleButtons = () => [...document.querySelectorAll("[name=scale]")];
const largestScale = () => Math.max(...(chosenModel()?.scales || [4]));

export function settings() {
  const format = $("format").value;
  return {
    model: $("model").value, scale: scale(), precision: $("precision").value, format,
    ...($("ensemble").checked ? { self_ensemble: "true" } : {}),
    ...(HAS_QUALITY.includes(format) && $("quality").value ? { quality: within($("quality")) } : {}),
    ...(HOLDS_ALPHA.includes(format) ? {} : { background: $("background").value }),
  };
}

function scale() {
  if ($("other-scale").value !== "") return within($("other-scale"));
  return Number(scaleButtons().find((one) => one.checked)?.value ?? largestScale());
}

// The number in a field, or the nearest that it may hold.
function within(field) {
  const value = Math.min(Math.max(Number(field.value), Number(field.min)), Number(field.max));
  return field.step === "1" ? Math.round(value) : value;
}

function judge(field) {
  const wrong = field.value !== "" && Number(field.value) !== within(field);
  field.setAttribute("aria-invalid", String(wrong));
  const note = $(`${field.id}-note`);
  note.hidden = !wrong;
  note.textContent = wrong ? `${field.min} to ${field.max}: ${within(field)} will be taken` : "";
}

function chooseScale(wanted) {
  const offered = chosenModel()?.scales || [];
  const taken = offered.includes(wanted) ? wanted : largestScale();
  for (const button of scaleButtons()) {
    button.closest("label").hidden = !offered.includes(Number(button.value));
    button.checked = $("other-scale").value === "" && Number(button.value) === taken;
  }
}

function describeModel() {
  const model = chosenModel();
  if (!model) return;
  const { parameters, attention } = model.checkpoints.at(-1);
  const contrast = { true: ", with contrast", false: "", null: "" }[String(attention.contrast)];
  const looks = attention.modules ? `${attention.modules}\u00a0×\u00a0${attention.kind.toUpperCase()}, k\u00a0=\u00a0${attention.k ?? "free"}, m\u00a0=\u00a0${attention.m ?? "none"}${contrast}` : "no attention";
  $("model-facts").textContent = `${(parameters / 1e6).toFixed(parameters < 1e6 ? 2 : 1)} M parameters · ${looks}`;
}

function takeModel() {
  describeModel();
  const checked = scaleButtons().find((one) => one.checked);
  $("other-scale").max = largestScale();
  $("other-scale-name").textContent = `Another scale, 1 to ${largestScale()}`;
  chooseScale(Number(checked?.value));
  judge($("other-scale"));
}

function takeFormat() {
  const format = $("format").value;
  $("quality-field").hidden = !HAS_QUALITY.includes(format);
  $("background-field").hidden = HOLDS_ALPHA.includes(format);
  $("format-more").hidden = $("quality-field").hidden && $("background-field").hidden;
}

function fill(select, values, text = (value) => value) {
  select.replaceChildren(...values.map((value) => new Option(text(value), value)));
}

// Ask the server what can be chosen.
export async function offer() {
  const [offered, limits] = await Promise.all([getJson("/v1/models"), getJson("/v1/limits")]);
  models = offered.models;
  fill($("model"), models.map((model) => model.name));
  fill($("precision"), offered.precisions);
  fill($("format"), ["auto", ...offered.formats], (value) => (value === "auto" ? "auto" : value.toUpperCase()));
  $("format").title = "auto: TIFF for TIFF, PNG for all else";
  takeModel();
  takeFormat();
  $("limits").textContent = `PNG, JPEG, WebP, AVIF, TIFF, BMP · up to ${Math.floor(limits.max_upload_bytes / 2 ** 20)} MB and ${Math.floor(limits.max_pixels / 1e6)} megapixels · nothing leaves this server`;
}

$("model").addEventListener("change", takeModel);
$("format").addEventListener("change", takeFormat);
$("other-scale").addEventListener("input", () => chooseScale(largestScale()));
for (const button of scaleButtons()) button.addEventListener("change", () => { $("other-scale").value = ""; judge($("other-scale")); });
for (const id of ["other-scale", "quality"]) {
  $(id).addEventListener("input", () => judge($(id)));
  $(id).addEventListener("change", () => {
    if ($(id).value !== "") $(id).value = within($(id));
    judge($(id));
  });
}
