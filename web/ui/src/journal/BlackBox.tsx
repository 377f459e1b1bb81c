import { Button, Tooltip } from '@patternfly/react-core';
import DownloadIcon from '@patternfly/react-icons/dist/esm/icons/download-icon';
import { journalUrl } from './api';

const explanation =
  'All that happened to this cluster in one signed file without secrets. A colleague who was not there replays it with: landfall journal replay FILE';

/** The button that takes a cluster's black box along. */
export const BlackBox = ({ clusterId }: { clusterId: string }) => (
  <Tooltip content={explanation}>
    <Button component="a" variant="link" isInline icon={<DownloadIcon />} href={journalUrl(clusterId)} download id="black-box">
      Black box
    </Button>
  </Tooltip>
);
