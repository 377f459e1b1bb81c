import { Bullseye, Spinner } from '@patternfly/react-core';

/**
 * The library shows this as soon as an installation has started. Our page replaces it when the
 * appliance reports the new state: see clusters/ClusterPage.
 */
const ClusterDetail = () => (
  <Bullseye>
    <Spinner aria-label="Starting the installation" />
  </Bullseye>
);

export default ClusterDetail;
