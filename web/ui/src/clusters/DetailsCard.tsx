import { Card, CardBody, CardTitle, DescriptionList } from '@patternfly/react-core';
import { Fact } from '../image/Copyable';
import { moment } from '../shell/quantities';
import type { ClusterDetails } from './api';

/** The settings with which a cluster is installed. */
export const DetailsCard = ({ details }: { details: ClusterDetails }) => {
  const networks: [string, (string | undefined)[]][] = [
    ['API addresses', (details.api_vips ?? []).map(({ ip }) => ip)],
    ['Ingress addresses', (details.ingress_vips ?? []).map(({ ip }) => ip)],
    ['Machine networks', (details.machine_networks ?? []).map(({ cidr }) => cidr)],
    ['Cluster networks', (details.cluster_networks ?? []).map(({ cidr }) => cidr)],
    ['Service networks', (details.service_networks ?? []).map(({ cidr }) => cidr)],
  ];
  return (
    <Card component="section" aria-labelledby="cluster-details">
      <CardTitle>
        <h2 id="cluster-details" className="landfall-card-title">
          Cluster
        </h2>
      </CardTitle>
      <CardBody>
        <DescriptionList isHorizontal>
          <Fact term="OpenShift">
            {[details.openshift_version, details.cpu_architecture].filter(Boolean).join(', ')}
          </Fact>
          <Fact term="Base domain">{details.base_dns_domain ?? ''}</Fact>
          {networks
            .filter(([, list]) => list.length > 0)
            .map(([term, list]) => (
              <Fact key={term} term={term}>
                {list.join(', ')}
              </Fact>
            ))}
          {details.network_type && <Fact term="Network type">{details.network_type}</Fact>}
          {details.created_at && <Fact term="Created">{moment(details.created_at)}</Fact>}
          <Fact term="ID">
            <code>{details.id}</code>
          </Fact>
        </DescriptionList>
      </CardBody>
    </Card>
  );
};
