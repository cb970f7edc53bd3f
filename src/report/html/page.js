'use strict';
// Lets the table of experiments be sorted, filtered and turned over.
const arrange = () => {
  const table = document.getElementById('all');
  const form = document.getElementById('filter');
  if (!table || !form) return;
  const body = table.tBodies[0];
  const heads = [...table.tHead.rows[0].cells];
  const entries = [...body.rows].map((row, place) => ({
    row,
    place,
    detail: document.getElementById('d' + row.dataset.id),
    text: row.textContent.toLowerCase(),
  }));

  // The sort key of a cell: its number if it has one, else its text. Empty cells come last in either order.
  const key = (entry, column) => {
    const cell = entry.row.cells[column];
    const text = cell.dataset.value ?? cell.textContent;
    const number = Number(text);
    return text === '' || Number.isNaN(number) ? text : number;
  };
  const compare = (a, b) =>
    typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
  const sort = (column) => {
    const way = heads[column].getAttribute('aria-sort') === 'ascending' ? 'descending' : 'ascending';
    heads.forEach((head) => head.removeAttribute('aria-sort'));
    heads[column].setAttribute('aria-sort', way);
    const sign = way === 'ascending' ? 1 : -1;
    const keyed = entries.map((entry) => [key(entry, column), entry]);
    keyed.sort(([a, one], [b, other]) => {
      if (a === '' || b === '') return (a === '') - (b === '') || one.place - other.place;
      return sign * compare(a, b) || one.place - other.place;
    });
    entries.splice(0, entries.length, ...keyed.map(([, entry]) => entry));
    body.append(...entries.map((entry) => entry.row));
    turn(0);
  };
  heads.forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    button.addEventListener('click', () => sort(column));
    head.append(button);
  });

  // Long tables are shown in pages. Rows that the filter excludes are hidden. Rows on other pages are `off`, which
  // hides them on the screen but prints them.
  const most = 200;
  const nav = document.getElementById('pages');
  const [back, on] = nav.querySelectorAll('button');
  const place = nav.querySelector('output');
  let page = 0;
  const turn = (to) => {
    const fitting = entries.filter(({ row }) => !row.hidden);
    const pages = Math.max(1, Math.ceil(fitting.length / most));
    page = Math.min(Math.max(to, 0), pages - 1);
    const shown = new Set(fitting.slice(page * most, (page + 1) * most));
    for (const entry of entries) {
      entry.row.classList.toggle('off', !shown.has(entry));
      if (entry.detail) entry.detail.classList.toggle('off', !shown.has(entry));
    }
    nav.hidden = pages === 1;
    back.disabled = page === 0;
    on.disabled = page === pages - 1;
    place.value = 'page ' + (page + 1) + ' of ' + pages;
  };
  back.addEventListener('click', () => turn(page - 1));
  on.addEventListener('click', () => turn(page + 1));

  const filter = () => {
    const words = form.elements.text.value.toLowerCase().split(/\s+/).filter(Boolean);
    const outcomes = new Set(new FormData(form).getAll('outcome'));
    let shown = 0;
    for (const { row, detail, text } of entries) {
      const fits = outcomes.has(row.dataset.outcome) && words.every((word) => text.includes(word));
      row.hidden = !fits;
      if (detail) detail.hidden = !fits;
      shown += fits;
    }
    form.elements.shown.value = shown + ' of ' + entries.length;
    turn(0);
  };
  form.addEventListener('input', filter);
  form.addEventListener('submit', (event) => event.preventDefault());
  form.hidden = false;
  filter();
};
arrange();

// A link to an experiment opens what it leads to.
const follow = () => {
  const inside = document.getElementById(location.hash.slice(1));
  const detail = inside && inside.closest('details');
  if (detail) {
    detail.open = true;
    detail.hidden = false;
    detail.classList.remove('off');
    inside.scrollIntoView();
  }
};
addEventListener('hashchange', follow);
follow();
