// Every visible text against what it stands on: those below 4.5 (3 for large text), in words.
() => {
  const pixel = Object.assign(document.createElement("canvas"), { width: 1, height: 1 }).getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      pixel.clearRect(0, 0, 1, 1);
      pixel.fillStyle = colour;
      pixel.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = ([r, g, b, a], [x, y, z]) => [r * a + x * (1 - a), g * a + y * (1 - a), b * a + z * (1 - a), 1];
  const ground = (element) => {
    const layers = [];
    for (let one = element; one; one = one.parentElement) {
      const colour = rgba(getComputedStyle(one).backgroundColor);
      layers.push(colour);
      if (colour[3] === 1) break;
    }
    return layers.reverse().reduce((below, colour) => over(colour, below), rgba("white"));
  };
  const light = (channel) => (channel / 255 <= 0.04045 ? channel / 255 / 12.92 : ((channel / 255 + 0.055) / 1.055) ** 2.4);
  const luminance = ([r, g, b]) => 0.2126 * light(r) + 0.7152 * light(g) + 0.0722 * light(b);
  const ratio = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const opacity = (element) => (element ? Number(getComputedStyle(element).opacity) * opacity(element.parentElement) : 1);
  const texts = (element) => [...element.childNodes].filter((node) => node.nodeType === 3 && node.data.trim());
  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true, opacityProperty: true }) && !element.closest(".unseen, .skip");
  const found = [];
  let seen = 0;
  for (const element of document.querySelectorAll("body *, input, select, textarea")) {
    const isField = element.matches("input:not([type=checkbox], [type=radio]), select, textarea");
    if (!isField && !texts(element).length) continue;
    // What cannot be used may be pale, and what is drawn in a picture is told beside it.
    if (!isSeen(element) || element.closest("option, :disabled, svg, canvas, script, noscript")) continue;
    seen += 1;
    const style = getComputedStyle(element);
    const [r, g, b, a] = rgba(style.color);
    const behind = ground(element);
    const size = parseFloat(style.fontSize);
    const isLarge = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const value = ratio(over([r, g, b, a * opacity(element)], behind), behind);
    if (value < (isLarge ? 3 : 4.5)) {
      const text = (isField ? element.value || element.name : texts(element)[0].data).trim().slice(0, 40);
      found.push(`${element.tagName.toLowerCase()}.${element.className}: “${text}” has ${value.toFixed(2)}`);
    }
  }
  return { seen, found };
}
