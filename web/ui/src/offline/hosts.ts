/**
 * The sites that the library's texts link to for further reading. The page never sends requests to
 * them. A link to one of them is marked as needing the internet, and a click shows its address
 * instead. (`landfall.css` lists the same sites; a test compares both with the library's sources.)
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

/** Reports whether the address is on one of the internet sites that the library links to. */
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
