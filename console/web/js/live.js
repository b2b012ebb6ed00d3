// Server-sent events of the console. A browser stops to reconnect when a proxy answers with an
// error page, so this module opens a new stream.

const firstWait = 1000;
const longestWait = 15000;

// follow calls onchange after every change and onstate with "live" or
// "offline"; it returns a function that ends it.
export function follow({ onchange, onstate }) {
  let source = null;
  let timer = 0;
  let wait = firstWait;
  let ended = false;

  function open() {
    if (ended) return;
    source = new EventSource("/api/events");
    source.addEventListener("open", () => {
      wait = firstWait;
      onstate("live");
      onchange(); // changes may have been missed
    });
    source.addEventListener("change", () => onchange());
    source.addEventListener("error", () => {
      onstate("offline");
      if (source.readyState !== EventSource.CLOSED) return;
      timer = setTimeout(open, wait);
      wait = Math.min(wait * 2, longestWait);
    });
  }

  const hurry = () => {
    if (source?.readyState !== EventSource.CLOSED) return;
    clearTimeout(timer);
    open();
  };
  globalThis.addEventListener("online", hurry);
  open();

  return () => {
    ended = true;
    clearTimeout(timer);
    globalThis.removeEventListener("online", hurry);
    source?.close();
  };
}

// coalesce runs an asynchronous function once for many calls, and once more
// if a call came while it ran.
export function coalesce(run) {
  let running = false;
  let again = false;
  return async function trigger() {
    if (running) {
      again = true;
      return;
    }
    running = true;
    try {
      do {
        again = false;
        await run();
      } while (again);
    } finally {
      running = false;
    }
  };
}

// debounce returns a function that calls run when it was not called for a while; cancel forgets what
// waits.
export function debounce(run, wait) {
  let timer = 0;
  const trigger = () => {
    clearTimeout(timer);
    timer = setTimeout(run, wait);
  };
  trigger.cancel = () => clearTimeout(timer);
  return trigger;
}
