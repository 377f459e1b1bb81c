/** A page of the clusters: the list, the wizard for a new one, or one of them. */
export type ShownPage = { name: 'list' } | { name: 'new' } | { name: 'cluster'; clusterId: string };

const address = /^\/assisted-installer\/clusters\/([^/]+)\/?/;

/** Whether a page of the clusters has this path. The library would show its list at others. */
export const isLibraryPath = (path: string): boolean =>
  /^\/assisted-installer(\/clusters(\/[^/]+|\/~new\/[^/]+)?)?\/?$/.test(path);

/** Reads the page from a path: `/assisted-installer/clusters[/~new | /{cluster id}]`. */
export const shownPage = (path: string): ShownPage => {
  const name = address.exec(path)?.[1];
  if (!name) {
    return { name: 'list' };
  }
  return name === '~new' ? { name: 'new' } : { name: 'cluster', clusterId: name };
};

/**
 * The title of the browser's window or tab. A cluster's page has the cluster's name once it is
 * known.
 */
export const pageTitle = (page: ShownPage, clusterName?: string): string => {
  switch (page.name) {
    case 'list':
      return 'Clusters · Landfall';
    case 'new':
      return 'New cluster · Landfall';
    case 'cluster':
      return clusterName ? `${clusterName} · Landfall` : 'Landfall';
  }
};
