// The login with an OpenID Connect provider leaves the page and comes back to its root.

const key = 'landfall-return';

/** The time for which the appliance waits for an answer of the provider, in milliseconds. */
const validFor = 15 * 60_000;

type Place = { path: string; left: number };

/** Remembers the place that the page shows, in this tab. */
export const rememberPlace = ({ location, sessionStorage }: Window): void => {
  const path = `${location.pathname}${location.search}${location.hash}`;
  sessionStorage.setItem(key, JSON.stringify({ path, left: Date.now() } satisfies Place));
};

/** Shows the remembered place if the page was opened at its root. */
export const returnToPlace = ({ location, history, sessionStorage }: Window): void => {
  const remembered = sessionStorage.getItem(key);
  sessionStorage.removeItem(key);
  if (remembered === null || location.pathname !== '/') {
    return;
  }
  const { path, left } = JSON.parse(remembered) as Place;
  if (Date.now() - left < validFor) {
    history.replaceState(null, '', path);
  }
};
