/** Which of the library's pages an address shows. */
export type ShownPage = { name: 'list' } | { name: 'new' } | { name: 'cluster'; clusterId: string };

const address = /^\/assisted-installer\/clusters\/([^/]+)\/?/;

/** Reads the page from a path: `/assisted-installer/clusters[/~new | /{cluster id}]`. */
export const shownPage = (path: string): ShownPage => {
  const name = address.exec(path)?.[1];
  if (!name) {
    return { name: 'list' };
  }
  return name === '~new' ? { name: 'new' } : { name: 'cluster', clusterId: name };
};
