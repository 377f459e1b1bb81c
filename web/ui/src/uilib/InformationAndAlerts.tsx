import { Stack, StackItem } from '@patternfly/react-core';
import type { ComponentProps } from 'react';
import LibraryInformation from 'ui-lib/ocm/components/clusterConfiguration/InformationAndAlerts';
import { ImagePanel } from '../image/ImagePanel';

/** The library's texts above its table of hosts, preceded by the hosts' image. */
const InformationAndAlerts = (props: ComponentProps<typeof LibraryInformation>) => (
  <Stack hasGutter>
    <StackItem>
      <ImagePanel
        key={props.cluster.id}
        clusterId={props.cluster.id}
        hasHosts={!!props.cluster.hosts?.length}
      />
    </StackItem>
    <StackItem>
      <LibraryInformation {...props} />
    </StackItem>
  </Stack>
);

export default InformationAndAlerts;
