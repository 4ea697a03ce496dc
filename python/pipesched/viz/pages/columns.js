// Reads what _columns.py has packed: typed arrays with absolute times in picoseconds.

/** The bytes of one timeline: base64 of a deflated stream. */
async function unpackBytes(base64) {
  if (typeof DecompressionStream === 'undefined')
    throw new Error('this browser cannot inflate; Chrome 80, Firefox 113 and Safari 16.4 can');
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i)
    bytes[i] = text.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('deflate'));
  return new Response(stream).arrayBuffer();
}

/** Numbers from `least` on as planes of bytes: the lowest byte of each, then the next ones. */
function joinPlanes(bytes, least, count) {
  const column = new Float64Array(count).fill(least);
  for (let at = 0, place = 1; at < bytes.length; place *= 256)
    for (let i = 0; i < count; ++i)
      column[i] += place * bytes[at++];
  return column;
}

/** The columns by name. A dictionary column (d8, d16) has its values first, then a code each. */
function readColumns(layout, buffer) {
  const plain = {i8: Int8Array, i16: Int16Array};
  const columns = {};
  let at = 0;
  const take = (Kind, count) => {
    const array = new Kind(buffer, at, count);
    at += Math.ceil(array.byteLength / 8) * 8;
    return array;
  };
  for (const [name, code, length, detail, least] of layout) {
    if (code in plain) {
      columns[name] = take(plain[code], length);
    } else if (code === 'planes') {
      columns[name] = joinPlanes(take(Uint8Array, length), least, detail);
    } else {
      const values = take(Float64Array, length);
      const codes = take(code === 'd8' ? Uint8Array : Uint16Array, detail);
      const column = columns[name] = new Float64Array(detail);
      for (let i = 0; i < detail; ++i)
        column[i] = values[codes[i]];
    }
  }
  return columns;
}

/** Running sums of `steps`, as an array of this kind. */
function sums(steps, Kind = Int32Array) {
  const result = new Kind(steps.length);
  for (let i = 0, sum = 0; i < steps.length; ++i)
    result[i] = sum += steps[i];
  return result;
}

/** Begins of rows (CSR) from their lengths. */
function beginsOf(lengths) {
  const begins = new Int32Array(lengths.length + 1);
  for (let row = 0; row < lengths.length; ++row)
    begins[row + 1] = begins[row] + lengths[row];
  return begins;
}

/** Running sums that begin anew in every row. */
function sumsByRow(steps, begins, Kind = Int32Array) {
  const result = new Kind(steps.length);
  for (let row = 0; row + 1 < begins.length; ++row)
    for (let i = begins[row], sum = 0; i < begins[row + 1]; ++i)
      result[i] = sum += steps[i];
  return result;
}

/** The same, for each key on its own. */
function sumsBy(keys, steps) {
  const result = new Int32Array(steps.length);
  const last = new Int32Array(256);
  for (let i = 0; i < steps.length; ++i)
    result[i] = last[keys[i]] += steps[i];
  return result;
}

/**
 * The items of a timeline, numbered as in DrawingColumns.h: cells row by row, then transfers
 * (messages, copies, all-reduces). An item holds its queue in [start, release); its data is there
 * at `end`.
 */
function readItems(columns) {
  const rows = beginsOf(columns.row_begins);
  const cells = rows[rows.length - 1];
  const size = cells + columns.transfer_kind.length;
  const join = (first, second, Kind) => {
    const all = new Kind(size);
    all.set(first);
    all.set(second, cells);
    return all;
  };
  const items = {
    rows, cells, size,
    phase: join(columns.cell_phase, columns.transfer_phase, Uint8Array),
    stage: join(columns.cell_stage, columns.transfer_stage, Int32Array),
    microbatch: join(sumsByRow(columns.cell_microbatch, rows),
                     sumsBy(columns.transfer_phase, columns.transfer_microbatch), Int32Array),
    kind: join(new Uint8Array(cells), columns.transfer_kind, Uint8Array),
    peer: join(new Int32Array(cells).fill(-1), columns.transfer_peer, Int32Array),
    worker: join([], columns.transfer_worker, Int32Array),
    start: new Float64Array(size),
    release: join(columns.cell_length, columns.transfer_held, Float64Array),
    end: join([], columns.transfer_latency, Float64Array),
    second: columns.second_phase.length ?
        {phase: columns.second_phase, stage: columns.second_stage,
         microbatch: columns.second_microbatch} : null,
    memberBegins: beginsOf(columns.member_begins),
    members: columns.members,
  };
  for (let row = 0; row + 1 < rows.length; ++row)
    items.worker.fill(row, rows[row], rows[row + 1]);
  items.awaited = readAwaited(columns, items.phase);
  readTimes(columns, items);
  return items;
}

// What an item waited for; kGiven is added if its start does not follow from that.
const kNothing = 0, kItemBefore = 1, kItemsEnd = 2, kGiven = 4;

/** The item that each one waited for, or -1. */
function readAwaited(columns, phase) {
  const kinds = columns.awaited_kind;
  const awaited = new Int32Array(kinds.length);
  const apart = new Int32Array(256);
  for (let i = 0, k = 0; i < kinds.length; ++i) {
    const kind = kinds[i] % kGiven;
    if (kind < kItemsEnd)
      awaited[i] = kind === kItemBefore ? i - 1 : -1;
    else
      awaited[i] = i + (apart[phase[i]] += columns.awaited[k++]);
  }
  return awaited;
}

/**
 * Fills in when items start, as `_add_awaited` describes it, and makes times of the lengths in
 * `release` and `end`. Goes from an item along what it waited for to one whose start is known.
 */
function readTimes(columns, {awaited, start, release, end, size}) {
  const kinds = columns.awaited_kind;
  const path = new Int32Array(size);
  const isKnown = new Uint8Array(size);
  for (let i = 0, given = 0; i < size; ++i)
    if (kinds[i] >= kGiven)
      start[i] = columns.start[given++];
  for (let i = 0; i < size; ++i) {
    let length = 0;
    for (let item = i; item >= 0 && !isKnown[item]; item = awaited[item]) {
      path[length++] = item;
      isKnown[item] = 1;
    }
    while (length > 0) {
      const item = path[--length];
      const kind = kinds[item];
      if (kind !== kNothing && kind < kGiven)
        start[item] = (kind === kItemsEnd ? end : release)[awaited[item]];
      release[item] += start[item];
      end[item] += release[item];
    }
  }
}

/** The critical path, first item to last: each item is what the next one waited for. */
function readCriticalPath(columns, awaited) {
  const path = [];
  for (let item = columns.critical.length ? columns.critical[0] : -1; item >= 0;
       item = awaited[item])
    path.push(item);
  return Int32Array.from(path.reverse());
}

/**
 * Idle time by row, in the order of time: `rows` (CSR), begin, end, cause, and the cell that ends
 * it or -1. A row ends with drain (cause 1); a row without cells is all fill (cause 0).
 */
function readIdle(columns, items, makespan) {
  const before = sums(columns.idle_before);
  const numRows = items.rows.length - 1;
  const most = before.length + numRows;
  const idle = {
    rows: new Int32Array(numRows + 1), begin: new Float64Array(most),
    end: new Float64Array(most), cause: new Uint8Array(most), before: new Int32Array(most),
  };
  let count = 0, numLengths = 0;
  const put = (at, begin, end, cause, cell) => {
    idle.begin[at] = begin;
    idle.end[at] = end;
    idle.cause[at] = cause;
    idle.before[at] = cell;
  };
  for (let row = 0, k = 0; row < numRows; ++row) {
    const first = items.rows[row], last = items.rows[row + 1] - 1;
    for (let next = k; k < before.length && before[k] <= last; k = next) {
      const cell = before[k];
      while (before[next] === cell)
        ++next;
      numLengths += next - k - 1;
      for (let i = next - 1, end = items.start[cell], length = numLengths; i >= k; --i) {
        const begin = i > k ? end - columns.idle_length[--length] :
            cell === first ? 0 : items.release[cell - 1];
        put(count + i - k, begin, end, columns.idle_cause[i], cell);
        end = begin;
      }
      count += next - k;
    }
    const from = last < first ? 0 : items.release[last];
    if (from < makespan)
      put(count++, from, makespan, last < first ? 0 : 1, -1);
    idle.rows[row + 1] = count;
  }
  for (const name of ['begin', 'end', 'cause', 'before'])
    idle[name] = idle[name].subarray(0, count);
  return idle;
}

/** How much rows hold and from when on: `rows` (CSR), at, held. */
function readMemory(columns, {start, release}) {
  const rows = beginsOf(columns.memory_begins);
  const steps = columns.memory_event;
  const at = new Float64Array(steps.length);
  for (let i = 0, event = 0, given = 0; i < steps.length; ++i) {
    if (steps[i] < 0) {
      at[i] = columns.memory_at[given++];
    } else {
      event += steps[i];
      at[i] = (event & 1 ? release : start)[event >> 1];
    }
  }
  return {rows, at, held: sumsByRow(columns.memory_held, rows, Float64Array)};
}

/** Everything about one timeline; `facts` is its header. */
async function readTimeline(facts, base64) {
  const columns = readColumns(facts.layout, await unpackBytes(base64));
  const items = readItems(columns);
  return {
    facts, items,
    criticalPath: readCriticalPath(columns, items.awaited),
    idle: readIdle(columns, items, facts.makespan_ps),
    memory: readMemory(columns, items),
  };
}
