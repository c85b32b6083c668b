// Light or dark: as the reader's system prefers, unless they say otherwise.

const KEY = "dissonance-theme";

/** @param {HTMLElement} root @param {(dark: boolean) => void} onChange */
export function theme(root, onChange) {
  const system = matchMedia("(prefers-color-scheme: dark)");
  const stored = () => {
    try {
      return localStorage.getItem(KEY);
    } catch {
      return null; // a page without storage follows the system
    }
  };
  let chosen = stored();
  const dark = () => (chosen ? chosen === "dark" : system.matches);
  const apply = () => {
    root.dataset.theme = dark() ? "dark" : "light";
    onChange(dark());
  };
  system.addEventListener("change", apply);
  apply();
  return {
    dark,
    toggle() {
      chosen = dark() ? "light" : "dark";
      try {
        localStorage.setItem(KEY, chosen);
      } catch {
        // it holds until the page is closed
      }
      apply();
    },
  };
}
