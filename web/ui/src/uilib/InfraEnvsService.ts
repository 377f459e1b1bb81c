import type { Cluster } from '@openshift-assisted/types/assisted-installer-service';
import LibraryClusters from 'ui-lib/common/api/assisted-service/ClustersAPI';
import Library from 'ui-lib/ocm/services/InfraEnvsService';
import { untilAnswered } from '../live/untilAnswered';

// Its published types are written for another axios.
const clusters = LibraryClusters as { get(id: string): Promise<{ data: Cluster }> };

/**
 * The library's way from a cluster to its infra-env, which takes only one that was made for the cluster and waits for ever
 * where there is none: for hosts of an infra-env of its own that were bound to the cluster later, it is theirs.
 */
const InfraEnvsService: typeof Library = {
  ...Library,
  async getInfraEnvId(clusterId, ...which) {
    const id = await Library.getInfraEnvId(clusterId, ...which);
    if (!(id instanceof Error)) {
      return id;
    }
    const { data: cluster } = await untilAnswered(() => clusters.get(clusterId));
    const ofHost = cluster.hosts?.find((host) => host.infraEnvId)?.infraEnvId;
    if (!ofHost) {
      throw new Error('The cluster has no infra-env.');
    }
    return ofHost;
  },
};

export default InfraEnvsService;
