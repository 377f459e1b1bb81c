export type Theme = 'light' | 'dark';

const key = 'landfall-theme';
const darkClass = 'pf-v6-theme-dark';

/** The user's choice in this browser, otherwise the preference of the browser. */
export const preferredTheme = (): Theme => {
  const chosen = localStorage.getItem(key);
  if (chosen === 'light' || chosen === 'dark') {
    return chosen;
  }
  return window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
};

/** The current theme of the page. */
export const shownTheme = (): Theme =>
  document.documentElement.classList.contains(darkClass) ? 'dark' : 'light';

/** Applies the theme to the page. */
export const applyTheme = (theme: Theme): void => {
  document.documentElement.classList.toggle(darkClass, theme === 'dark');
};

/** Applies the theme to the page and stores the choice. */
export const chooseTheme = (theme: Theme): void => {
  localStorage.setItem(key, theme);
  applyTheme(theme);
};
