import { Store } from '@openshift-assisted/ui-lib/ocm';
import { ResourceUIState } from 'ui-lib/common/types/resource-ui-state';
import { fetchClustersAsync } from 'ui-lib/ocm/store/slices/clusters/slice';
import { fetchClusterAsync, forceReload } from 'ui-lib/ocm/store/slices/current-cluster/slice';
import type { Notice } from './feed';
import { shownPage } from './page';
import { Refresh } from './refresh';

/** The part of the library's store that is looked at. (Its published types leave the state's type open.) */
type State = {
  clusters: { uiState: ResourceUIState };
  currentCluster: {
    data?: { id?: string; name?: string };
    uiState: ResourceUIState;
    errorDetail?: { code: string | number };
  };
};

const store = Store.storeDay1;
const state = (): State => store.getState();
const underWay = new Set([ResourceUIState.LOADING, ResourceUIState.RELOADING]);

/** Makes the library's store ask again for what the page shows when the feed says that it changed. */
export class StoreRefresher {
  readonly #list = new Refresh(
    () => void store.dispatch(fetchClustersAsync()),
    () => state().clusters.uiState === ResourceUIState.RELOADING,
  );

  readonly #cluster = new Refresh(reloadCluster, () =>
    underWay.has(state().currentCluster.uiState),
  );

  /** Notes a notice of the feed; those that do not concern the page that is shown are dropped. */
  changed(notice: Notice): void {
    const page = shownPage(window.location.pathname);
    if (page.name === 'list' && (notice === 'everything' || notice.kind !== 'events')) {
      this.#list.changed();
    }
    if (page.name === 'cluster' && concerns(notice, page.clusterId)) {
      this.#cluster.changed();
    }
  }

  /** Forgets what was waiting. */
  stop(): void {
    this.#list.stop();
    this.#cluster.stop();
  }
}

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
    // The library never tries a failed first load again by itself.
    void store.dispatch(fetchClusterAsync(page.clusterId));
  } else {
    store.dispatch(forceReload());
  }
};

/** What the store knows of the cluster that the page shows. */
export type Shown = { name?: string | undefined; isMissing: boolean };

/** What the appliance answers for an id that no cluster has, and for one that none can have. */
const missing = new Set([404, 422]);

/** Tells of every change of what is shown: the cluster's name, as far as it is known, and that there is no such cluster. */
export const followShownCluster = (tell: (shown: Shown) => void): (() => void) =>
  store.subscribe(() => {
    const page = shownPage(window.location.pathname);
    const { data, uiState, errorDetail } = state().currentCluster;
    const isShown = page.name === 'cluster';
    tell({
      name: isShown && data?.id === page.clusterId ? data.name : undefined,
      isMissing: isShown && uiState === ResourceUIState.POLLING_ERROR && missing.has(Number(errorDetail?.code)),
    });
  });
