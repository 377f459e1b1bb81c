import { lazy } from 'react';

/**
 * The wizard of a cluster. A new cluster needs only the first step, so the others, which have most
 * of the library's code, are loaded for a cluster that exists.
 */
export const ClusterPage = lazy(async () => ({
  default: (await import('ui-lib/ocm/components/clusters/ClusterPage')).ClusterPage,
}));
