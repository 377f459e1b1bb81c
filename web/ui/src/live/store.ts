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
  currentCluster: { data?: { id?: string; name?: string }; uiState: ResourceUIState };
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

/** Tells of every change of what is shown: the name of the cluster with that id, as far as it is known. */
export const followShownCluster = (tell: (name?: string) => void): (() => void) =>
  store.subscribe(() => {
    const page = shownPage(window.location.pathname);
    const { data } = state().currentCluster;
    tell(page.name === 'cluster' && data?.id === page.clusterId ? data.name : undefined);
  });
