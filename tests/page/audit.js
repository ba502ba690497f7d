// Finds what keeps people from using a page, as a list of sentences. It is evaluated in the
// page by the test.
(() => {
  const found = [];
  const say = (what, element) => found.push(`${what}: ${element.outerHTML.slice(0, 120)}`);

  // Contrast, by WCAG 2.2, 1.4.3: 4.5 to 1, and 3 to 1 for large text.
  const canvas = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return canvas.getImageData(0, 0, 1, 1).data;
  };
  const luminance = ([r, g, b]) => {
    const linear = [r, g, b].map((c) => (c /= 255, c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const background = (element) => {
    for (let e = element; e; e = e.parentElement) {
      const color = rgba(getComputedStyle(e).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255];
  };
  let texts = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !element.checkVisibility()) continue;
    texts++;
    const style = getComputedStyle(element);
    const [a, b] = [luminance(rgba(style.color)), luminance(background(element))].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    const contrast = (a + 0.05) / (b + 0.05);
    if (contrast < (large ? 3 : 4.5)) say(`a contrast of ${contrast.toFixed(2)}`, element);
  }
  if (texts === 0) found.push("there is no text");

  // Landmarks and headings.
  const one = (selector) => {
    const n = document.querySelectorAll(selector).length;
    if (n !== 1) found.push(`${n} of ${selector}, want 1`);
  };
  ["main", "h1", "body > header", "body > footer", "title"].forEach(one);
  if (!document.documentElement.lang) found.push("no language");
  document.querySelectorAll("nav, aside, [role=region], [role=search]").forEach((e) => {
    if (!e.getAttribute("aria-label")) say("a landmark without a name", e);
  });
  let level = 0;
  document.querySelectorAll("h1, h2, h3, h4").forEach((e) => {
    const is = Number(e.tagName[1]);
    if (is > level + 1) say("a heading that leaves out a level", e);
    level = is;
  });

  // Names of what can be used, targets of at least 24 pixels (2.5.8) unless they are in a text.
  document.querySelectorAll("input:not([type=hidden]), select, textarea").forEach((e) => {
    if (!e.labels.length) say("a field without a label", e);
  });
  document.querySelectorAll("a, button, progress").forEach((e) => {
    if (!(e.textContent.trim() || e.getAttribute("aria-label"))) say("no name", e);
  });
  document.querySelectorAll("button, input:not([type=hidden]), select, nav a").forEach((e) => {
    if (e.getBoundingClientRect().height < 24) say("a small target", e);
  });
  document.querySelectorAll("th").forEach((e) => { if (!e.scope) say("a header cell without a scope", e); });
  document.querySelectorAll("img:not([alt])").forEach((e) => say("an image without a text", e));
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) found.push("an id that is used twice");

  // Nothing is cut off at the side, but for tables, which scroll by themselves.
  if (document.documentElement.scrollWidth > innerWidth) found.push(`the page is ${document.documentElement.scrollWidth} wide, the window ${innerWidth}`);
  if (document.scripts.length) found.push("there is a script");
  return found;
})()
