#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Looks at pages in headless Chromium as a reader would: check_pages.py PAGE.html...

At 390 and 1280 px and in both themes: the page is no wider than the window, the console is silent, no two texts of
a chart overlap, no text of a chart is smaller than 10.5 px, and every text has a contrast of at least 4.5 to what is
behind it. Prints a line for each fault and exits with 1 when there is one, with 77 where there is no Chromium.
"""

import html
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

WIDTHS = (390, 1280)
THEMES = ("light", "dark")
MOST_SHOWN = 5  # faults of one kind on one page

# Runs in the page; its answer is JSON in an element of its own.
SCRIPT = r"""
(() => {
  document.documentElement.dataset.theme = 'THEME';
  const faults = [];
  const say = (kind, what) => faults.push([kind, what]);
  const visible = (e) => { const b = e.getBoundingClientRect(); return b.width > 0 && b.height > 0; };
  if (document.documentElement.scrollWidth > innerWidth) {
    say('wider than the window', document.documentElement.scrollWidth + ' > ' + innerWidth);
  }

  for (const svg of document.querySelectorAll('svg')) {
    const boxes = [...svg.querySelectorAll('text')].filter(visible).map((e) => ({
      text: e.textContent, box: e.getBoundingClientRect(),
      size: parseFloat(getComputedStyle(e).fontSize) * e.getScreenCTM().a}));
    boxes.forEach((a, i) => {
      if (a.size < 10.45) say('small text', a.text + ': ' + a.size.toFixed(1) + ' px');
      // Boxes have room for accents and descenders that these texts hardly use.
      for (const b of boxes.slice(i + 1)) {
        const x = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
        const y = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
        if (x > 2 && y > 0.45 * Math.min(a.box.height, b.box.height)) say('overlap', a.text + ' / ' + b.text);
      }
    });
  }

  const rgba = (text) => {
    const n = text.match(/[\d.]+/g).map(Number);
    const scale = text.startsWith('color(') ? 255 : 1;
    return {c: n.slice(0, 3).map((v) => v * scale), a: n.length > 3 ? n[3] : 1};
  };
  const over = (top, under) => top.c.map((v, i) => top.a * v + (1 - top.a) * under[i]);
  const behind = (e) => {
    const layers = [];
    for (let at = e; at; at = at.parentElement) {
      const layer = rgba(getComputedStyle(at).backgroundColor);
      if (layer.a > 0) layers.push(layer);
      if (layer.a === 1) break;
    }
    return layers.reverse().reduce((under, layer) => over(layer, under), [255, 255, 255]);
  };
  const luminance = (c) => {
    const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const seen = new Set();
  for (const e of document.querySelectorAll('body *')) {
    if (['SCRIPT', 'STYLE', 'TITLE', 'DESC', 'title', 'desc'].includes(e.tagName)) continue;
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !visible(e) || getComputedStyle(e).visibility === 'hidden') continue;
    const style = getComputedStyle(e);
    const is_svg = e instanceof SVGElement;
    if (is_svg && style.fill === 'none') continue;
    const under = behind(e);
    const ink = over(rgba(is_svg ? style.fill : style.color), under);
    const [low, high] = [luminance(ink), luminance(under)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    const key = e.tagName + '.' + e.getAttribute('class');
    if (ratio >= 4.5 || seen.has(key)) continue;
    seen.add(key);
    say('contrast', ratio.toFixed(2) + ' of <' + key + '> ' + e.textContent.trim().slice(0, 40));
  }
  const out = document.createElement('pre');
  out.id = 'page-check';
  out.textContent = JSON.stringify({width: innerWidth, faults});
  document.body.append(out);
})();
"""

# A window cannot be as narrow as a phone; a frame can.
FRAME = """<!doctype html><meta charset="utf-8"><iframe style="border: 0; width: {width}px; height: 2000px"
srcdoc="{page}"></iframe><pre id="answer"></pre><script>
onload = () => {{ document.getElementById('answer').textContent =
  frames[0].document.getElementById('page-check').textContent; }};
</script>"""


def run_chromium(program, page, folder):
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
               f"--user-data-dir={folder / 'profile'}", "--enable-logging=stderr", "--window-size=1400,2000",
               "--dump-dom", page.resolve().as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


def console_of(program, page, folder):
    """[(kind, what)] that the browser says of a page as it is."""
    log = run_chromium(program, page, folder).stderr
    return [("console", line) for line in log.splitlines() if "CONSOLE" in line]


def faults_of(program, page, width, theme, folder):
    """[(kind, what)] of a copy of the page that lacks its policy and asks the browser."""
    faults = []
    text = re.sub(r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text())
    text = text.replace("</body>", f"<script>{SCRIPT.replace('THEME', theme)}</script></body>")
    asking = folder / "asking.html"
    asking.write_text(FRAME.format(width=width, page=html.escape(text)))
    dom = run_chromium(program, asking, folder).stdout
    found = re.search(r'<pre id="answer">(.+?)</pre>', dom, re.S)
    if not found:
        return [("no answer", "the check did not run to its end")]
    answer = json.loads(html.unescape(found.group(1)))
    if answer["width"] != width:
        faults.append(("no answer", f"the window is {answer['width']} px wide"))
    return faults + [tuple(fault) for fault in answer["faults"]]


def main(pages):
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not program:
        print("skipped: no Chromium in PATH", file=sys.stderr)
        return 77
    num_faults = 0

    def show(where, faults):
        nonlocal num_faults
        num_faults += len(faults)
        shown = {}
        for kind, what in faults:
            shown[kind] = shown.get(kind, 0) + 1
            if shown[kind] <= MOST_SHOWN:
                print(f"{where}: {kind}: {what}")

    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for page in map(pathlib.Path, pages):
            show(page.name, console_of(program, page, folder))
            for width in WIDTHS:
                for theme in THEMES:
                    show(f"{page.name} at {width} px, {theme}", faults_of(program, page, width, theme, folder))
    print(f"{len(pages)} pages, {num_faults} faults")
    return 1 if num_faults else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(sys.argv[1:]))
