// Checks of the correction by the console, soon after every change.

import { api } from "./api.js";
import { debounce } from "./live.js";

const pause = 250; // ms without a change before a check

// createChecker checks what read() returns; onresult is called with
// {state, problems, output}, where state is checking, valid, invalid or unknown (the check failed).
export function createChecker(id, { read, onresult }) {
  let aborter = null;
  let last = null; // {text, result}

  async function now() {
    soon.cancel();
    const content = read();
    const text = JSON.stringify(content);
    if (last?.text === text && last.result.state !== "unknown") return report(text, last.result);
    aborter?.abort();
    aborter = new AbortController();
    onresult({ state: "checking", problems: [], output: "" });
    try {
      const answer = await api.check(id, content, aborter.signal);
      return report(text, { state: answer.valid ? "valid" : "invalid", problems: answer.problems ?? [], output: answer.output ?? "" });
    } catch (error) {
      if (error.name === "AbortError") return { state: "checking", problems: [], output: "" };
      const refused = error.status === 422 ? error.problems : [];
      return report(text, refused.length > 0
        ? { state: "invalid", problems: refused, output: "" }
        : { state: "unknown", problems: [{ loc: [], msg: error.message }], output: "" });
    }
  }

  function report(text, result) {
    last = { text, result };
    onresult(result);
    return result;
  }

  const soon = debounce(now, pause);

  return {
    now,
    changed() {
      aborter?.abort(); // its answer would be about an older text
      soon();
    },
    end() {
      soon.cancel();
      aborter?.abort();
    },
  };
}
