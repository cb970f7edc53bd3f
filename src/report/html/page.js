(() => {
  'use strict';
  // A chart that is wider than its box shows the best experiment first: the last step of the line of bests.
  const best = document.querySelector('.chart .best');
  if (best) {
    const step = /.*[MH]([\d.]+)[V ]/.exec(best.getAttribute('d'));
    const chart = best.ownerSVGElement;
    const box = chart.parentElement;
    const share = step ? step[1] / chart.viewBox.baseVal.width : 0;
    box.scrollLeft = share * chart.clientWidth - box.clientWidth / 2;
  }
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

  // What a cell is sorted by: its number where it has one, else its text; empty ones come last either way.
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
    body.append(...keyed.map(([, entry]) => entry.row));
  };
  heads.forEach((head, column) => {
    const button = document.createElement('button');
    button.type = 'button';
    button.append(...head.childNodes);
    button.addEventListener('click', () => sort(column));
    head.append(button);
  });

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
  };
  form.addEventListener('input', filter);
  form.addEventListener('submit', (event) => event.preventDefault());
  form.hidden = false;
  filter();

  // A link to an experiment opens what it leads to.
  const open = () => {
    const inside = document.getElementById(location.hash.slice(1));
    const detail = inside && inside.closest('details');
    if (detail) {
      detail.open = true;
      detail.hidden = false;
      inside.scrollIntoView();
    }
  };
  addEventListener('hashchange', open);
  open();
})();
