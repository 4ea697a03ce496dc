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

/** The columns by name. A dictionary column (d8, d16) has its values first, then a code each. */
function readColumns(layout, buffer) {
  const plain = {i8: Int8Array, i16: Int16Array, i32: Int32Array, f64: Float64Array};
  const columns = {};
  let at = 0;
  const take = (Kind, count) => {
    const array = new Kind(buffer, at, count);
    at += Math.ceil(array.byteLength / 8) * 8;
    return array;
  };
  for (const [name, code, count, numCodes] of layout) {
    const values = take(plain[code] ?? Float64Array, count);
    if (code in plain) {
      columns[name] = values;
      continue;
    }
    const codes = take(code === 'd8' ? Uint8Array : Uint16Array, numCodes);
    const column = columns[name] = new Float64Array(numCodes);
    for (let i = 0; i < numCodes; ++i)
      column[i] = values[codes[i]];
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
                     sums(columns.transfer_microbatch), Int32Array),
    kind: join(new Uint8Array(cells), columns.transfer_kind, Uint8Array),
    peer: join(new Int32Array(cells).fill(-1), columns.transfer_peer, Int32Array),
    worker: new Int32Array(size),
    start: new Float64Array(size),
    release: new Float64Array(size),
    end: new Float64Array(size),
    second: columns.second_phase.length ?
        {phase: columns.second_phase, stage: columns.second_stage,
         microbatch: columns.second_microbatch} : null,
    memberBegins: beginsOf(columns.member_begins),
    members: columns.members,
  };
  for (let row = 0; row + 1 < rows.length; ++row)
    for (let i = rows[row], at = 0; i < rows[row + 1]; ++i) {
      items.worker[i] = row;
      items.start[i] = at + columns.cell_gap[i];
      items.release[i] = items.end[i] = at = items.start[i] + columns.cell_length[i];
    }
  for (let i = cells, at = 0, k = 0; i < size; ++i, ++k) {
    items.worker[i] = columns.transfer_worker[k];
    items.start[i] = at += columns.transfer_start[k];
    items.release[i] = at + columns.transfer_held[k];
    items.end[i] = items.release[i] + columns.transfer_latency[k];
  }
  items.awaited = readAwaited(columns, size);
  return items;
}

/** The item that each one waited for, or -1. */
function readAwaited(columns, size) {
  const awaited = new Int32Array(size);
  for (let i = 0, k = 0, apart = 0; i < size; ++i)
    switch (columns.awaited_kind[i]) {
    case 0:
      awaited[i] = -1;
      break;
    case 1:
      awaited[i] = i - 1;
      break;
    default:
      awaited[i] = i + (apart += columns.awaited[k++]);
    }
  return awaited;
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
  let count = 0;
  const add = (begin, end, cause, cell) => {
    idle.begin[count] = begin;
    idle.end[count] = end;
    idle.cause[count] = cause;
    idle.before[count++] = cell;
  };
  for (let row = 0, k = 0; row < numRows; ++row) {
    const first = items.rows[row], last = items.rows[row + 1] - 1;
    for (let at = 0, cell = -1; k < before.length && before[k] <= last; ++k) {
      if (before[k] !== cell) {
        cell = before[k];
        at = cell === first ? 0 : items.release[cell - 1];
      }
      add(at, at += columns.idle_length[k], columns.idle_cause[k], cell);
    }
    const from = last < first ? 0 : items.release[last];
    if (from < makespan)
      add(from, makespan, last < first ? 0 : 1, -1);
    idle.rows[row + 1] = count;
  }
  for (const name of ['begin', 'end', 'cause', 'before'])
    idle[name] = idle[name].subarray(0, count);
  return idle;
}

/** Everything about one timeline; `facts` is its header. */
async function readTimeline(facts, base64) {
  const columns = readColumns(facts.layout, await unpackBytes(base64));
  const items = readItems(columns);
  const memoryRows = beginsOf(columns.memory_begins);
  return {
    facts, items,
    criticalPath: readCriticalPath(columns, items.awaited),
    idle: readIdle(columns, items, facts.makespan_ps),
    memory: {
      rows: memoryRows,
      at: sumsByRow(columns.memory_at, memoryRows, Float64Array),
      held: sumsByRow(columns.memory_held, memoryRows, Float64Array),
    },
  };
}
