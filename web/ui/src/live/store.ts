import { Store } from '@openshift-assisted/ui-lib/ocm';
import ClustersAPI from 'ui-lib/common/api/assisted-service/ClustersAPI';
import { ResourceUIState } from 'ui-lib/common/types/resource-ui-state';
import { fetchClusterAsync, forceReload } from 'ui-lib/ocm/store/slices/current-cluster/slice';
import type { Notice } from './feed';
import { Overdue } from './overdue';
import { shownPage } from './page';
import { Refresh } from './refresh';

/**
 * The part of the library's store that this module reads. (The library's published types leave the
 * type of the state open.)
 */
type State = {
  currentCluster: {
    data?: { id?: string; name?: string };
    uiState: ResourceUIState;
    errorDetail?: { code: string | number };
  };
};

const store = Store.storeDay1;
const state = (): State => store.getState();
const loading = new Set([ResourceUIState.LOADING, ResourceUIState.RELOADING]);

/**
 * Makes the library's store fetch the objects on the page again when the feed reports a change of
 * them, and when a request takes too long.
 */
export class StoreRefresher {
  readonly #cluster = new Refresh(reloadCluster, () => loading.has(state().currentCluster.uiState));
  readonly #overdue = new Overdue(() => {
    ClustersAPI.abortLastGetRequest();
    this.#cluster.changed();
  });
  readonly #unsubscribe = store.subscribe(() => {
    this.#follow();
  });

  constructor() {
    this.#follow();
  }

  /** Handles a notice of the feed. Notices that do not concern the page are ignored. */
  changed(notice: Notice): void {
    const page = shownPage(window.location.pathname);
    if (page.name === 'cluster' && concerns(notice, page.clusterId)) {
      this.#cluster.changed();
    }
  }

  /** Cancels pending refreshes. */
  stop(): void {
    this.#unsubscribe();
    this.#overdue.stop();
    this.#cluster.stop();
  }

  #follow(): void {
    this.#overdue.follow(loadingCluster());
  }
}

/** The id of the page's cluster while the store fetches it. */
const loadingCluster = (): string | undefined => {
  const page = shownPage(window.location.pathname);
  return page.name === 'cluster' && loading.has(state().currentCluster.uiState) ? page.clusterId : undefined;
};

const concerns = (notice: Notice, clusterId: string): boolean =>
  notice === 'everything' ||
  (notice.kind !== 'events' && (notice.cluster_id === clusterId || notice.id === clusterId));

const reloadCluster = (): void => {
  const page = shownPage(window.location.pathname);
  if (page.name !== 'cluster') {
    return;
  }
  const { data, uiState } = state().currentCluster;
  if (!data && uiState === ResourceUIState.POLLING_ERROR) {
    // The library does not retry a failed first load.
    void store.dispatch(fetchClusterAsync(page.clusterId));
  } else {
    store.dispatch(forceReload());
  }
};

/** The store's data about the cluster on the page. */
export type Shown = { name?: string | undefined; isMissing: boolean };

/** The status codes for an unknown cluster id and for an invalid one. */
const missing = new Set([404, 422]);

/**
 * Calls `notify` after each change: with the cluster's name, if known, and whether the cluster is
 * missing.
 */
export const followShownCluster = (notify: (shown: Shown) => void): (() => void) =>
  store.subscribe(() => {
    const page = shownPage(window.location.pathname);
    const { data, uiState, errorDetail } = state().currentCluster;
    const isShown = page.name === 'cluster';
    notify({
      name: isShown && data?.id === page.clusterId ? data.name : undefined,
      isMissing: isShown && uiState === ResourceUIState.POLLING_ERROR && missing.has(Number(errorDetail?.code)),
    });
  });
