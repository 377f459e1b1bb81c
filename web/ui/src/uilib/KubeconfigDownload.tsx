import Original from 'ui-lib/common/components/clusterDetail/KubeconfigDownload';
import type { ComponentProps } from 'react';
import { Requires } from '../access/AccessProvider';

/** The library's button, for people who may read the kubeconfig. */
const KubeconfigDownload = (props: ComponentProps<typeof Original>) => (
  <Requires role="admin">
    <Original {...props} />
  </Requires>
);

export default KubeconfigDownload;
