// The page: panels of timelines that share one view, and what people do with them.

/** Colours that follow the page's style sheet, light or dark. */
class Theme {
  constructor() {
    const style = getComputedStyle(document.documentElement);
    const get = (name) => style.getPropertyValue(`--${name}`).trim();
    for (const name of ['ink', 'dim', 'ground', 'line', 'idle', 'critical', 'memory', 'persistent'])
      this[name] = get(name);
    this.causes = new Palette(kIdleNames.map((_, cause) => get(`cause-${cause}`)));
    this.parts = new Palette([0, 1, 2, 3].map((part) => get(`part-${part}`)));
    this.palettes = new Map();
  }

  /** The colours of phases, then the same ones dimmed. */
  palette({facts}) {
    if (!this.palettes.has(facts)) {
      const plain = facts.phases.flatMap((phase) => phase.colours);
      const ground = rgbOf(this.idle);
      const dimmed = plain.map((colour) => hexOf(mix(rgbOf(colour), ground, kDimmed)));
      this.palettes.set(facts, new Palette([...plain, ...dimmed]));
    }
    return this.palettes.get(facts);
  }
}

const make = (tag, attributes = {}, ...children) => {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    element.setAttribute(name, value);
  element.append(...children);
  return element;
};

/** A canvas with one timeline, and its place on the page. */
class Figure {
  constructor(panel, facts, data) {
    Object.assign(this, {panel, facts, data, timeline: null, selected: null});
    this.canvas = make('canvas', {
      tabindex: 0, role: 'application',
      'aria-label': `Timeline of ${facts.title}: ${facts.subtitle}. ` +
          'Arrow keys go from cell to cell.',
    });
    this.space = make('div');
    this.plot = make('div', {class: 'plot'}, this.canvas, this.space);
    const cells = facts.cells.toLocaleString('en');
    this.state = make('p', {class: 'state'}, `reading ${cells} cells …`);
    const name = make('strong', {}, facts.title);
    this.element = make('figure', {}, make('figcaption', {}, name, ` ${facts.subtitle}`),
                        this.state, this.plot);
    this.context = this.canvas.getContext('2d');
    this.plot.addEventListener('scroll', () => this.panel.redraw());
  }

  async load() {
    this.timeline = new Timeline(await readTimeline(this.facts, this.data.textContent));
    this.data.remove();
    this.state.remove();
  }

  /** The width of the timeline itself. */
  get width() {
    return Math.max(50, this.plot.clientWidth - kLabels - 8);
  }

  /** Sizes the canvas to what is visible; the space below it makes the rest scroll. */
  resize(limit) {
    const {height} = this.timeline.layout(this.panel.show);
    const visible = Math.min(height, limit);
    const ratio = devicePixelRatio || 1;
    this.plot.style.maxHeight = `${visible + kAxis}px`;
    this.space.style.height = `${height - visible}px`;
    const [wide, tall] = [this.plot.clientWidth, visible + kAxis];
    if (this.canvas.width !== Math.round(wide * ratio) ||
        this.canvas.height !== Math.round(tall * ratio)) {
      this.canvas.width = Math.round(wide * ratio);
      this.canvas.height = Math.round(tall * ratio);
      this.canvas.style.width = `${wide}px`;
      this.canvas.style.height = `${tall}px`;
    }
    this.height = visible;
  }

  draw(theme, limit) {
    if (!this.timeline)
      return;
    this.resize(limit);
    const {top, bottom} = this.plot.getBoundingClientRect();
    if (!this.panel.page.isPrinting && (bottom < -100 || top > innerHeight + 100))
      return; // scrolling draws it
    const ratio = devicePixelRatio || 1;
    this.context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const plot = {left: kLabels, width: this.width, height: this.height,
                  scrolled: this.plot.scrollTop};
    this.timeline.draw(this.context, plot, this.panel.view, this.panel.show, theme, ratio);
    if (this.selected !== null)
      this.drawSelected(theme);
  }

  drawSelected(theme) {
    const {left, top, width, height} = this.boxOf(this.selected);
    this.context.strokeStyle = theme.ink;
    this.context.lineWidth = 2;
    this.context.strokeRect(left, top, Math.max(width, 2), height);
    this.context.lineWidth = 1;
  }

  /** The box of a cell on the canvas, without what is off the timeline. */
  boxOf(cell) {
    const {items} = this.timeline;
    const layout = this.timeline.layout(this.panel.show);
    const from = Math.max(this.x(items.start[cell]), kLabels);
    const to = Math.min(this.x(items.release[cell]), kLabels + this.width);
    return {left: from, width: to - from, height: layout.row,
            top: items.worker[cell] * layout.pitch - this.plot.scrollTop};
  }

  x(ps) {
    const {from, to} = this.panel.view;
    return kLabels + (ps - from) / (to - from) * this.width;
  }

  /** The time at a pointer, in ps. */
  timeAt(event) {
    const {from, to} = this.panel.view;
    const x = event.clientX - this.canvas.getBoundingClientRect().left - kLabels;
    return from + x / this.width * (to - from);
  }

  hit(event) {
    if (!this.timeline)
      return null;
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [event.clientX - box.left, event.clientY - box.top];
    if (x < kLabels || x > kLabels + this.width || y > this.height)
      return null;
    return this.timeline.hit(this.timeAt(event), y + this.plot.scrollTop, this.panel.show);
  }

  /** What the tip says about a hit; where cells share a pixel, that too. */
  describe(hit) {
    const about = this.timeline.describe(hit);
    const {items} = this.timeline;
    if (hit.kind === 'item' && hit.index < items.cells) {
      const {from, to} = this.panel.view;
      const pixel = (to - from) / this.width;
      const count = this.timeline.count(hit.row, items.start[hit.index],
                                        items.start[hit.index] + pixel);
      if (count > 1)
        about.lines.push(`${count} cells begin in this pixel: zoom in`);
    }
    return about;
  }

  select(cell) {
    const {items} = this.timeline;
    this.selected = cell;
    const layout = this.timeline.layout(this.panel.show);
    const top = items.worker[cell] * layout.pitch;
    if (top < this.plot.scrollTop || top + layout.pitch > this.plot.scrollTop + this.height)
      this.plot.scrollTop = top - this.height / 2;
    this.panel.reveal(items.start[cell], items.release[cell]);
    this.panel.drawNow();
    const box = this.canvas.getBoundingClientRect();
    const at = this.boxOf(cell);
    this.panel.tip.show(this.describe({kind: 'item', index: cell, row: items.worker[cell]}),
                        box.left + at.left + at.width / 2, box.top + at.top + at.height);
  }

  /** The cell that the selected one waited for, through messages. */
  cause(cell) {
    const {awaited, cells} = this.timeline.items;
    let before = awaited[cell];
    while (before >= cells)
      before = awaited[before];
    return before;
  }

  /** The cell of another row that is closest to this one in time. */
  neighbour(cell, step) {
    const {items, cells} = this.timeline;
    const row = items.worker[cell] + step;
    if (row < 0 || row >= this.timeline.numRows || items.rows[row] === items.rows[row + 1])
      return cell;
    const found = firstAbove(cells.end, items.start[cell], items.rows[row], items.rows[row + 1]);
    return Math.min(found, items.rows[row + 1] - 1);
  }

  /** Goes from the selected cell by a key; returns whether the key means something. */
  step(key) {
    const {items} = this.timeline;
    const {from, to} = this.panel.view;
    if (this.selected === null) {
      const at = firstAbove(items.release, from, items.rows[0], items.rows[1]);
      this.selected = Math.min(at, Math.max(items.cells - 1, 0));
    }
    const cell = this.selected;
    const last = items.cells - 1;
    switch (key) {
    case 'ArrowRight': return this.select(Math.min(cell + 1, last));
    case 'ArrowLeft': return this.select(Math.max(cell - 1, 0));
    case 'ArrowUp': return this.select(this.neighbour(cell, -1));
    case 'ArrowDown': return this.select(this.neighbour(cell, 1));
    default: // w
      return this.select(Math.max(this.cause(cell), 0));
    }
  }
}

/** The text under the pointer. */
class Tip {
  constructor() {
    this.element = make('div', {class: 'tip', role: 'status', 'aria-live': 'polite', hidden: ''});
    document.body.append(this.element);
  }

  show({title, lines}, x, y) {
    this.element.replaceChildren(make('strong', {}, title),
                                 ...lines.map((line) => make('div', {}, line)));
    this.element.hidden = false;
    const {width, height} = this.element.getBoundingClientRect();
    const left = Math.max(4, Math.min(x + 14, innerWidth - width - 8));
    const top = y + 18 + height > innerHeight ? y - height - 10 : y + 18;
    this.element.style.left = `${left}px`;
    this.element.style.top = `${Math.max(4, top)}px`;
  }

  hide() {
    this.element.hidden = true;
  }
}

const kSwitches = [
  ['critical', 'critical path', 'C'],
  ['idle', 'idle causes', 'I'],
  ['messages', 'messages', 'M'],
  ['memory', 'memory', 'Y'],
  ['streams', 'streams', 'S'],
];
const kMostMessages = 200_000; // up to which messages are drawn from the start
const kHelp = 'Drag to pan, Ctrl and wheel to zoom, double click to zoom in. ' +
    'Keys: C I M Y switch critical path, idle causes, messages and memory, S streams of experts, ' +
    '+ − 0 zoom and fit; on a timeline also A D pan, arrows go from cell to cell, ' +
    'W goes to what a cell waited for, Esc closes.';

/** Timelines on one scale of time, with their buttons and legend. */
class Panel {
  constructor(element, page) {
    Object.assign(this, {element, page, tip: page.tip});
    const scripts = [...element.querySelectorAll('script.facts')];
    this.figures = scripts.map(
        (script) => new Figure(this, JSON.parse(script.textContent), script.nextElementSibling));
    this.longest = Math.max(1, ...this.figures.map(({facts}) => facts.makespan_ps));
    this.view = {from: 0, to: this.longest};
    this.transfers = Math.max(...this.figures.map(({facts}) => facts.transfers));
    this.hasStreams = this.figures.some(({facts}) => facts.streams);
    this.show = {critical: false, idle: false, memory: false, mostHeld: 0,
                 streams: this.hasStreams || undefined, messages: this.transfers <= kMostMessages};
    this.legend = make('div', {class: 'legend'});
    element.prepend(this.toolbar(), this.legend);
    for (const figure of this.figures) {
      element.append(figure.element);
      this.listen(figure);
    }
    this.describeColours();
  }

  toolbar() {
    const button = (text, label, act) => {
      const made = make('button', {type: 'button', title: label, 'aria-label': label}, text);
      made.addEventListener('click', act);
      return made;
    };
    this.boxes = {};
    const known = kSwitches.filter(([name]) => this.show[name] !== undefined);
    const switches = known.map(([name, label, key]) => {
      const box = this.boxes[name] = make('input', {type: 'checkbox', name});
      box.checked = this.show[name];
      box.addEventListener('change', () => this.toggle(name, box.checked));
      return make('label', {title: `key ${key}`}, box, ` ${label} `, make('kbd', {}, key));
    });
    return make('div', {class: 'toolbar'},
                button('Fit', 'Fit to width (key 0)', () => this.fit()),
                button('+', 'Zoom in (key +)', () => this.zoom(2)),
                button('−', 'Zoom out (key −)', () => this.zoom(0.5)), ...switches,
                make('span', {class: 'help', title: kHelp}, kHelp));
  }

  /** The legend: phases in use, and what the switches add. */
  describeColours() {
    const known = new Map();
    for (const {facts} of this.figures)
      for (const phase of facts.phases.filter((p) => p.in_use))
        if ((known.get(phase.letter)?.colours.length ?? 0) < phase.colours.length)
          known.set(phase.letter, phase);
    const swatch = (colour, kind = '') => {
      const made = make('i', {class: `swatch ${kind}`});
      made.style.background = colour;
      return made;
    };
    const item = (text, ...swatches) => make('span', {}, ...swatches, ` ${text}`);
    const entries = [...known.values()].map(
        (phase) => item(`${phase.letter} ${phase.name}`, ...phase.colours.map((c) => swatch(c))));
    for (const shades of new Set(this.figures.map(({facts}) => facts.shades)))
      if (shades)
        entries.push(item(shades));
    if (this.show.idle)
      kIdleNames.forEach((name, cause) => entries.push(
          item(`idle: ${name}`, swatch(`var(--cause-${cause})`, 'thin'))));
    if (this.show.critical)
      entries.push(item('critical path', swatch('var(--critical)', 'thin')));
    if (this.show.streams && this.hasStreams) {
      const {names} = this.figures.find(({facts}) => facts.streams).facts.streams;
      entries.push(item('below a row its streams, compute and exchange:'));
      names.forEach((name, part) => entries.push(
          item(name, swatch(`var(--part-${part})`, 'thin'))));
    }
    if (this.show.messages)
      entries.push(item(this.laneText()));
    else if (this.transfers > kMostMessages)
      entries.push(item(`${this.transfers.toLocaleString('en')} messages are drawn when you ` +
                        'switch them on'));
    if (this.show.memory)
      entries.push(item(`activations, up to ${this.memoryText()}`, swatch('var(--memory)')));
    if (this.show.memory && this.isInBytes)
      entries.push(item('of it weights, gradients, optimizer state', swatch('var(--persistent)')));
    this.legend.replaceChildren(...entries);
  }

  laneText() {
    const lanes = new Set(this.figures.flatMap(
        ({timeline, facts}) => timeline?.lanes.map(({lane}) => facts.lanes[lane]) ?? []));
    return lanes.size ? `bars below a row: ${[...lanes].join(', ')}` : 'messages take no time';
  }

  get isInBytes() {
    return this.figures.some(({facts}) => facts.memory.unit === 'bytes');
  }

  memoryText() {
    return this.isInBytes ? `${(this.show.mostHeld / 2 ** 30).toFixed(2)} GiB` :
        `${this.show.mostHeld} activations`;
  }

  async load() {
    for (const figure of this.figures) {
      try {
        await figure.load();
      } catch (error) {
        figure.state.textContent = `This timeline cannot be drawn: ${error.message}`;
        throw error;
      }
      this.show.mostHeld = Math.max(this.show.mostHeld, figure.timeline.mostHeld);
      figure.draw(this.page.theme, this.tallest);
    }
    this.describeColours();
  }

  // Drawing

  /** The height up to which a timeline shows all its rows; others scroll. */
  get tallest() {
    return this.page.isPrinting ? 8000 : Math.max(200, innerHeight * 0.8);
  }

  /** Draws before the next frame, once. */
  redraw() {
    if (!this.pending)
      this.pending = requestAnimationFrame(() => this.drawNow());
  }

  drawNow() {
    cancelAnimationFrame(this.pending);
    this.pending = null;
    const begin = performance.now();
    for (const figure of this.figures)
      figure.draw(this.page.theme, this.tallest);
    this.drawnInMs = performance.now() - begin;
  }

  toggle(name, on) {
    if (!this.boxes[name])
      return; // nothing of it is on the page
    this.show[name] = this.boxes[name].checked = on;
    this.describeColours();
    this.redraw();
  }

  // The view

  setView(from, to) {
    const least = Math.min(1000, this.longest);
    const span = Math.min(Math.max(to - from, least), this.longest);
    const begin = Math.min(Math.max(from, 0), this.longest - span);
    this.view = {from: begin, to: begin + span};
    this.redraw();
  }

  fit() {
    this.setView(0, this.longest);
  }

  /** Makes times `factor` times as long around `at`, by default the middle. */
  zoom(factor, at = (this.view.from + this.view.to) / 2) {
    const {from, to} = this.view;
    this.setView(at - (at - from) / factor, at + (to - at) / factor);
  }

  /** Moves by a part of what is visible. */
  pan(part) {
    const {from, to} = this.view;
    this.setView(from + part * (to - from), to + part * (to - from));
  }

  /** Moves so that these times are visible, and widens a cell that is too narrow to see. */
  reveal(begin, end) {
    const {from, to} = this.view;
    if ((end - begin) * 400 < to - from && end > begin)
      return this.setView(begin - 40 * (end - begin), end + 40 * (end - begin));
    if (begin < from || end > to)
      this.setView((begin + end - to + from) / 2, (begin + end + to - from) / 2);
  }

  // What people do

  listen(figure) {
    const {canvas} = figure;
    const pointers = new Map();
    let moved = false;
    canvas.addEventListener('wheel', (event) => this.wheel(figure, event), {passive: false});
    canvas.addEventListener('dblclick', (event) => this.zoom(4, figure.timeAt(event)));
    canvas.addEventListener('pointerdown', (event) => {
      pointers.set(event.pointerId, event);
      moved = false;
      canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', (event) => {
      const before = pointers.get(event.pointerId);
      if (!before)
        return this.hover(figure, event);
      moved ||= Math.abs(event.clientX - before.clientX) > 2;
      if (moved)
        this.drag(figure, pointers, event);
    });
    for (const name of ['pointerup', 'pointercancel'])
      canvas.addEventListener(name, (event) => {
        const wasPressed = pointers.delete(event.pointerId);
        if (wasPressed && !moved && name === 'pointerup')
          this.pick(figure, event);
      });
    canvas.addEventListener('pointerleave', () => figure.selected === null && this.tip.hide());
    canvas.addEventListener('keydown', (event) => this.key(figure, event));
  }

  wheel(figure, event) {
    if (event.ctrlKey || event.metaKey)
      this.zoom(Math.exp(-event.deltaY / 200), figure.timeAt(event));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      this.pan((event.deltaX || event.deltaY) / figure.width);
    else
      return; // scrolls
    event.preventDefault();
    this.tip.hide();
  }

  /** One pointer pans; two also zoom, by the change of their distance. */
  drag(figure, pointers, event) {
    const before = pointers.get(event.pointerId);
    const others = [...pointers.values()].filter((p) => p.pointerId !== event.pointerId);
    if (others.length) {
      const apart = (p) => Math.max(Math.abs(p.clientX - others[0].clientX), 8);
      this.zoom(apart(event) / apart(before), figure.timeAt(others[0]));
    } else {
      this.pan((before.clientX - event.clientX) / figure.width);
    }
    pointers.set(event.pointerId, event);
    this.tip.hide();
  }

  hover(figure, event) {
    const hit = figure.hit(event);
    if (hit)
      this.tip.show(figure.describe(hit), event.clientX, event.clientY);
    else
      this.tip.hide();
  }

  /** A click or tap selects a cell. */
  pick(figure, event) {
    const hit = figure.hit(event);
    for (const each of this.figures)
      each.selected = null;
    if (hit?.kind === 'item' && hit.index < figure.timeline.items.cells)
      figure.selected = hit.index;
    this.hover(figure, event);
    this.redraw();
  }

  key(figure, event) {
    if (event.ctrlKey || event.metaKey || event.altKey || !figure.timeline)
      return;
    const acts = {
      '+': () => this.zoom(2), '=': () => this.zoom(2), '-': () => this.zoom(0.5),
      '0': () => this.fit(), a: () => this.pan(-0.2), d: () => this.pan(0.2),
      Escape: () => {
        figure.selected = null;
        this.tip.hide();
        this.redraw();
      },
    };
    for (const [name, , key] of kSwitches)
      acts[key.toLowerCase()] = () => this.toggle(name, !this.show[name]);
    for (const key of ['ArrowLeft', 'ArrowRight', 'ArrowUp', 'ArrowDown', 'w'])
      acts[key] = () => figure.step(key);
    const act = acts[event.key.length === 1 ? event.key.toLowerCase() : event.key];
    if (!act)
      return;
    act();
    event.preventDefault();
  }
}

/** All panels. `pipeschedPage` in the console: panels, their views and timelines. */
class Page {
  constructor() {
    this.theme = new Theme();
    this.tip = new Tip();
    this.isPrinting = false;
    this.tables = new Tables();
    this.panels = [...document.querySelectorAll('.timelines')].map((e) => new Panel(e, this));
    addEventListener('resize', () => this.redraw());
    addEventListener('scroll', () => this.redraw());
    addEventListener('keydown', (event) => this.key(event));
    addEventListener('beforeprint', () => this.print(true));
    addEventListener('afterprint', () => this.print(false));
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => this.recolour());
  }

  async load() {
    for (const panel of this.panels)
      await panel.load();
    requestAnimationFrame(() => {
      this.openedMs = performance.now();
      document.documentElement.dataset.opened = 'yes';
    });
  }

  redraw() {
    for (const panel of this.panels)
      panel.redraw();
  }

  /** Keys that need no timeline to be focused first. A timeline that is takes them itself. */
  key(event) {
    const isText = event.target.matches?.('input:not([type=checkbox]), textarea, select');
    if (event.defaultPrevented || isText || event.ctrlKey || event.metaKey || event.altKey)
      return;
    const pressed = event.key.toUpperCase();
    const [name] = kSwitches.find(([, , key]) => key === pressed) ?? [];
    const act = {'+': (p) => p.zoom(2), '=': (p) => p.zoom(2), '-': (p) => p.zoom(0.5),
                 '0': (p) => p.fit()}[event.key];
    if (!this.panels.length || !(name || act))
      return;
    const on = name && !this.panels[0].show[name];
    for (const panel of this.panels)
      name ? panel.toggle(name, on) : act(panel);
    event.preventDefault();
  }

  recolour() {
    this.theme = new Theme();
    this.redraw();
  }

  /** On paper all rows are shown, in light colours. */
  print(on) {
    this.isPrinting = on;
    document.documentElement.classList.toggle('printing', on);
    this.theme = new Theme();
    this.tables.fit(on);
    for (const panel of this.panels)
      panel.drawNow();
  }
}

globalThis.pipeschedPage = new Page();
globalThis.pipeschedPage.load();
