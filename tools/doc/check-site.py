#!/usr/bin/env python3
"""Checks the site in build/site (make site).

* Links and images: each relative one leads to a file, and each anchor to an element with that id; addresses of other
  sites are looked at only for their form.
* In headless Chromium, every page at the widths of a phone and of a desktop, for a reader who prefers light and for one
  who prefers dark pages (and, where the site has a switch, switched to dark): nothing is wider than the page, every
  image is drawn, and each visible text, placeholder and menu entry has a contrast of at least 4.5 to what is behind it
  (3 for large text; WCAG 2.1, success criterion 1.4.3). Screenshots of PAGES go to build/site-check.

Without Chromium the second part prints NOT CHECKED.

usage: tools/doc/check-site.py [SITE]
"""
import functools
import html
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


# Looks at pages, one after the other, in a frame of a given width, and writes what it finds as JSON into the document.
HARNESS = """<!doctype html><meta charset="utf-8"><body style="margin:0">
<iframe id="f" style="border:0;width:%(w)dpx;height:%(h)dpx"></iframe><script>
const luminance = (c) => { const [r, g, b] = c.slice(0, 3).map((v) => { v /= 255;
  return v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
// a colour in any of CSS' notations
const pixel = new OffscreenCanvas(1, 1).getContext("2d", {willReadFrequently: true}), known = new Map();
const channels = (text) => {
  if (!known.has(text)) {
    pixel.clearRect(0, 0, 1, 1); pixel.fillStyle = text; pixel.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = pixel.getImageData(0, 0, 1, 1).data;
    known.set(text, [r, g, b, a / 255]);
  }
  return [...known.get(text)];
};
const over = (top, below) => [0, 1, 2].map((k) => top[k] * top[3] + below[k] * (1 - top[3])).concat(1);
function look(w) {
  const d = w.document, found = [], dark = w.matchMedia("(prefers-color-scheme: dark)").matches;
  if ("%(theme)s") d.documentElement.setAttribute("data-bs-theme", "%(theme)s");
  if (dark !== ("%(prefers)s" === "dark")) found.push("this browser does not prefer %(prefers)s");
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
  const wanted = "%(theme)s" || "%(prefers)s";
  const ground = luminance(channels(w.getComputedStyle(d.body).backgroundColor));
  if (wanted === "dark" ? ground > 0.1 : ground < 0.8) found.push("the ground is not " + wanted);
  // what is behind an element, and how much of it shows through by the opacity of its ancestors
  const behind = (e) => {
    let ground = [255, 255, 255, 1], opacity = 1; const layers = [];
    for (let a = e; a; a = a.parentElement) layers.push(w.getComputedStyle(a));
    for (const s of layers.reverse()) { opacity *= Number(s.opacity); ground = over(channels(s.backgroundColor), ground); }
    return [ground, opacity];
  };
  const seen = new Set(); let texts = 0;
  const contrast = (text, e, s) => {
    texts++;
    const [ground, opacity] = behind(e), color = channels(s.color);
    color[3] *= opacity;
    const [a, b] = [luminance(over(color, ground)), luminance(ground)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05), size = parseFloat(s.fontSize);
    const least = size >= 24 || (size >= 18.66 && Number(s.fontWeight) >= 700) ? 3 : 4.5;
    const label = e.tagName.toLowerCase() + (e.className ? "." + e.className : "") + " " + s.color;
    if (ratio < least && !seen.has(label)) { seen.add(label);
      found.push("contrast " + ratio.toFixed(2) + " of '" + text.trim().slice(0, 30) + "' (" + label + ")"); }
  };
  // menus are open for this
  const menus = [...d.querySelectorAll(".dropdown-menu, .collapse")].filter((e) => !e.classList.contains("show"));
  for (const menu of menus) menu.classList.add("show");
  const walker = d.createTreeWalker(d.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const e = walker.currentNode.parentElement, text = walker.currentNode.data;
    if (text.trim() && !/^(SCRIPT|STYLE|NOSCRIPT|SVG)$/i.test(e.tagName) &&
      e.checkVisibility({opacityProperty: true, visibilityProperty: true})) contrast(text, e, w.getComputedStyle(e));
  }
  for (const e of d.querySelectorAll("[placeholder]")) {
    if (e.checkVisibility()) contrast(e.placeholder, e, w.getComputedStyle(e, "::placeholder"));
  }
  for (const menu of menus) menu.classList.remove("show");
  return {width: w.innerWidth, texts, found};
}
const f = document.getElementById("f"), pages = %(pages)s, looks = [];
f.onload = () => setTimeout(() => {
  let seen;
  try { seen = look(f.contentWindow); } catch (e) { seen = {width: 0, texts: 0, found: [String(e)]}; }
  looks.push({page: pages[looks.length], ...seen});
  if (looks.length < pages.length) { f.src = "/" + pages[looks.length]; return; }
  const out = document.createElement("pre"); out.id = "out";
  out.textContent = JSON.stringify(looks);
  out.style.display = "none"; document.body.append(out);
}, 200);
f.src = "/" + pages[0];
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


def browse(browser, prefers, arguments):
    with tempfile.TemporaryDirectory() as profile:
        command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--hide-scrollbars", "--no-first-run", f"--user-data-dir={profile}",
                   "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
                   f"--blink-settings=preferredColorScheme={0 if prefers == 'dark' else 1}", *arguments]
        quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return subprocess.run(command, timeout=300, check=True, **quiet).stdout


def wrong_pages(browser):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Server, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/harness"
    shutil.rmtree(SHOTS, ignore_errors=True)
    SHOTS.mkdir(parents=True)
    wrong, looks = [], 0
    every = sorted(str(page.relative_to(SITE)) for page in SITE.rglob("*.html"))
    # pages that only lead to another one
    every = [page for page in every if 'http-equiv="refresh"' not in (SITE / page).read_text(encoding="utf-8")]
    # name, the browser's preference, what the switch says
    modes = [("light", "light", ""), ("dark", "dark", "")]
    # pkgdown from 2.1 on has a switch
    if "data-bs-theme-value" in (SITE / "index.html").read_text(encoding="utf-8"):
        modes.append(("switched", "light", "dark"))
    for name, (w, h) in WIDTHS.items():
        for mode, prefers, theme in modes:
            def harness(pages):
                Server.harness = HARNESS % {"w": w, "h": h, "pages": json.dumps(pages), "prefers": prefers,
                                            "theme": theme}
            window = f"--window-size={max(w, 600)},{h}"
            harness(every)
            budget = f"--virtual-time-budget={2000 + 1000 * len(every)}"
            dom = browse(browser, prefers, [window, budget, "--dump-dom", address]).decode()
            out = re.search(r'<pre id="out"[^>]*>(.*?)</pre>', dom, re.S)
            if not out:
                wrong.append(f"{w} pixels, {mode}: the pages could not be looked at")
                continue
            for look in json.loads(html.unescape(out.group(1))):
                where = f"{look['page']}, {w} pixels, {mode}"
                if look["width"] != w or look["texts"] < 20:
                    wrong.append(f"{where}: {look['texts']} texts at {look['width']} pixels are not the page")
                wrong += [f"{where}: {what}" for what in look["found"]]
                looks += 1
            for page in PAGES:
                harness([page])
                shot = SHOTS / f"{pathlib.Path(page).stem}-{name}-{mode}.png"
                browse(browser, prefers, [window, "--virtual-time-budget=8000", f"--screenshot={shot}", address])
    server.shutdown()
    return len(every), looks, wrong


def main():
    if not (SITE / "index.html").exists():
        sys.exit(f"check-site.py: there is no site in {SITE}; run make site.")
    pages, wrong = wrong_links()
    print(f"links of {pages} pages: {len(wrong)} wrong")
    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser:
        seen, looks, more = wrong_pages(browser)
        print(f"{looks} looks at {seen} pages: {len(more)} wrong; screenshots are in {SHOTS.relative_to(ROOT)}")
        wrong += more
    else:
        print("NOT CHECKED: how the site looks, which needs Chromium (Debian: apt-get install chromium)")
    for what in wrong:
        print(f"  {what}")
    sys.exit(bool(wrong))


main()
