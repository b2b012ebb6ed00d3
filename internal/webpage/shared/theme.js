// The theme. This is a classic script in the head, so the theme is set before the first paint.
// The default is the system's preference (see base.css).
(() => {
  const key = "agentd.theme";
  const root = document.documentElement;
  const names = ["auto", "light", "dark"];

  const read = () => {
    try {
      const name = localStorage.getItem(key);
      return names.includes(name) ? name : "auto";
    } catch {
      return "auto"; // storage may be disabled
    }
  };

  const apply = (name) => {
    if (name === "auto") delete root.dataset.theme;
    else root.dataset.theme = name;
  };

  apply(read());

  globalThis.agentdTheme = {
    current: read,
    next() {
      const name = names[(names.indexOf(read()) + 1) % names.length];
      try {
        localStorage.setItem(key, name);
      } catch {
        // The choice then lasts as long as the page.
      }
      apply(name);
      return name;
    },
  };
})();
