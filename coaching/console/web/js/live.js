// Changes of the console, as they happen.

const pollEvery = 5000; // ms, in browsers without shared workers

// follow calls onchange after every change and onstate with "live" or
// "offline"; it returns a function that ends it.
export function follow({ onchange, onstate }) {
  if (!globalThis.SharedWorker) {
    onstate("live");
    const timer = setInterval(onchange, pollEvery);
    return () => clearInterval(timer);
  }
  const { port } = new SharedWorker("./assets/js/stream.js");
  port.onmessage = ({ data }) => {
    if (data !== "change") onstate(data === "open" ? "live" : "offline");
    if (data !== "error") onchange(); // changes may have been missed before "open"
  };
  return () => {
    port.onmessage = null;
    port.postMessage("end");
  };
}

// coalesce runs an asynchronous function once for many calls, and once more
// if a call came while it ran.
export function coalesce(run) {
  let running = false;
  let again = false;
  return async function trigger() {
    again = true;
    if (running) return;
    running = true;
    try {
      while (again) {
        again = false;
        await run();
      }
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
