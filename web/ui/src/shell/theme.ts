import { useSyncExternalStore } from 'react';

export type Theme = 'light' | 'dark';

const key = 'landfall-theme';
const darkClass = 'pf-v6-theme-dark';
const darkSystem = '(prefers-color-scheme: dark)';

/** The user's choice in this browser, otherwise the preference of the system. */
const preferredTheme = (): Theme => {
  const chosen = localStorage.getItem(key);
  if (chosen === 'light' || chosen === 'dark') {
    return chosen;
  }
  return window.matchMedia(darkSystem).matches ? 'dark' : 'light';
};

const applyTheme = (theme: Theme): void => {
  document.documentElement.classList.toggle(darkClass, theme === 'dark');
  // Otherwise the browser draws its own controls in the theme of the system: on a dark one, an
  // empty checkbox of the light page is filled.
  document.documentElement.style.setProperty('color-scheme', theme);
};

/** Applies the theme to the page, also when the system changes its own, such as at night. */
export const followTheme = (): void => {
  const apply = () => {
    applyTheme(preferredTheme());
  };
  apply();
  window.matchMedia(darkSystem).addEventListener('change', apply);
};

/** Applies the theme to the page and stores the choice. */
export const chooseTheme = (theme: Theme): void => {
  localStorage.setItem(key, theme);
  applyTheme(theme);
};

const shownTheme = (): Theme => (document.documentElement.classList.contains(darkClass) ? 'dark' : 'light');

const observe = (changed: () => void) => {
  const observer = new MutationObserver(changed);
  observer.observe(document.documentElement, { attributeFilter: ['class'] });
  return () => {
    observer.disconnect();
  };
};

/** The theme that the page shows. */
export const useTheme = (): Theme => useSyncExternalStore(observe, shownTheme);
