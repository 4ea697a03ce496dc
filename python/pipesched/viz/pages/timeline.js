// One timeline on the page: its layers, where they are, what they show, and what is under a point.

const kIdleNames = [
  'fill', 'drain', 'dependency', 'queue order', 'communication', 'imbalance',
];
const kIdleReasons = [
  'before its first cell', 'after its last cell', 'data was not computed yet',
  'its message stood in a queue behind one that was not ready',
  'its message was under way or waited for bandwidth',
  'cells of another worker take longer in all',
];

/** The two streams of workers: parts of layers, as spans of rows. */
class Streams {
  constructor(facts, items) {
    Object.assign(this, {facts, items});
    this.layers = [false, true].map((isExchange) => this.layerOf(isExchange));
  }

  /** The parts of a stream, in the order of time, with the cell and the run of each. */
  layerOf(isExchange) {
    const {items, facts} = this;
    const wanted = facts.runs.map((runs) => [...runs.keys()]
        .filter((k) => facts.is_exchange[runs[k][0]] === isExchange)
        .sort((a, b) => runs[a][3] - runs[b][3]));
    const numRows = items.rows.length - 1;
    const lengths = Array.from({length: numRows}, (_, row) => {
      let length = 0;
      for (let cell = items.rows[row]; cell < items.rows[row + 1]; ++cell)
        length += wanted[facts.of[cell]]?.length ?? 0;
      return length;
    });
    const rows = beginsOf(lengths), size = rows[numRows];
    const begin = new Float64Array(size), end = new Float64Array(size);
    const part = new Uint8Array(size), item = new Int32Array(size), run = new Int32Array(size);
    for (let cell = 0, at = 0; cell < items.cells; ++cell)
      for (const k of wanted[facts.of[cell]] ?? []) {
        const [number, , , from, to] = facts.runs[facts.of[cell]][k];
        begin[at] = items.start[cell] + from;
        end[at] = items.start[cell] + to;
        [part[at], item[at], run[at]] = [number, cell, k];
        ++at;
      }
    return {layer: new Layer({rows, begin, end, item}), part, run, isExchange};
  }

  hit(row, ps, stream) {
    const index = this.layers[stream].layer.at(row, ps);
    return index < 0 ? null : {kind: 'part', index, stream, row};
  }

  /** What is known of a part. */
  at(stream, index) {
    const {layer, part, run, isExchange} = this.layers[stream];
    const cell = layer.item[index], kind = this.facts.of[cell];
    return {cell, isExchange, part: this.facts.names[part[index]],
            run: this.facts.runs[kind][run[index]], sums: this.facts.sums[kind]};
  }
}

class Timeline {
  constructor(data) {
    Object.assign(this, data);
    const {items, facts, idle} = this;
    facts.slices ??= 1; // a measured step does not say it
    this.unit = unitFor(facts.makespan_ps);
    this.numShades = facts.phases[0].colours.length;
    const hasSlices = (phase) => facts.slices > 1 && !facts.phases[phase].per_path;
    const shadeOf = (phase, stage, unit) =>
        hasSlices(phase) ? unit % facts.slices : facts.stages[stage].shade;
    const colourOf = (phase, ...of) => phase * this.numShades + shadeOf(phase, ...of);
    const first = new Uint16Array(items.size);
    for (let i = 0; i < items.size; ++i)
      first[i] = colourOf(items.phase[i], items.stage[i], items.microbatch[i]);
    let second = null;
    if (items.second) {
      second = new Int16Array(items.cells).fill(-1);
      for (let i = 0; i < items.cells; ++i)
        if (items.second.phase[i] >= 0)
          second[i] = colourOf(items.second.phase[i], items.second.stage[i],
                               items.second.microbatch[i]);
    }
    this.colours = {first, second};
    this.cells = new Layer({rows: items.rows, begin: items.start.subarray(0, items.cells),
                            end: items.release.subarray(0, items.cells)});
    this.idleLayer = new Layer(idle);
    this.mostHeld = this.memory.held.reduce((most, held) => Math.max(most, held), 0);
    const persistent = facts.memory.persistent_bytes;
    if (persistent)
      this.mostHeld = Math.max(0, ...this.peaks().map((peak, row) => peak + persistent[row]));
    this.digits = this.unitName(facts.microbatches * facts.slices - 1).length;
    this.streams = facts.streams ? new Streams(facts.streams, items) : null;
    this.receiveLane = facts.kinds.find(({name}) => name === 'recv').lane;
  }

  /** A microbatch, `3`, or a slice of one, `3.1`, by its number among all of them. */
  unitName(unit) {
    const {slices} = this.facts;
    return slices > 1 ? `${Math.floor(unit / slices)}.${unit % slices}` : `${unit}`;
  }

  /** What the library says of the kind of a transfer: name, role and lane. */
  kindOf(item) {
    return this.facts.kinds[this.items.kind[item]];
  }

  /** The most activations that each worker holds. */
  peaks() {
    const {rows, held} = this.memory;
    return Array.from({length: rows.length - 1}, (_, row) => {
      let most = 0;
      for (let i = rows[row]; i < rows[row + 1]; ++i)
        most = Math.max(most, held[i]);
      return most;
    });
  }

  get numRows() {
    return this.items.rows.length - 1;
  }

  /** By item, whether it is on the critical path. */
  get isCritical() {
    if (!this.critical) {
      this.critical = new Uint8Array(this.items.size);
      for (const item of this.criticalPath)
        this.critical[item] = 1;
    }
    return this.critical;
  }

  /** Colours by item while the critical path is shown: dimmed ones follow the others. */
  get criticalColours() {
    if (!this.dimmed) {
      const plain = this.facts.phases.length * this.numShades;
      const dim = (colour, i) => (colour < 0 || this.isCritical[i] ? colour : colour + plain);
      this.dimmed = {first: this.colours.first.map(dim),
                     second: this.colours.second?.map(dim) ?? null};
    }
    return this.dimmed;
  }

  /** The workers on whose lanes a transfer is drawn, and the lanes. */
  *placesOf(item) {
    const {worker, peer, memberBegins, members} = this.items;
    const {name, role, lane} = this.kindOf(item);
    if (role === 'collective') {
      for (let k = memberBegins[peer[item]]; k < memberBegins[peer[item] + 1]; ++k)
        yield [members[k], lane];
    } else if (name !== 'recv') { // a receive is drawn with its send
      yield [worker[item], lane];
      if (role === 'message')
        yield [peer[item], this.receiveLane];
    }
  }

  /** A layer per lane that is in use, in the order of the lanes. */
  get lanes() {
    if (this.laneLayers)
      return this.laneLayers;
    const {items, numRows} = this;
    const found = new Map();
    for (let i = items.cells; i < items.size; ++i)
      if (items.start[i] < items.end[i])
        for (const [worker, lane] of this.placesOf(i)) {
          if (!found.has(lane))
            found.set(lane, Array.from({length: numRows}, () => []));
          found.get(lane)[worker].push(i);
        }
    this.laneLayers = [...found.keys()].sort((a, b) => a - b).map((lane) => ({
      lane, layer: this.laneLayer(found.get(lane)),
    }));
    return this.laneLayers;
  }

  laneLayer(listed) {
    const {start, release, end} = this.items;
    const rows = beginsOf(listed.map((row) => row.length));
    const item = new Int32Array(rows.at(-1));
    listed.forEach((row, worker) => {
      row.sort((a, b) => start[a] - start[b]);
      item.set(row, rows[worker]);
    });
    const column = (values) => {
      const result = new values.constructor(item.length);
      for (let k = 0; k < item.length; ++k)
        result[k] = values[item[k]];
      return result;
    };
    const layer = new Layer(
        {rows, item, begin: column(start), held: column(release), end: column(end)});
    layer.colours = (all) => ({first: column(all.first)});
    return layer;
  }

  /** Heights in CSS pixels with these switches. */
  layout(show) {
    const row = Math.min(Math.max(640 / this.numRows, 10), 24);
    const streams = show.streams && this.streams ? 2 * kStream : 0;
    const lanes = show.messages ? this.lanes.length * kLane : 0;
    const memory = show.memory ? kMemory + 2 : 0;
    const pitch = row + streams + lanes + memory + kRowGap;
    return {row, streams, lanes, memory, pitch, height: pitch * this.numRows};
  }

  // Drawing

  /** Draws the rows that are visible: `plot` has left, width, height and how far it is scrolled. */
  draw(context, plot, view, show, theme, ratio) {
    const layout = this.layout(show);
    const painter = new Painter(context, plot, view, ratio);
    const first = Math.max(0, Math.floor(plot.scrolled / layout.pitch));
    const last = Math.min(this.numRows, Math.ceil((plot.scrolled + plot.height) / layout.pitch));
    context.clearRect(0, 0, plot.left + plot.width + 40, plot.height + kAxis);
    this.drawGrid(painter, plot, view, theme);
    context.save();
    context.beginPath();
    context.rect(0, 0, plot.left + plot.width, plot.height);
    context.clip();
    this.drawn = {cells: 0, rows: last - first};
    for (let row = first; row < last; ++row)
      this.drawRow(painter, row, row * layout.pitch - plot.scrolled, layout, show, theme);
    if (show.critical)
      this.drawPath(painter, layout, theme);
    context.restore();
  }

  drawGrid(painter, plot, view, theme) {
    const {context} = painter;
    const [size, name] = this.unit;
    const step = niceStep(90 / painter.scale);
    const right = plot.left + plot.width;
    context.font = '11px system-ui, sans-serif';
    context.textAlign = 'center';
    context.textBaseline = 'top';
    context.lineWidth = 1;
    for (let at = Math.ceil(view.from / step) * step; at <= view.to; at += step) {
      const x = painter.x(at);
      context.strokeStyle = theme.line;
      context.strokeRect(x, 0, 0, plot.height + 4);
      context.fillStyle = theme.dim;
      context.fillText(`${decimal(at, size)} ${name}`, Math.min(x, right - 24), plot.height + 7);
    }
    const end = painter.x(this.facts.makespan_ps);
    context.strokeStyle = theme.ink;
    if (end >= plot.left && end <= right + 1)
      context.strokeRect(end, 0, 0, plot.height + 4);
  }

  drawRow(painter, row, top, layout, show, theme) {
    const {context, plot} = painter;
    context.fillStyle = theme.ink;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    context.font = '11px system-ui, sans-serif';
    context.fillText(`worker ${row}`, plot.left - 8, top + layout.row / 2);
    context.save();
    context.beginPath();
    context.rect(plot.left, top, plot.width, layout.pitch);
    context.clip();
    context.fillStyle = theme.idle;
    const end = painter.x(this.facts.makespan_ps);
    const wide = Math.max(0, Math.min(end - plot.left, plot.width));
    context.fillRect(plot.left, top, wide, layout.row);
    const colours = show.critical ? this.criticalColours : this.colours;
    this.drawn.cells += painter.band(this.cells, row, colours, theme.palette(this), top, layout.row,
                                     this.numberWriter(context, colours, theme));
    if (show.idle)
      painter.band(this.idleLayer, row, {first: this.idle.cause}, theme.causes,
                   top + layout.row * 0.3, layout.row * 0.4);
    if (layout.streams)
      this.streams.layers.forEach(({layer, part}, k) => painter.band(
          layer, row, {first: part}, theme.parts, top + layout.row + 1 + k * kStream,
          kStream - 1));
    const below = top + layout.row + layout.streams;
    if (show.messages)
      this.lanes.forEach((lane, k) => {
        const own = this.laneColours(lane, show.critical);
        painter.band(lane.layer, row, own, theme.palette(this), below + 0.5 + k * kLane,
                     kLane - 1);
      });
    if (show.memory)
      this.drawMemory(painter, row, below + layout.lanes + 1, show, theme);
    context.restore();
  }

  /** The colours of a lane by bar. */
  laneColours(lane, isCritical) {
    const name = isCritical ? 'dimmed' : 'plain';
    lane[name] ??= lane.layer.colours(isCritical ? this.criticalColours : this.colours);
    return lane[name];
  }

  /** Writes microbatches into cells that have room for the largest. */
  numberWriter(context, colours, theme) {
    const {microbatch, phase, second} = this.items;
    const palette = theme.palette(this);
    context.textAlign = 'center';
    const room = 6.4 * this.digits + 3;
    const write = (number, colour, x, y) => {
      context.fillStyle = palette.onDark[colour] ? '#fff' : '#111';
      context.fillText(number, x, y);
    };
    return (i, x, width, top, height) => {
      if (width < room || height < 9)
        return;
      const {per_path: isPerPath, letter} = this.facts.phases[phase[i]]; // an optimizer step
      const number = isPerPath ? letter : this.unitName(microbatch[i]);
      const other = colours.second ? colours.second[i] : -1;
      const own = colours.first[i];
      if (other < 0)
        return write(number, own, x + width / 2, top + height / 2);
      context.font = '9px system-ui, sans-serif';
      write(number, own, x + width / 2, top + height / 4);
      write(this.unitName(second.microbatch[i]), other, x + width / 2, top + 3 * height / 4);
      context.font = '11px system-ui, sans-serif';
    };
  }

  /** Memory from 0 to the largest of the page, parameters below activations. */
  drawMemory(painter, row, top, show, theme) {
    const {context, plot, view} = painter;
    const {rows, at, held} = this.memory;
    const most = show.mostHeld || 1;
    const persistent = this.facts.memory.persistent_bytes?.[row] ?? 0;
    const base = kMemory * persistent / most;
    const end = Math.min(painter.x(this.facts.makespan_ps), plot.left + plot.width);
    if (view.from < this.facts.makespan_ps) {
      context.fillStyle = theme.persistent;
      context.fillRect(plot.left, top + kMemory - base, Math.max(0, end - plot.left), base);
    }
    painter.steps(at, held, rows[row], rows[row + 1], most, top - base, kMemory,
                  {area: theme.memory});
    const capacity = this.facts.memory.capacity_bytes;
    context.fillStyle = theme.critical;
    if (capacity && capacity <= most)
      context.fillRect(plot.left, top + kMemory * (1 - capacity / most), end - plot.left, 1);
    context.fillStyle = theme.line;
    context.fillRect(plot.left, top + kMemory, Math.max(0, end - plot.left), 0.5);
  }

  /** A line along the cells of the critical path, below their numbers, from worker to worker. */
  drawPath(painter, layout, theme) {
    const {context, plot, view} = painter;
    const yOf = (row) => row * layout.pitch - plot.scrolled + layout.row - 2;
    const {start, end, worker, cells} = this.items;
    if (!this.pathStarts)
      this.pathStarts = Float64Array.from(this.criticalPath, (item) => start[item]);
    let k = firstAbove(this.pathStarts, view.from, 0, this.pathStarts.length);
    for (k = Math.max(0, k - 1); k > 0 && this.criticalPath[k] >= cells;)
      --k;
    context.save();
    context.beginPath();
    context.rect(plot.left, 0, plot.width, plot.height);
    context.clip();
    context.strokeStyle = theme.critical;
    context.lineWidth = 2;
    context.lineJoin = 'round';
    context.beginPath();
    let [lastX, lastRow] = [-1e9, -1];
    for (; k < this.criticalPath.length && this.pathStarts[k] <= view.to; ++k) {
      const item = this.criticalPath[k];
      if (item >= cells)
        continue;
      const row = worker[item];
      const x0 = painter.x(start[item]), x1 = painter.x(end[item]);
      if (row === lastRow && x1 - lastX < 0.5)
        continue;
      const y = yOf(row);
      context[lastRow < 0 ? 'moveTo' : 'lineTo'](x0, y);
      context.lineTo(x1, y);
      [lastX, lastRow] = [x1, row];
    }
    const after = this.criticalPath[k]; // leaves the window
    if (after !== undefined && lastRow >= 0)
      context.lineTo(painter.x(start[after]), yOf(worker[after]));
    context.stroke();
    context.restore();
  }

  // What is where

  /** What is at a time and a height from the first row on: {kind, index, row}, or null. */
  hit(ps, y, show) {
    const layout = this.layout(show);
    const row = Math.floor(y / layout.pitch);
    if (row < 0 || row >= this.numRows || ps < 0 || ps >= this.facts.makespan_ps)
      return null;
    let inside = y - row * layout.pitch;
    if (inside >= layout.row && inside < layout.row + layout.streams)
      return this.streams.hit(row, ps, Math.floor((inside - layout.row) / kStream));
    if (inside < layout.row) {
      const cell = this.cells.at(row, ps);
      if (cell >= 0)
        return {kind: 'item', index: cell, row};
      const idle = this.idleLayer.at(row, ps);
      return idle < 0 ? null : {kind: 'idle', index: idle, row};
    }
    inside -= layout.streams;
    const lane = this.lanes[Math.floor((inside - layout.row) / kLane)];
    if (show.messages && lane && inside < layout.row + layout.lanes) {
      const bar = lane.layer.at(row, ps);
      return bar < 0 ? null : {kind: 'item', index: lane.layer.item[bar], row, lane: lane.lane};
    }
    const bottom = layout.pitch - layout.streams - kRowGap;
    return show.memory && inside < bottom ? {kind: 'memory', row, ps} : null;
  }

  /** How many cells of a row begin in [from, to). */
  count(row, from, to) {
    const {rows} = this.items;
    const {begin} = this.cells;
    const first = firstAbove(begin, from - 0.5, rows[row], rows[row + 1]);
    return firstAbove(begin, to - 0.5, rows[row], rows[row + 1]) - first;
  }

  // What is said about it

  /** A moment, in the unit of the axis. */
  time(ps) {
    return `${decimal(ps, this.unit[0])} ${this.unit[1]}`;
  }

  /** A length, in a unit of its own. */
  length(ps) {
    const [size, name] = unitFor(ps);
    return `${decimal(ps, size)} ${name}`;
  }

  cellName(stage, phase, microbatch) {
    const {letter, per_path: isPerPath} = this.facts.phases[phase];
    const number = isPerPath ? microbatch : this.unitName(microbatch);
    return `${this.facts.stages[stage].stage}${letter}${number}`;
  }

  nameOf(item) {
    const {stage, phase, microbatch, second, cells} = this.items;
    const name = this.cellName(stage[item], phase[item], microbatch[item]);
    if (item >= cells || !second || second.phase[item] < 0)
      return name;
    return `${name}+${this.cellName(second.stage[item], second.phase[item],
                                    second.microbatch[item])}`;
  }

  /** "0F3, the cell before it", "message 1F2 from worker 1". */
  phraseOf(item, waiter) {
    const {worker, peer, cells} = this.items;
    const name = this.nameOf(item);
    if (item < cells)
      return item === waiter - 1 && waiter < cells ? `${name}, the cell before it` :
          `${name} on worker ${worker[item]}`;
    const kind = this.kindOf(item);
    if (kind.role !== 'message')
      return `${kind.name.replaceAll('_', '-')} ${name}`;
    const [from, to] = kind.name === 'recv' ? [peer, worker] : [worker, peer];
    return `message ${name} from worker ${from[item]} to worker ${to[item]}`;
  }

  /** Lines about a cell, a message, a copy or an all-reduce. */
  describeItem(item, row) {
    const {start, release, end, phase, stage, microbatch, second, worker, cells} = this.items;
    const about = (p, s, m) => {
      const what = this.facts.slices > 1 ? 'slice' : 'microbatch';
      const number =
          this.facts.phases[p].per_path ? `path ${m}` : `${what} ${this.unitName(m)}`;
      const path = this.facts.paths > 1 ? ` of path ${this.facts.stages[s].path}` : '';
      const name = this.facts.phases[p].name;
      return `${name} of ${number} on stage ${this.facts.stages[s].stage}${path}`;
    };
    const isCell = item < cells;
    const lines = isCell ? [about(phase[item], stage[item], microbatch[item])] :
        [this.phraseOf(item, -1)];
    if (isCell && second && second.phase[item] >= 0)
      lines.push(`overlaps ${about(second.phase[item], second.stage[item],
                                   second.microbatch[item])}`);
    lines.push(`worker ${isCell ? worker[item] : row}`);
    if (isCell || start[item] === end[item] || this.kindOf(item).name === 'recv')
      lines.push(`start ${this.time(start[item])}, end ${this.time(release[item])}, takes ${
          this.length(release[item] - start[item])}`);
    else
      lines.push(`start ${this.time(start[item])}, leaves its queue at ${
          this.time(release[item])}, there at ${this.time(end[item])}`);
    lines.push(...this.describeWait(item));
    if (this.isCritical[item])
      lines.push('on the critical path');
    return {title: this.nameOf(item), lines};
  }

  describeWait(item) {
    const {awaited, start, release, cells} = this.items;
    const before = awaited[item];
    const lines = [];
    if (before < 0) {
      // A measured step has no critical path, and nobody knows for what its cells waited.
      if (this.criticalPath.length)
        lines.push('waited for nothing');
    } else {
      const verb = before < cells || start[item] === release[before] ? 'which ended' : 'which came';
      lines.push(`waited for ${this.phraseOf(before, item)}, ${verb} at ${this.time(start[item])}`);
    }
    const spans = item < cells ? this.idleBefore(item) : [];
    if (spans.length) {
      const total = spans.reduce((sum, k) => sum + this.idle.end[k] - this.idle.begin[k], 0);
      const causes = spans.map((k) => `${kIdleNames[this.idle.cause[k]]} ${
          this.length(this.idle.end[k] - this.idle.begin[k])}`);
      lines.push(`idle before it: ${this.length(total)} (${causes.join(', ')})`);
    }
    return lines;
  }

  /** The idle spans that a cell ends, in the order of time. */
  idleBefore(cell) {
    const {rows, end, before} = this.idle;
    const row = this.items.worker[cell];
    const found = [];
    let k = firstAbove(end, this.items.start[cell] - 0.5, rows[row], rows[row + 1]);
    if (k < rows[row + 1] && before[k] === cell && end[k] === this.items.start[cell])
      for (; k >= rows[row] && before[k] === cell; --k)
        found.unshift(k);
    return found;
  }

  describeIdle(index, row) {
    const {begin, end, cause, before} = this.idle;
    const lines = [
      `worker ${row}`,
      `${kIdleNames[cause[index]]}: ${kIdleReasons[cause[index]]}`,
      `start ${this.time(begin[index])}, end ${this.time(end[index])}, takes ${
          this.length(end[index] - begin[index])}`,
    ];
    if (before[index] >= 0)
      lines.push(`next: ${this.nameOf(before[index])}; it ${
          this.describeWait(before[index])[0]}`);
    return {title: 'idle', lines};
  }

  describeMemory(row, ps) {
    const {rows, at, held} = this.memory;
    const i = firstAbove(at, ps, rows[row], rows[row + 1]) - 1;
    const value = i >= rows[row] ? held[i] : 0;
    const {unit, persistent_bytes: persistent, capacity_bytes: capacity} = this.facts.memory;
    const lines = [`worker ${row} at ${this.time(Math.round(ps))}`];
    if (unit !== 'bytes')
      return {title: `${value} activations held`, lines};
    const gib = (bytes) => `${(bytes / 2 ** 30).toFixed(2)} GiB`;
    lines.push(`${gib(value)} of activations, ${gib(persistent[row])} of weights, gradients and ` +
               'optimizer state');
    if (capacity)
      lines.push(`of ${gib(capacity)}`);
    return {title: gib(value + persistent[row]), lines};
  }

  /** Lines about a part of a layer, and what of its cell's exchanges compute hides. */
  describePart({index, stream, row}) {
    const {phases, stages} = this.facts;
    const {microbatch, stage, phase, second, start} = this.items;
    const {cell, part, run, isExchange, sums} = this.streams.at(stream, index);
    const [, letter, layer, from, to, hidden] = run;
    const isFirst = !(second?.phase[cell] >= 0) ||
        (letter === 'F') === (phases[phase[cell]].letter === 'F');
    const of = isFirst ? {microbatch, stage} : second;
    const lines = [
      `layer ${layer} of stage ${stages[of.stage[cell]].stage}, microbatch ${
          this.unitName(of.microbatch[cell])}, in ${this.nameOf(cell)}`,
      `worker ${row}, ${isExchange ? 'exchange' : 'compute'} stream`,
      `start ${this.time(start[cell] + from)}, end ${this.time(start[cell] + to)}, takes ${
          this.length(to - from)}`,
    ];
    if (isExchange)
      lines.push(`of it compute hides ${this.length(hidden)}, ${
          this.length(to - from - hidden)} remains`);
    const [taken, hides] = sums;
    lines.push(`of all exchanges of ${this.nameOf(cell)}, ${this.length(taken)}, compute hides ${
        this.length(hides)}, ${this.length(taken - hides)} remains`);
    return {title: `${part}.${letter}`, lines};
  }

  describe(hit) {
    if (hit.kind === 'part')
      return this.describePart(hit);
    if (hit.kind === 'item')
      return this.describeItem(hit.index, hit.row);
    return hit.kind === 'idle' ? this.describeIdle(hit.index, hit.row) :
        this.describeMemory(hit.row, hit.ps);
  }
}
