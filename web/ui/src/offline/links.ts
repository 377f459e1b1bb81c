import { needsInternet } from './hosts';

/** The DOM event, on `window`, that reports the address of a blocked link. */
export const blockedLink = 'landfall:blocked-link';

/**
 * Prevents links and pop-ups of the page from opening internet sites. A `blockedLink` event reports
 * the address instead. Links to a cluster's console, the appliance and other machines of the site
 * are not changed. Returns a function that removes the guard.
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
