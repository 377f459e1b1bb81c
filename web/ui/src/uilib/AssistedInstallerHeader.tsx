import { Content } from '@patternfly/react-core';

/** The wizard's heading, without the library's link to its documentation on the internet. */
export const AssistedInstallerHeader = () => (
  <>
    <Content component="h1">Install an OpenShift cluster</Content>
    <Content component="p">
      Describe the cluster, boot its hosts from the discovery ISO, and install it from this site&apos;s mirror.
    </Content>
  </>
);
