// A shared worker: one event stream for all pages of a browser, which allows six connections to a host. A
// browser stops to reconnect when a proxy answers with an error page, so the worker opens a new stream.

const pause = 5000; // ms before a new stream
const pages = new Set(); // ports

let source;
let timer = 0;

function open() {
  source = new EventSource("../../api/events");
  for (const type of ["open", "change", "error"]) {
    source.addEventListener(type, () => { for (const page of pages) page.postMessage(type); });
  }
  source.addEventListener("error", () => { if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, pause); });
}

addEventListener("connect", ({ ports: [page] }) => {
  if (pages.size === 0) open();
  else if (source.readyState === EventSource.OPEN) page.postMessage("open");
  pages.add(page);
  page.onmessage = () => { // it leaves
    pages.delete(page);
    if (pages.size > 0) return;
    clearTimeout(timer);
    source.close();
  };
});
