import {
  Card,
  CardBody,
  CardFooter,
  CardTitle,
  Content,
  Flex,
  PageSection,
  Stack,
  StackItem,
} from '@patternfly/react-core';
import type { Cluster } from '@openshift-assisted/types/assisted-installer-service';
import { useContext } from 'react';
import { getApiErrorMessage } from 'ui-lib/common/api/utils';
import { AddHostsContext } from 'ui-lib/common/components/AddHosts/AddHostsContext';
import { useAlerts } from 'ui-lib/common/components/AlertsContextProvider';
import { canInstallHost } from 'ui-lib/common/components/hosts/utils';
import Alerts from 'ui-lib/common/components/ui/Alerts';
import ViewClusterEventsButton from 'ui-lib/common/components/ui/ViewClusterEventsButton';
import InventoryAddHosts from 'ui-lib/ocm/components/AddHosts/InventoryAddHost';
import ClusterBreadcrumbs from 'ui-lib/ocm/components/clusters/ClusterBreadcrumbs';
import { onFetchEvents } from 'ui-lib/ocm/components/fetching/fetchEvents';
import HostsService from 'ui-lib/ocm/services/HostsService';
import { Requires } from '../access/AccessProvider';
import { AccessCard } from '../clusters/AccessCard';
import { ActionButton } from '../shell/ActionButton';

/**
 * The page to add hosts to a cluster. The library's page does not show the cluster's name, has no
 * link back and no kubeconfig, and ignores errors of an installation.
 */
export const AddHosts = () => {
  const { cluster } = useContext(AddHostsContext);
  return cluster ? <Page cluster={cluster} /> : null;
};

const Page = ({ cluster }: { cluster: Cluster }) => {
  const { resetCluster } = useContext(AddHostsContext);
  const { addAlert, clearAlerts } = useAlerts();
  const ready = (cluster.hosts ?? []).filter((host) => canInstallHost(cluster, host.status));
  const install = async () => {
    clearAlerts();
    try {
      await HostsService.installAll(ready);
    } catch (error) {
      addAlert({ title: 'Not all hosts could be installed', message: getApiErrorMessage(error) });
    }
    await resetCluster?.();
  };
  return (
    <>
      <ClusterBreadcrumbs clusterName={cluster.name ?? ''} />
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">{cluster.name}</Content>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        {!cluster.imported && (
          <AccessCard
            cluster={{ id: cluster.id, name: cluster.name ?? '', domain: cluster.baseDnsDomain ?? '' }}
          />
        )}
        <Card>
          <CardTitle component="h2">Host discovery</CardTitle>
          <CardBody>
            <Stack hasGutter>
              <StackItem>
                <InventoryAddHosts cluster={cluster} />
              </StackItem>
            </Stack>
          </CardBody>
          <CardFooter>
            <Alerts />
            <Flex>
              <Requires role="operator">
                <ActionButton isDisabled={ready.length === 0} onAct={install}>
                  Install ready hosts
                </ActionButton>
              </Requires>
              <ViewClusterEventsButton cluster={cluster} onFetchEvents={onFetchEvents} />
            </Flex>
          </CardFooter>
        </Card>
      </PageSection>
    </>
  );
};
