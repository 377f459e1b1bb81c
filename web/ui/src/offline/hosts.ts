/**
 * The sites that the library's texts link to for further reading. None of them is ever asked for anything by the page;
 * a link to one is shown with a word that it needs the internet, and following it shows its address instead.
 * (`landfall.css` names the same sites; a test holds both against the library's sources.)
 */
export const internetSites = [
  'redhat.com',
  'openshift.com',
  'nmstate.io',
  'github.com',
  'githubusercontent.com',
  'google.com',
  'intersight.com',
] as const;

/** Whether the address is on one of the internet sites that the library links to. */
export const needsInternet = (address: string, base: string): boolean => {
  let url: URL;
  try {
    url = new URL(address, base);
  } catch {
    return false;
  }
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    return false;
  }
  if (url.origin === new URL(base).origin) {
    return url.pathname === '/openshift/releases';
  }
  return internetSites.some((site) => url.hostname === site || url.hostname.endsWith(`.${site}`));
};
