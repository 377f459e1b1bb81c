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
import { useCallback, useContext } from 'react';
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
import { readDetails } from '../clusters/api';
import { DeleteButton } from '../clusters/DeleteButton';
import { DetailsCard } from '../clusters/DetailsCard';
import { LogsButton } from '../clusters/LogsButton';
import { RegistryCard } from '../clusters/RegistryCard';
import { ActionButton } from '../shell/ActionButton';
import { useAnswer } from '../shell/useAnswer';

const seldom = () => 300_000;

/**
 * The page to add hosts to a cluster. The library's page does not show the cluster's name, has no
 * link back and no kubeconfig, and ignores errors of an installation. Of the installation's page,
 * what a person needs later stays: the logs, the settings, the registry and the deletion.
 */
export const AddHosts = () => {
  const { cluster } = useContext(AddHostsContext);
  return cluster ? <Page cluster={cluster} /> : null;
};

const Page = ({ cluster }: { cluster: Cluster }) => {
  const { resetCluster } = useContext(AddHostsContext);
  const { addAlert, clearAlerts } = useAlerts();
  const load = useCallback((signal: AbortSignal) => readDetails(cluster.id, signal), [cluster.id]);
  const { answer: details } = useAnswer(load, seldom);
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
        <Flex gap={{ default: 'gapSm' }} alignItems={{ default: 'alignItemsCenter' }}>
          <LogsButton clusterId={cluster.id} />
          <Requires role="operator">
            <DeleteButton cluster={{ id: cluster.id, name: cluster.name ?? '', status: cluster.status }} />
          </Requires>
        </Flex>
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <Stack hasGutter>
          {!cluster.imported && (
            <StackItem>
              <AccessCard
                cluster={{ id: cluster.id, name: cluster.name ?? '', domain: cluster.baseDnsDomain ?? '' }}
              />
            </StackItem>
          )}
          <StackItem>
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
          </StackItem>
          {details && (
            <StackItem>
              <DetailsCard details={details} />
            </StackItem>
          )}
          <RegistryCard id={cluster.id} />
        </Stack>
      </PageSection>
    </>
  );
};
