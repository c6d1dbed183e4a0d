// Notes what the panel shows, however briefly: a page that waits for its turn may be asked when that is over.
panel => {
  const seen = window.pairlabSeen = {phases: [], figures: [], drawn: 0, stoppable: false};
  const note = (list, selector) => {
    const words = panel.querySelector(selector)?.textContent;
    if (words && words !== list.at(-1)) list.push(words);
  };
  new MutationObserver(() => {
    note(seen.phases, ".pairlab-phase-name");
    note(seen.figures, ".pairlab-numbers");
    seen.drawn = Math.max(seen.drawn, panel.querySelectorAll(".pairlab-live svg path").length);
    seen.stoppable ||= !panel.querySelector("button.pairlab-stop").classList.contains("pairlab-inactive");
  }).observe(panel, {subtree: true, childList: true, characterData: true, attributes: true});
}
