export type Theme = 'light' | 'dark';

const key = 'landfall-theme';
const darkClass = 'pf-v6-theme-dark';

/** What the person chose on this browser, else what the browser prefers. */
export const preferredTheme = (): Theme => {
  const chosen = localStorage.getItem(key);
  if (chosen === 'light' || chosen === 'dark') {
    return chosen;
  }
  return window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
};

/** The theme that the page is shown in. */
export const shownTheme = (): Theme =>
  document.documentElement.classList.contains(darkClass) ? 'dark' : 'light';

/** Shows the page in that theme. */
export const applyTheme = (theme: Theme): void => {
  document.documentElement.classList.toggle(darkClass, theme === 'dark');
};

/** Shows the page in that theme and remembers the choice. */
export const chooseTheme = (theme: Theme): void => {
  localStorage.setItem(key, theme);
  applyTheme(theme);
};
