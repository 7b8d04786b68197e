#!/usr/bin/env python3
"""Checks the site in build/site (make site).

* Links and images: each relative one leads to a file, and each anchor to an element with that id; addresses of other
  sites are looked at only for their form.
* In headless Chromium, the pages of PAGES at the widths of a phone and of a desktop, in light and dark mode: nothing is
  wider than the page, every image is drawn, and text has a contrast of at least 4.5 to what is behind it (3 for large
  text; WCAG 2.1, success criterion 1.4.3). Screenshots go to build/site-check.

Without Chromium the second part prints NOT CHECKED.

usage: tools/doc/check-site.py [SITE]
"""
import functools
import http.server
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/site").resolve()
SHOTS = ROOT / "build/site-check"
PAGES = ["index.html", "articles/verdigris.html"]
WIDTHS = {"phone": (390, 844), "desktop": (1280, 800)}


class Page(HTMLParser):
    """The links, images and ids of a page."""

    def __init__(self, path):
        super().__init__()
        self.links, self.ids = [], set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        self.ids.update(attributes[name] for name in ("id", "name") if attributes.get(name))
        for name in ("href", "src"):
            # what a script fills in later has none yet
            if attributes.get(name) is not None and tag != "base":
                self.links.append(attributes[name])


def wrong_links():
    pages = {path: Page(path) for path in sorted(SITE.rglob("*.html"))}
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            here = f"{path.relative_to(SITE)}: {link}"
            if parts.scheme in ("http", "https"):
                host = re.fullmatch(r"[A-Za-z0-9.-]+\.[A-Za-z]{2,}(:\d+)?", parts.netloc)
                if not host or re.search(r"[\s<>\"]", link):
                    wrong.append(f"{here} is no address")
            elif parts.scheme in ("data", "mailto", "javascript") or parts.netloc:
                continue
            else:
                at = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
                if at.is_dir():
                    at /= "index.html"
                anchor = unquote(parts.fragment)
                if not at.exists():
                    wrong.append(f"{here} leads nowhere")
                elif anchor and at in pages and anchor not in pages[at].ids:
                    wrong.append(f"{here} has no such anchor")
    return len(pages), wrong


# Looks at the page in a frame of a given width, in both modes, and writes what it finds as JSON into the document.
HARNESS = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe id="f" style="border:0;width:%(w)dpx;height:%(h)dpx" src="%(page)s"></iframe><script>
const luminance = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255;
  return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
const channels = (text) => { const m = text.match(/[\\d.]+/g); if (!m) return [0, 0, 0, 0];
  const c = m.map(Number); return text.startsWith("color(srgb")
    ? [c[0] * 255, c[1] * 255, c[2] * 255, c.length > 3 ? c[3] : 1] : [c[0], c[1], c[2], c.length > 3 ? c[3] : 1]; };
const over = (top, below) => [0, 1, 2].map((k) => top[k] * top[3] + below[k] * (1 - top[3])).concat(1);
function look(w, mode) {
  const d = w.document, found = [];
  d.documentElement.setAttribute("data-bs-theme", mode);
  const style = d.createElement("style");
  style.textContent = "* { transition: none !important }"; d.head.append(style);
  const wide = d.documentElement.scrollWidth - w.innerWidth;
  if (wide > 0) {
    const scrolls = (e) => e &&
      (/auto|scroll|hidden/.test(w.getComputedStyle(e).overflowX) || scrolls(e.parentElement));
    const who = [...d.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > w.innerWidth &&
      !scrolls(e.parentElement));
    const names = who.slice(0, 3).map((e) => e.tagName + "." + e.className);
    found.push(wide + " pixels wider than the page: " + names.join(", "));
  }
  for (const i of d.images) {
    if (i.getClientRects().length && !(i.complete && i.naturalWidth)) found.push("not drawn: " + i.src);
  }
  const seen = new Set(); let texts = 0;
  const walker = d.createTreeWalker(d.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement;
    const seen_by_all = {opacityProperty: true, visibilityProperty: true};
    if (!walker.currentNode.data.trim() || /^(SCRIPT|STYLE|NOSCRIPT|SVG)$/i.test(e.tagName) ||
      !e.checkVisibility(seen_by_all)) continue;
    texts++;
    const s = w.getComputedStyle(e);
    let behind = [255, 255, 255, 1]; const layers = [];
    for (let a = e; a; a = a.parentElement) layers.push(channels(w.getComputedStyle(a).backgroundColor));
    for (const layer of layers.reverse()) behind = over(layer, behind);
    const text = over(channels(s.color), behind);
    const [a, b] = [luminance(text), luminance(behind)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(s.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(s.fontWeight) >= 700) ? 3 : 4.5;
    const label = e.tagName.toLowerCase() + (e.className ? "." + e.className : "") + " " + s.color;
    if (ratio < least && !seen.has(label)) { seen.add(label);
      const text = walker.currentNode.data.trim().slice(0, 30);
      found.push("contrast " + ratio.toFixed(2) + " of '" + text + "' (" + label + ")"); }
  }
  return {mode, width: w.innerWidth, texts, found};
}
const f = document.getElementById("f");
f.onload = () => setTimeout(() => {
  const out = document.createElement("pre"); out.id = "out";
  try { out.textContent = JSON.stringify(["%(mode)s"].map((mode) => look(f.contentWindow, mode))); }
  catch (e) { out.textContent = JSON.stringify([{mode: "%(mode)s", width: 0, texts: 0, found: [String(e)]}]); }
  out.style.display = "none"; document.body.append(out);
}, 300);
</script>"""


class Server(http.server.SimpleHTTPRequestHandler):
    """The site, and the harness of each look at it under /harness."""

    harness = ""

    def do_GET(self):
        if not self.path.startswith("/harness"):
            return super().do_GET()
        body = Server.harness.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *arguments):
        pass


def browse(browser, arguments):
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--hide-scrollbars", "--no-first-run", f"--user-data-dir={profile}",
                   "--virtual-time-budget=8000", *arguments]
        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return subprocess.run(command, timeout=120, check=True, **quiet).stdout


def wrong_pages(browser):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}"
    shutil.rmtree(SHOTS, ignore_errors=True)
    SHOTS.mkdir(parents=True)
    wrong, looks = [], 0
    # Bootstrap 5.3, and so pkgdown from 2.1 on, has a dark mode
    dark = any("data-bs-theme" in css.read_text(encoding="utf-8") for css in SITE.rglob("bootstrap*.css"))
    modes = ("light", "dark") if dark else ("light",)
    if not dark:
        print("this pkgdown makes pages without a dark mode: looked at in light mode only")
    for page in PAGES:
        for name, (w, h) in WIDTHS.items():
            for mode in modes:
                Server.harness = HARNESS % {"w": w, "h": h, "page": "/" + page, "mode": mode}
                where = f"{page}, {w} pixels, {mode}"
                dom = browse(browser, [f"--window-size={max(w, 600)},{h}", "--dump-dom", f"{address}/harness"]).decode()
                out = re.search(r'<pre id="out"[^>]*>(.*?)</pre>', dom, re.S)
                if not out:
                    wrong.append(f"{where}: the page could not be looked at")
                    continue
                text = out.group(1)
                for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):
                    text = text.replace(entity, character)
                look = json.loads(text)[0]
                if look["width"] != w or look["texts"] < 30:
                    wrong.append(f"{where}: {look['texts']} texts at {look['width']} pixels are not the page")
                wrong += [f"{where}: {what}" for what in look["found"]]
                looks += 1
                shot = SHOTS / f"{pathlib.Path(page).stem}-{name}-{mode}.png"
                browse(browser, [f"--window-size={max(w, 600)},{h}", f"--screenshot={shot}", f"{address}/harness"])
    server.shutdown()
    return looks, wrong


def main():
    if not (SITE / "index.html").exists():
        sys.exit(f"check-site.py: there is no site in {SITE}; run make site.")
    pages, wrong = wrong_links()
    print(f"links of {pages} pages: {len(wrong)} wrong")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser:
        looks, more = wrong_pages(browser)
        print(f"{looks} looks at {len(PAGES)} pages: {len(more)} wrong; screenshots are in {SHOTS.relative_to(ROOT)}")
        wrong += more
    else:
        print("NOT CHECKED: how the site looks, which needs Chromium (Debian: apt-get install chromium)")
    for what in wrong:
        print(f"  {what}")
    sys.exit(bool(wrong))


main()
