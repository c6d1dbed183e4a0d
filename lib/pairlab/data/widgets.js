// What screen readers are told of pairlab's widgets, which ipywidgets does not tell them: which buttons are pressed or have
// unfolded something, which fields are wrong, and that a row of buttons is one of tabs. And a run is brought into view.

const set = (element, name, value) => {
  if (element && element.getAttribute(name) !== String(value)) element.setAttribute(name, value);
};

function tell(root) {
  for (const button of root.querySelectorAll("button.widget-toggle-button")) {
    const state = button.closest(".pairlab-unfolds") ? "aria-expanded" : "aria-pressed";
    set(button, state, button.classList.contains("mod-active"));
  }
  for (const tabs of root.querySelectorAll(".pairlab-tabs .widget-toggle-buttons")) {
    const buttons = [...tabs.querySelectorAll("button")];
    set(buttons[0]?.parentElement, "role", "tablist");
    for (const button of buttons) {
      set(button, "role", "tab");
      set(button, "aria-selected", button.classList.contains("mod-active"));
    }
  }
  for (const field of root.querySelectorAll(".pairlab-field"))
    set(field.querySelector("input, select"), "aria-invalid", field.classList.contains("pairlab-invalid"));
}

// Where there is no room below Run for the live view, its row is scrolled to the top.
const ROOM_PX = 500;

function show(event) {
  const run = event.target.closest(".pairlab-run:not(.pairlab-inactive)");
  if (run && innerHeight - run.getBoundingClientRect().bottom < ROOM_PX)
    run.closest(".pairlab-runs").scrollIntoView({ block: "start" });
}

function render({ el }) {
  el.style.display = "none";
  const observer = new MutationObserver(() => tell(observer.root));
  const begin = () => {
    observer.root = el.closest(".pairlab");
    if (!observer.root) return;
    observer.root.addEventListener("click", show);
    observer.observe(observer.root, { subtree: true, childList: true, attributes: true, attributeFilter: ["class"] });
    tell(observer.root);
  };
  requestAnimationFrame(begin); // the element has its place by then
  return () => {
    observer.disconnect();
    observer.root?.removeEventListener("click", show);
  };
}

export default { render };
