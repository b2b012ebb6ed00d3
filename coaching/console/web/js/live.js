// Server-sent events of the console. A browser stops to reconnect when a proxy answers with an
// error page, so this module opens a new stream.

const pause = 5000; // ms before a new stream

// follow calls onchange after every change and onstate with "live" or
// "offline"; it returns a function that ends it.
export function follow({ onchange, onstate }) {
  let source = null;
  let timer = 0;

  function open() {
    source = new EventSource("./api/events");
    source.addEventListener("open", () => {
      onstate("live");
      onchange(); // changes may have been missed
    });
    source.addEventListener("change", () => onchange());
    source.addEventListener("error", () => {
      onstate("offline");
      if (source.readyState === EventSource.CLOSED) timer = setTimeout(open, pause);
    });
  }

  open();
  return () => {
    clearTimeout(timer);
    source.close();
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
