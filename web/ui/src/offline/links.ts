import { needsInternet } from './hosts';

/** The DOM event, on `window`, that tells which address was kept from being followed. */
export const blockedLink = 'landfall:blocked-link';

/**
 * Keeps the page's links and pop-ups from leading to the internet: instead of being followed, the address is announced
 * by a `blockedLink` event. Links to a cluster's console, to the appliance and to anything else of the site are left
 * alone. Returns a function that takes the guard away.
 */
export const guardLinks = (page: Window): (() => void) => {
  const announce = (address: string) => {
    page.dispatchEvent(new CustomEvent(blockedLink, { detail: address }));
  };
  const onClick = (event: MouseEvent) => {
    const link = (event.target as Element | null)?.closest('a[href]');
    const address = link?.getAttribute('href');
    if (address && needsInternet(address, page.location.href)) {
      event.preventDefault();
      announce(new URL(address, page.location.href).href);
    }
  };
  const open = page.open.bind(page);
  page.open = (url, ...rest) => {
    if (url && needsInternet(String(url), page.location.href)) {
      announce(String(url));
      return null;
    }
    return open(url, ...rest);
  };
  page.document.addEventListener('click', onClick, true);
  page.document.addEventListener('auxclick', onClick, true);
  return () => {
    page.open = open;
    page.document.removeEventListener('click', onClick, true);
    page.document.removeEventListener('auxclick', onClick, true);
  };
};
