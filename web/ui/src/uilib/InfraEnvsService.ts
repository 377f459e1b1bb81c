import type { Cluster } from '@openshift-assisted/types/assisted-installer-service';
import LibraryClusters from 'ui-lib/common/api/assisted-service/ClustersAPI';
import Library from 'ui-lib/ocm/services/InfraEnvsService';
import { untilAnswered } from '../live/untilAnswered';

// Its published types are for another version of axios.
const clusters = LibraryClusters as { get(id: string): Promise<{ data: Cluster }> };

/**
 * Finds a cluster's infra-env. The library accepts only an infra-env that was created for the
 * cluster, and waits forever if there is none. This version also accepts the infra-env of hosts
 * that were bound to the cluster later.
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
