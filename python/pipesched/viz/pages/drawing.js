// Draws one timeline into a canvas. What is wider than `kWide` pixels becomes a rectangle; of what
// is narrower, the colours that share a pixel are mixed by their time. So the work is one pass over
// what is visible, however many cells that is, and nothing is left out.

const kWide = 3;          // device pixels from which on a cell is drawn by itself
const kLane = 4;          // height of a lane of messages
const kStream = 6;        // height of a stream of a worker
const kRowGap = 3;
const kAxis = 24;         // height of the axis, at the bottom
const kLabels = 84;       // width of the names of workers
const kMemory = 18;       // height of a memory curve
const kDimmed = 0.2;      // what is left of colours off the critical path

const kUnits = [[1e12, 's'], [1e9, 'ms'], [1e6, 'us'], [1e3, 'ns'], [1, 'ps']];

/** The unit in which people read times of about this length. */
const unitFor = (ps) => kUnits.find(([size]) => ps >= size) ?? kUnits.at(-1);

/** An exact time as text: whole picoseconds in the unit, without trailing zeros. */
function decimal(ps, size) {
  const whole = Math.floor(ps / size), rest = Math.round(ps - whole * size);
  if (rest === 0)
    return String(whole);
  const digits = String(rest).padStart(Math.round(Math.log10(size)), '0');
  return `${whole}.${digits.replace(/0+$/, '')}`;
}

/** The smallest of 1, 2, 5 times a power of ten that is at least this. */
function niceStep(atLeast) {
  const power = 10 ** Math.floor(Math.log10(Math.max(atLeast, 1)));
  return power * ([1, 2, 5].find((factor) => factor * power >= atLeast) ?? 10);
}

/** The first index in [begin, end) with values[index] > least; values ascend. */
function firstAbove(values, least, begin, end) {
  while (begin < end) {
    const middle = (begin + end) >> 1;
    if (values[middle] > least)
      end = middle;
    else
      begin = middle + 1;
  }
  return begin;
}

const rgbOf = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
const hexOf = (rgb) => `#${rgb.map((v) => Math.round(v).toString(16).padStart(2, '0')).join('')}`;
const mix = (a, b, part) => a.map((v, i) => v * part + b[i] * (1 - part));
const isDark = ([r, g, b]) => 0.299 * r + 0.587 * g + 0.114 * b < 145; // as Palette.cpp

/** Colours by number, as text and as components. */
class Palette {
  constructor(colours) {
    this.text = colours;
    this.rgb = colours.map(rgbOf);
    this.onDark = this.rgb.map(isDark);
  }
}

/**
 * Spans of rows that a painter draws: row r has spans rows[r] to rows[r + 1] - 1 in the order of
 * their begins. `reach` ascends and is at least each end so far, so that a search finds the first
 * span that is visible.
 */
class Layer {
  constructor({rows, begin, end, held = null, item = null}) {
    Object.assign(this, {rows, begin, end, held, item});
    this.reach = end;
    if (!this.endsAscend())
      this.findReach();
  }

  endsAscend() {
    for (let row = 0; row + 1 < this.rows.length; ++row)
      for (let i = this.rows[row] + 1; i < this.rows[row + 1]; ++i)
        if (this.end[i] < this.end[i - 1])
          return false;
    return true;
  }

  findReach() {
    this.reach = new Float64Array(this.end.length);
    for (let row = 0; row + 1 < this.rows.length; ++row)
      for (let i = this.rows[row], most = 0; i < this.rows[row + 1]; ++i)
        this.reach[i] = most = Math.max(most, this.end[i]);
  }

  /** The spans of a row that meet [from, to): the first index, and the end of the row. */
  visible(row, from) {
    const end = this.rows[row + 1];
    return [firstAbove(this.reach, from, this.rows[row], end), end];
  }

  /** The span of a row at a time, or -1. */
  at(row, ps) {
    let [i, end] = this.visible(row, ps);
    for (; i < end && this.begin[i] <= ps; ++i)
      if (this.end[i] > ps)
        return i;
    return -1;
  }
}

/** Paints layers into bands of a canvas. */
class Painter {
  constructor(context, plot, view, ratio) {
    Object.assign(this, {context, plot, view, ratio});
    this.columns = Math.max(1, Math.round(plot.width * ratio));
    this.scale = plot.width / (view.to - view.from); // CSS pixels for a picosecond
    this.sums = new Float32Array(4 * this.columns);
    this.strip = new ImageData(this.columns, 1);
    this.bitmap = new OffscreenCanvas(this.columns, 1);
    this.bitmapContext = this.bitmap.getContext('2d');
    this.wide = [];
  }

  x(ps) {
    return this.plot.left + (ps - this.view.from) * this.scale;
  }

  /** Adds the colour of a narrow span to the pixels that it covers. */
  addNarrow(x0, x1, rgb, weight) {
    const {sums, columns} = this;
    for (let column = Math.max(0, Math.floor(x0)); column < x1 && column < columns; ++column) {
      const part = weight * (Math.min(x1, column + 1) - Math.max(x0, column));
      const at = 4 * column;
      sums[at] += part * rgb[0];
      sums[at + 1] += part * rgb[1];
      sums[at + 2] += part * rgb[2];
      sums[at + 3] += part;
    }
  }

  /** Draws the mixed colours of a band. */
  drawNarrow(top, height) {
    const {sums, strip} = this;
    const pixels = strip.data;
    for (let at = 0; at < sums.length; at += 4) {
      const part = sums[at + 3];
      const whole = part > 1 ? part : 1;
      pixels[at] = part && sums[at] / part;
      pixels[at + 1] = part && sums[at + 1] / part;
      pixels[at + 2] = part && sums[at + 2] / part;
      pixels[at + 3] = 255 * part / whole;
    }
    this.bitmapContext.putImageData(strip, 0, 0);
    this.context.imageSmoothingEnabled = false;
    this.context.drawImage(this.bitmap, 0, 0, this.columns, 1, this.plot.left, top,
                           this.plot.width, height);
    sums.fill(0);
  }

  /**
   * Draws the spans of a row into [top, top + height). `colours` has `first`, numbers of colours by
   * span, and perhaps `second`, those of the second cells of pairs or -1. Calls `label` for each
   * wide one. Returns how many were visible.
   */
  band(layer, row, colours, palette, top, height, label = null) {
    const {view, ratio} = this;
    const scale = this.scale * ratio;
    const {begin, end} = layer;
    const {first: own, second} = colours;
    let [i, stop] = layer.visible(row, view.from);
    const begun = i;
    let hasNarrow = false;
    this.wide.length = 0;
    for (; i < stop && begin[i] < view.to; ++i) {
      const x0 = (begin[i] - view.from) * scale, x1 = (end[i] - view.from) * scale;
      if (x1 - x0 >= kWide) {
        this.wide.push(i);
        continue;
      }
      hasNarrow = true;
      const other = second ? second[i] : -1;
      this.addNarrow(x0, x1, palette.rgb[own[i]], other < 0 ? 1 : 0.5);
      if (other >= 0)
        this.addNarrow(x0, x1, palette.rgb[other], 0.5);
    }
    if (hasNarrow)
      this.drawNarrow(top, height);
    for (const index of this.wide)
      this.drawWide(layer, index, colours, palette, top, height, label);
    return i - begun;
  }

  drawWide(layer, i, colours, palette, top, height, label) {
    const {context, plot} = this;
    const x0 = Math.max(this.x(layer.begin[i]), plot.left - 2);
    const x1 = Math.min(this.x(layer.end[i]), plot.left + plot.width + 2);
    const width = Math.max(x1 - x0 - 0.8, 0.5);
    const colour = colours.first[i];
    const other = colours.second ? colours.second[i] : -1;
    const fill = (colour, from, size, y, rows) => {
      context.fillStyle = palette.text[colour];
      context.fillRect(from, y, size, rows);
    };
    if (layer.held) { // faint until its data has arrived
      const held = Math.min(Math.max(this.x(layer.held[i]), x0), x1);
      fill(colour, x0, held - x0, top, height);
      context.globalAlpha = 0.45;
      fill(colour, held, x1 - held, top, height);
      context.globalAlpha = 1;
    } else if (other >= 0) {
      fill(colour, x0, width, top, height / 2);
      fill(other, x0, width, top + height / 2, height / 2);
      context.strokeStyle = '#000';
      context.strokeRect(x0 + 0.5, top + 0.5, width - 1, height - 1);
    } else {
      fill(colour, x0, width, top, height);
    }
    if (label)
      label(i, x0, width, top, height);
  }

  /** Draws a step function as an area: of several values in a pixel the largest. */
  steps(at, held, begin, end, most, top, height, colours) {
    const {context, view, plot, columns} = this;
    const width = plot.width / columns;
    let i = firstAbove(at, view.from, begin, end);
    let value = i > begin ? held[i - 1] : 0;
    context.fillStyle = colours.area;
    for (let column = 0, from = 0, drawn = -1; column <= columns; ++column) {
      const until = view.from + (column + 1) * (view.to - view.from) / columns;
      let largest = value;
      for (; i < end && at[i] < until; ++i)
        largest = Math.max(largest, value = held[i]);
      if (drawn < 0)
        drawn = largest;
      if (largest === drawn && column < columns)
        continue;
      const tall = height * drawn / most;
      context.fillRect(plot.left + from * width, top + height - tall,
                       (column - from) * width, tall);
      [from, drawn] = [column, largest];
    }
  }
}
