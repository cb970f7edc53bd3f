
(() => {
  const INTERVAL = 2000;
  const PATIENCE = 20000;
  const token = new URLSearchParams(location.search).get('token') ?? '';
  const link = document.getElementById('link');
  const dialog = document.getElementById('experiment');
  // What each place shows, the tag under which the server knows what it said last, and the course that is shown.
  const shown = new Map();
  let tag = '';
  let course = '';
  let wanted = '';
  let session = '';
  let timer = 0;
  let is_over = false;
  let is_busy = false;

  const say = (text, is_bad) => {
    link.textContent = text;
    link.classList.toggle('bad', is_bad);
  };
  const ask = (path, more = {}, headers = {}) =>
    fetch(path + '?' + new URLSearchParams({ token, ...more }), {
      headers,
      cache: 'no-store',
      signal: AbortSignal.timeout(PATIENCE),
    });

  // The server escapes whatever is not its own, and the policy of this document lets nothing else run.
  const parsed = (text) => {
    const template = document.createElement('template');
    template.innerHTML = text;
    return template.content;
  };
  const fill = (content) => {
    let is_changed = false;
    for (const part of content.querySelectorAll('[data-part]')) {
      const name = part.dataset.part;
      const place = document.getElementById(name);
      if (!place || shown.get(name) === part.innerHTML) continue;
      shown.set(name, part.innerHTML);
      const was = [...place.querySelectorAll('details')].map((detail) => detail.open);
      const tail = place.querySelector('.tail');
      const follows = !tail || tail.scrollHeight - tail.scrollTop - tail.clientHeight < 30;
      const top = tail ? tail.scrollTop : 0;
      place.replaceChildren(...part.childNodes);
      place.querySelectorAll('details').forEach((detail, at) => (detail.open = was[at] ?? false));
      place.querySelectorAll('.tail').forEach((log) => (log.scrollTop = follows ? log.scrollHeight : top));
      is_changed = true;
    }
    return is_changed;
  };

  // The user's filter and order outlive a new table.
  const choice = () => {
    const form = document.getElementById('filter');
    const sorted = document.querySelector('#all th[aria-sort]');
    return form && {
      text: form.elements.text.value,
      off: [...form.querySelectorAll('input[type=checkbox]:not(:checked)')].map((box) => box.value),
      column: sorted?.textContent,
      way: sorted ? sorted.getAttribute('aria-sort') : '',
    };
  };
  const choose = (chosen) => {
    const form = document.getElementById('filter');
    if (!form || !chosen) return;
    form.elements.text.value = chosen.text;
    form.querySelectorAll('input[type=checkbox]').forEach((box) => (box.checked = !chosen.off.includes(box.value)));
    form.dispatchEvent(new Event('input'));
    const head = [...document.querySelectorAll('#all th')].find((head) => head.textContent === chosen.column);
    for (let clicks = 0; clicks < 2 && head && head.getAttribute('aria-sort') !== chosen.way; clicks++) {
      head.querySelector('button')?.click();
    }
  };
  // Returns why there is nothing to show.
  const show = async (number) => {
    const asked = session;
    const answer = await ask('course', asked ? { session: asked } : {});
    const text = await answer.text();
    // Another session was chosen meanwhile: the next look fetches it.
    if (asked !== session) return '';
    if (!answer.ok) return text;
    const chosen = choice();
    if (fill(parsed(text))) {
      arrange();
      choose(chosen);
      for (const button of document.querySelectorAll('#pick button')) {
        button.setAttribute('aria-pressed', button.dataset.session === session);
      }
    }
    course = number;
    return '';
  };

  const look = async () => {
    clearTimeout(timer);
    if (is_over || is_busy) return;
    is_busy = true;
    try {
      const answer = await ask('now', {}, tag ? { 'If-None-Match': tag } : {});
      if (answer.status === 403) {
        is_over = true;
        say('refused: open the address that ar serve printed last', true);
        return;
      }
      if (answer.ok) {
        const content = parsed(await answer.text());
        const { title } = content.firstElementChild.dataset;
        wanted = content.firstElementChild.dataset.course;
        fill(content);
        document.title = title;
        tag = answer.headers.get('ETag') ?? '';
      } else if (answer.status !== 304) {
        throw new Error(answer.status);
      }
      const missing = wanted === course ? '' : await show(wanted);
      say(missing || 'live, ' + new Date().toLocaleTimeString(), missing !== '');
    } catch {
      say('no answer from ar serve; trying again', true);
    }
    is_busy = false;
    if (!document.hidden) timer = setTimeout(look, INTERVAL);
  };
  document.addEventListener('visibilitychange', () => document.hidden ? clearTimeout(timer) : look());

  document.addEventListener('click', async (event) => {
    const button = event.target.closest('#pick button');
    if (button) {
      session = button.dataset.session;
      course = '';
      look();
    }
  });

  // An experiment is fetched when somebody follows its link; closing it leaves the link.
  const open = async () => {
    const asked = location.hash;
    const [, id] = /^#e(\d+)$/.exec(asked) ?? [];
    if (id === undefined) return dialog.close();
    const inside = dialog.querySelector('div');
    inside.replaceChildren('…');
    if (!dialog.open) dialog.showModal();
    try {
      const answer = await ask('experiment', session ? { session, id } : { id });
      const text = await answer.text();
      // Another link was followed meanwhile.
      if (location.hash === asked) inside.replaceChildren(...parsed(text).childNodes);
    } catch {
      inside.replaceChildren('no answer from ar serve');
    }
  };
  dialog.addEventListener('close', () => {
    if (location.hash) history.replaceState(null, '', location.pathname + location.search);
  });
  addEventListener('hashchange', open);
  open();
  look();
})();
