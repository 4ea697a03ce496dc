// Tables: sorted by a click on a heading, searched, and so small that all columns are shown.

const kSmallestPx = 7;
const kPaperPx = 1000; // what A4 across shows between its margins, at 96 dots per inch

/** What a cell is sorted by: its number where it has one, else its text. */
const valueOf = (cell) =>
    cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);

/** Numbers before texts, and cells without a value last in both orders. */
function compareCells(one, other, sign) {
  const [a, b] = [valueOf(one), valueOf(other)];
  const isMissing = [a, b].map((value) => value === '-');
  if (isMissing[0] || isMissing[1])
    return isMissing[0] - isMissing[1];
  if (typeof a !== typeof b)
    return typeof a === 'number' ? -1 : 1;
  return sign * (typeof a === 'number' ? a - b : a.localeCompare(b, 'en', {numeric: true}));
}

/** A table of rows, of which the page has one for each size. */
class SortedTable {
  constructor(table) {
    this.table = table;
    this.body = table.tBodies[0];
    this.rows = [...this.body.rows];
    this.heads = [...table.tHead.rows[0].cells];
    this.heads.forEach((head, column) => {
      const button = make('button', {type: 'button', title: 'sort'});
      button.append(...head.childNodes);
      button.addEventListener('click', () => this.sort(column));
      head.append(button);
    });
  }

  /** By a column upwards, and by the same one again downwards. */
  sort(column) {
    const head = this.heads[column];
    const downwards = head.getAttribute('aria-sort') === 'ascending';
    for (const each of this.heads)
      each.removeAttribute('aria-sort');
    head.setAttribute('aria-sort', downwards ? 'descending' : 'ascending');
    const sign = downwards ? -1 : 1;
    this.rows.sort((one, other) => compareCells(one.cells[column], other.cells[column], sign));
    this.body.append(...this.rows);
  }

  /** Shows the rows that have all the words, and returns how many these are. */
  search(words) {
    let found = 0;
    for (const row of this.rows) {
      const text = row.innerText.toLowerCase() || row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      found += !row.hidden;
    }
    return found;
  }

  /** The largest letters with which no column is cut off. */
  fit(width) {
    const {style} = this.table;
    style.fontSize = '';
    let size = parseFloat(getComputedStyle(this.table).fontSize);
    while (this.table.offsetWidth > width && size > kSmallestPx) {
      size -= 0.5;
      style.fontSize = `${size}px`;
    }
  }
}

/** All tables of the page, with the field that searches them. */
class Tables {
  constructor() {
    const found = [...document.querySelectorAll('.scroll table')];
    this.tables = found.map((table) => new SortedTable(table));
    this.rows = this.tables.reduce((sum, table) => sum + table.rows.length, 0);
    if (this.rows > 1)
      found[0].closest('section').before(this.field());
    addEventListener('resize', () => this.fit());
    this.fit();
  }

  field() {
    this.count = make('span', {role: 'status'});
    const input = make('input', {type: 'search', name: 'search', placeholder: 'Search rows'});
    input.addEventListener('input', () => this.search(input.value));
    return make('p', {class: 'search'}, input, ' ', this.count);
  }

  search(text) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    const found = this.tables.reduce((sum, table) => sum + table.search(words), 0);
    this.count.textContent = words.length ? `${found} of ${this.rows} rows` : '';
  }

  /** For the screen, or for paper, which is narrower than most screens. */
  fit(isPaper = false) {
    for (const each of this.tables)
      each.fit(isPaper ? kPaperPx : each.table.parentElement.clientWidth);
  }
}
