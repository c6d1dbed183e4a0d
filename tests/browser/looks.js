/* What cannot be read, and what is cut off, in an element. Both return a list of sentences, empty if all is well. */
({
  unreadable(root) {
    /* Also of what color-mix() makes: color(srgb 0.2 0.4 0.6 / 0.5). */
    const numbers = text => {
      const found = text.replace("color(srgb", "").match(/[\d.]+/g).map(Number);
      return text.startsWith("color(srgb") ? found.map((each, i) => i < 3 ? 255 * each : each) : found;
    };
    const over = (front, back) => front.slice(0, 3).map((each, i) => each * front[3] + back[i] * (1 - front[3]));
    const rgba = text => (found => found.length > 3 ? found : [...found, 1])(numbers(text));
    const light = color => color
      .map(each => each / 255)
      .map(each => each <= 0.04045 ? each / 12.92 : ((each + 0.055) / 1.055) ** 2.4)
      .reduce((sum, each, i) => sum + each * [0.2126, 0.7152, 0.0722][i], 0);
    const behind = element => {
      const layers = [];
      for (let each = element; each; each = each.parentElement) layers.push(rgba(getComputedStyle(each).backgroundColor));
      return layers.reverse().reduce((back, front) => over(front, back), [255, 255, 255]);
    };
    const found = [];
    const texts = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (texts.nextNode()) {
      const text = texts.currentNode.data.trim(), element = texts.currentNode.parentElement;
      if (!text || !element.checkVisibility({visibilityProperty: true}) || element.closest("style, :disabled")) continue;
      const style = getComputedStyle(element);
      const back = behind(element);
      const drawn = element.closest("svg") ? style.fill : style.color;
      if (!/^(rgb|color\(srgb)/.test(drawn)) continue;
      const front = over(rgba(drawn), back);
      const [dark, bright] = [light(front), light(back)].sort((a, b) => a - b);
      const contrast = (bright + 0.05) / (dark + 0.05);
      const size = parseFloat(style.fontSize), large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
      if (contrast < (large ? 3 : 4.5))
        found.push(`${JSON.stringify(text.slice(0, 60))}: ${drawn} on rgb(${back.map(Math.round)}) is ${contrast.toFixed(2)}`);
    }
    return [...new Set(found)];
  },

  cutOff(root) {
    const found = [], edge = root.getBoundingClientRect();
    const named = element => `${element.tagName.toLowerCase()}.${element.classList.value} ${JSON.stringify(element.textContent.trim().slice(0, 40))}`;
    for (const element of root.querySelectorAll("*")) {
      if (!element.checkVisibility() || element.closest("svg") || element.tagName == "OPTION") continue;
      const box = element.getBoundingClientRect();
      if (element.closest(".pairlab-table-rows")) continue; // a table may be wider than its place, and is scrolled
      if (box.width && (box.right > edge.right + 1 || box.left < edge.left - 1))
        found.push(`${named(element)} reaches from ${box.left} to ${box.right}, beyond ${edge.left} to ${edge.right}`);
      const clips = getComputedStyle(element).overflowX != "visible";
      if (clips && element.scrollWidth > element.clientWidth + 1 && !element.matches("input, textarea, select[multiple]"))
        found.push(`${named(element)} is ${element.clientWidth} wide, and what is in it ${element.scrollWidth}`);
    }
    for (let each = root.parentElement; each; each = each.parentElement)
      if (["auto", "scroll"].includes(getComputedStyle(each).overflowX) && each.scrollWidth > each.clientWidth + 1)
        found.push(`${named(each).slice(0, 60)} scrolls sideways: ${each.scrollWidth} in ${each.clientWidth}`);
    return found;
  },
})
