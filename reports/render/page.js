// SPDX-License-Identifier: Apache-2.0
'use strict';
// The page is complete without this script: it adds tooltips, highlighting, sorting, filtering, themes and copying.
(() => {
  const root = document.documentElement;
  root.classList.remove('no-script');

  // Theme: ?theme=dark or light wins, then the button, then the system.
  const themes = ['auto', 'light', 'dark'];
  const asked = new URLSearchParams(location.search).get('theme');
  const button = document.getElementById('theme');
  const setTheme = (name) => {
    if (name === 'auto') delete root.dataset.theme; else root.dataset.theme = name;
    if (button) { button.textContent = 'Theme: ' + name; button.dataset.now = name; }
  };
  setTheme(themes.includes(asked) ? asked : 'auto');
  if (button) button.addEventListener('click', () => setTheme(themes[(themes.indexOf(button.dataset.now) + 1) % 3]));

  // Tooltips: the <title> of a mark, moved to an attribute so that the browser does not show it a second time.
  for (const title of document.querySelectorAll('svg .pt > title')) {
    title.parentNode.dataset.tip = title.textContent;
    title.parentNode.setAttribute('aria-label', title.textContent);
    title.remove();
  }
  const tip = document.createElement('div');
  tip.id = 'tip'; tip.setAttribute('role', 'tooltip'); document.body.append(tip);
  const place = (x, y) => {
    const box = tip.getBoundingClientRect();
    tip.style.left = Math.max(8, Math.min(x + 14, innerWidth - box.width - 8)) + 'px';
    tip.style.top = (y + 18 + box.height > innerHeight ? y - box.height - 12 : y + 18) + 'px';
  };
  const show = (target, x, y) => {
    const mark = target.closest && target.closest('[data-tip]');
    tip.textContent = mark ? mark.dataset.tip : '';
    if (mark) place(x, y);
    const series = target.closest && target.closest('[data-m]');
    if (series) root.dataset.hl = series.dataset.m; else delete root.dataset.hl;
  };
  document.addEventListener('pointerover', (e) => show(e.target, e.clientX, e.clientY));
  document.addEventListener('pointermove', (e) => { if (tip.textContent) place(e.clientX, e.clientY); });
  document.addEventListener('focusin', (e) => { const b = e.target.getBoundingClientRect(); show(e.target, b.left, b.bottom); });
  document.addEventListener('keydown', (e) => { if (e.key === 'Escape') { tip.textContent = ''; delete root.dataset.hl; } });

  // Sorting: a header is a button; missing values stay at the end in both directions.
  for (const th of document.querySelectorAll('th[data-col]')) {
    th.querySelector('button').addEventListener('click', () => {
      const body = th.closest('table').tBodies[0], at = +th.dataset.col;
      const down = th.getAttribute('aria-sort') === 'ascending' || (!th.hasAttribute('aria-sort') && th.dataset.first === 'down');
      for (const other of th.parentNode.children) other.removeAttribute('aria-sort');
      th.setAttribute('aria-sort', down ? 'descending' : 'ascending');
      const key = (row) => {
        const text = row.cells[at].firstChild ? row.cells[at].firstChild.textContent : '';
        const known = row.cells[at].dataset.v;
        if (!('number' in th.dataset)) return known === undefined ? row.cells[at].textContent : +known;
        const value = known || text.replace(/,/g, '');
        return value === '' || isNaN(value) ? null : +value;
      };
      [...body.rows].map((row, i) => ({ row, i, k: key(row) })).sort((a, b) => {
        if (a.k === null || b.k === null) return (a.k === null) - (b.k === null) || a.i - b.i;
        const order = (x) => (typeof x === 'number' ? 0 : 1);  // numbers before texts
        const d = order(a.k) - order(b.k) ||
          (order(a.k) === 0 ? a.k - b.k : a.k.localeCompare(b.k, 'en', { numeric: true }));
        return (down ? -d : d) || a.i - b.i;
      }).forEach((r) => body.append(r.row));
    });
  }

  // Filtering a long table: every word must occur in the row.
  for (const input of document.querySelectorAll('input[data-filter]')) {
    const rows = [...document.getElementById(input.dataset.filter).tBodies[0].rows];
    const told = input.parentNode.querySelector('output');
    const text = rows.map((r) => r.textContent.toLowerCase());
    input.addEventListener('input', () => {
      const words = input.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      rows.forEach((r, i) => { r.hidden = !words.every((w) => text[i].includes(w)); shown += !r.hidden; });
      told.textContent = words.length ? `${shown} of ${rows.length}` : `${rows.length} rows`;
    });
  }

  for (const b of document.querySelectorAll('button[data-copy]')) {
    b.addEventListener('click', async () => {
      await navigator.clipboard.writeText(document.getElementById(b.dataset.copy).textContent);
      b.textContent = 'Copied'; setTimeout(() => { b.textContent = 'Copy'; }, 1500);
    });
  }
  const reveal = () => { const t = location.hash && document.querySelector(location.hash); const d = t && t.closest('details'); if (d) d.open = true; };
  addEventListener('hashchange', reveal); reveal();
})();
