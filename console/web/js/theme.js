// A classic script in the head: the chosen theme must stand before the first
// paint. Without a choice the system's preference holds (see css/base.css).
(() => {
  const key = "agentd.theme";
  const root = document.documentElement;
  const names = ["auto", "light", "dark"];

  const read = () => {
    try {
      const name = localStorage.getItem(key);
      return names.includes(name) ? name : "auto";
    } catch {
      return "auto"; // storage may be switched off
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
