// The page: the queue, the stage, and what people do with them.
import { onTokenNeeded } from "./api.js";
import { Explorer } from "./explorer.js";
import { Queue } from "./queue.js";
import { offer, settings } from "./settings.js";
import { Viewer } from "./viewer.js";

const $ = (id) => document.getElementById(id);
const queue = new Queue();
const viewer = new Viewer({ box: $("viewer"), canvas: $("canvas"), divider: $("divider"), zoom: $("zoom") });
const explorer = new Explorer(settings, complain);
const rows = new Map();
let selected = null;

// Ways in

function add(files) {
  const pictures = [...files].filter((file) => file.size > 0);
  if (!pictures.length) return;
  const added = queue.add(pictures, settings());
  select(added[0]);
}
for (const id of ["add", "choose"]) $(id).addEventListener("click", () => $("files").click());
$("files").addEventListener("change", () => { add($("files").files); $("files").value = ""; });
$("sample").addEventListener("click", async () => {
  const blob = await (await fetch("/page/sample.png")).blob();
  add([new File([blob], "palace.png", { type: "image/png" })]);
  toast("Photo: General Staff Building, from CID22, CC BY-SA 4.0");
});
addEventListener("paste", (event) => add(event.clipboardData?.files || []));
let depth = 0;
addEventListener("dragenter", (event) => { event.preventDefault(); depth += 1; document.body.classList.add("dragging"); });
addEventListener("dragleave", () => { depth -= 1; if (depth <= 0) stopDragging(); });
addEventListener("dragover", (event) => event.preventDefault());
addEventListener("drop", (event) => { event.preventDefault(); stopDragging(); add(event.dataTransfer.files); });
function stopDragging() { depth = 0; document.body.classList.remove("dragging"); }

// The queue

queue.addEventListener("added", async ({ detail: item }) => {
  const row = $("item").content.firstElementChild.cloneNode(true);
  rows.set(item, row);
  row.querySelector(".item-name").textContent = item.name;
  row.querySelector(".item-name").title = item.name;
  row.querySelector(".item-open").addEventListener("click", () => select(item));
  row.querySelector(".item-save").addEventListener("click", () => queue.save(item).catch(complain));
  row.querySelector(".item-save").setAttribute("aria-label", `Download ${item.name}`);
  row.querySelector(".item-remove").addEventListener("click", () => (item.isBusy ? queue.cancel(item) : queue.remove(item)));
  $("queue").append(row);
  refresh(item);
  const thumb = await item.thumbnail();
  row.querySelector(".thumb").replaceChildren(thumb || (item.name.split(".").pop() || "?").slice(0, 4).toUpperCase());
});
queue.addEventListener("changed", ({ detail: item }) => refresh(item));
queue.addEventListener("removed", ({ detail: item }) => {
  rows.get(item).remove();
  rows.delete(item);
  if (selected === item) select(queue.items.at(-1) || null);
  refreshCounts();
});
$("save-all").addEventListener("click", async () => {
  for (const item of queue.items.filter((one) => one.state === "done")) await queue.save(item).catch(complain);
});

function words(item) {
  const { job } = item;
  switch (item.state) {
    case "new": return "waiting for its turn";
    case "sending": return item.step || "sending";
    case "queued": return job.position ? `${job.position} before it` : "next";
    case "running": return `${Math.round(100 * job.progress.fraction)} % · ${job.progress.step}`;
    case "done": return `${job.output.width} × ${job.output.height} in ${job.seconds.toFixed(1)} s`;
    case "failed": return item.error?.title || "failed";
    default: return "cancelled";
  }
}

function refresh(item) {
  const row = rows.get(item);
  if (!row) return;
  const was = row.dataset.state;
  row.dataset.state = item.state === "new" ? "queued" : item.state;
  row.querySelector(".item-state").textContent = words(item);
  row.querySelector("progress").value = item.state === "running" ? item.job.progress.fraction : 0;
  row.querySelector("progress").setAttribute("aria-label", `Progress of ${item.name}`);
  row.querySelector(".item-save").hidden = item.state !== "done";
  row.querySelector(".item-remove").setAttribute("aria-label", `${item.isBusy ? "Cancel" : "Remove"} ${item.name}`);
  if (was !== row.dataset.state && item.state === "done" && item !== selected) toast(`${item.name} is done`);
  if (item === selected) showItem();
  refreshCounts();
}

function refreshCounts() {
  $("no-pictures").hidden = queue.items.length > 0;
  $("save-all").hidden = queue.items.filter((item) => item.state === "done").length < 2;
}

// The stage

function select(item) {
  selected = item;
  for (const [other, row] of rows) row.setAttribute("aria-current", String(other === item));
  $("empty").hidden = Boolean(item);
  $("work").hidden = !item;
  viewer.clear();
  viewer.haunt(null);
  if (item) {
    $("title").textContent = item.name;
    showItem();
    if (!$("panel-attention").hidden) explorer.show(item).catch(complain);
  }
}

async function showItem() {
  const item = selected;
  const done = item.state === "done";
  $("waiting").hidden = !item.isBusy;
  $("failed").hidden = done || item.isBusy;
  $("save").disabled = !done;
  $("badge-before").hidden = $("badge-after").hidden = !done;
  $("waiting-step").textContent = words(item);
  $("waiting-bar").value = item.state === "running" ? item.job.progress.fraction : 0;
  $("failed-title").textContent = words(item);
  $("failed-detail").textContent = item.error?.message || "";
  $("facts").textContent = $("notes").textContent = "";
  if (!done) {
    viewer.clear();
    const input = await item.input();
    if (item === selected && item.state !== "done") viewer.haunt(input);
    return;
  }
  const { input, output, facts } = item.job;
  $("facts").textContent = `${input.width} × ${input.height} → ${output.width} × ${output.height} · ${facts.checkpoint} · ${facts.precision}${facts.mode === "streaming" ? " · streamed" : ""}`;
  $("notes").textContent = facts.notes.join("; ");
  $("badge-after").textContent = `${item.job.model} ×${item.settings.scale}`;
  try {
    const [before, after] = await item.compared();
    if (item === selected && item.state === "done") viewer.show(before, after);
  } catch (error) {
    complain(error);
  }
}
$("save").addEventListener("click", () => queue.save(selected).catch(complain));
for (const id of ["again", "failed-again"]) $(id).addEventListener("click", () => queue.again(selected, settings()));
$("waiting-cancel").addEventListener("click", () => queue.cancel(selected));
$("zoom-in").addEventListener("click", () => viewer.zoomTo(viewer.scale * 1.5));
$("zoom-out").addEventListener("click", () => viewer.zoomTo(viewer.scale / 1.5));
$("zoom-fit").addEventListener("click", () => viewer.fit());
$("zoom-one").addEventListener("click", () => viewer.zoomTo(1));

// Tabs

const tabs = ["compare", "attention"];
function open(name) {
  for (const tab of tabs) {
    const isOpen = tab === name;
    $(`tab-${tab}`).setAttribute("aria-selected", String(isOpen));
    $(`tab-${tab}`).tabIndex = isOpen ? 0 : -1;
    $(`panel-${tab}`).hidden = !isOpen;
  }
  if (name === "attention" && selected) explorer.show(selected).catch(complain);
}
for (const tab of tabs) {
  $(`tab-${tab}`).addEventListener("click", () => open(tab));
  $(`tab-${tab}`).addEventListener("keydown", (event) => {
    if (!["ArrowLeft", "ArrowRight"].includes(event.key)) return;
    const other = tabs[(tabs.indexOf(tab) + 1) % 2];
    open(other);
    $(`tab-${other}`).focus();
  });
}

// Messages

function toast(text, bad = false) {
  const note = document.createElement("div");
  note.className = bad ? "toast bad" : "toast";
  note.textContent = text;
  $("toasts").append(note);
  setTimeout(() => note.remove(), bad ? 9000 : 4500);
}

function complain(error) {
  toast(error.title ? `${error.title}: ${error.message}` : error.message, true);
}

onTokenNeeded(() => new Promise((resolve) => {
  const dialog = $("token-dialog");
  dialog.showModal();
  dialog.addEventListener("close", () => {
    const given = $("token").value.trim();
    $("token").value = "";
    try { sessionStorage.setItem("token", given); } catch { /* asked again next time */ }
    resolve(Boolean(given));
  }, { once: true });
}));

offer().catch(complain);
