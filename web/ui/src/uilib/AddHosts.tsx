import { Content, Flex, PageSection } from '@patternfly/react-core';
import { useContext } from 'react';
import KubeconfigDownload from 'ui-lib/common/components/clusterDetail/KubeconfigDownload';
import { AddHostsContext } from 'ui-lib/common/components/AddHosts/AddHostsContext';
import { AddHosts as LibraryAddHosts } from 'ui-lib/ocm/components/AddHosts/AddHosts';
import ClusterBreadcrumbs from 'ui-lib/ocm/components/clusters/ClusterBreadcrumbs';

/**
 * The library's page of a cluster that hosts are added to, with what its other pages of a cluster have and this one does
 * not: which cluster it is, the way back, and the kubeconfig.
 */
export const AddHosts = () => {
  const { cluster } = useContext(AddHostsContext);
  if (!cluster) {
    return null;
  }
  return (
    <>
      <ClusterBreadcrumbs clusterName={cluster.name ?? ''} />
      <PageSection hasBodyWrapper={false}>
        <Content component="h1">{cluster.name}</Content>
        {!cluster.imported && (
          <Flex>
            <KubeconfigDownload clusterId={cluster.id} status="installed" />
          </Flex>
        )}
      </PageSection>
      <PageSection hasBodyWrapper={false} isFilled>
        <LibraryAddHosts />
      </PageSection>
    </>
  );
};
