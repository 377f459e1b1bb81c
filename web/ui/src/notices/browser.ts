import type { Kind, Notice } from './api';

/** Why this browser cannot show notifications; '' if it can. */
export const obstacle = (page: Window & typeof globalThis): string => {
  if (!page.isSecureContext) {
    return 'Browsers show notifications only of pages with HTTPS. Open this page with https://.';
  }
  if (!('Notification' in page)) {
    return 'This browser shows no notifications of pages.';
  }
  return page.Notification.permission === 'denied'
    ? 'This browser blocks the notifications of this page. Allow them in its settings for this page.'
    : '';
};

const key = 'landfall.notifications';
const changed = 'landfall-notifications';

/** Whether the person switched notifications on, and this browser permits them. */
export const isOn = (page: Window & typeof globalThis): boolean =>
  page.localStorage.getItem(key) === 'on' && obstacle(page) === '' && page.Notification.permission === 'granted';

/** Calls `notify` after the switch was used, also in another window. */
export const followSwitch = (page: Window, notify: () => void): (() => void) => {
  page.addEventListener(changed, notify);
  page.addEventListener('storage', notify);
  return () => {
    page.removeEventListener(changed, notify);
    page.removeEventListener('storage', notify);
  };
};

/** Switches the notifications on or off. The browser asks the person for its permission. */
export const setOn = async (page: Window & typeof globalThis, on: boolean): Promise<void> => {
  if (on && (await page.Notification.requestPermission()) === 'granted') {
    page.localStorage.setItem(key, 'on');
  } else {
    page.localStorage.removeItem(key);
  }
  page.dispatchEvent(new Event(changed));
};

/** The notifications after the one with the id `last`, the oldest one first. */
export const newer = (notices: readonly Notice[], last: string): Notice[] =>
  notices.filter(({ id }) => id > last).reverse();

const titles: Record<Kind, string> = {
  installed: 'Installed',
  failed: 'Failed',
  attention: 'Needs a person',
  test: 'Test',
};

export const titleOf = ({ kind, cluster, host }: Notice): string => {
  const name = host?.name ?? cluster?.name;
  return name === undefined ? titles[kind] : `${titles[kind]}: ${name}`;
};
