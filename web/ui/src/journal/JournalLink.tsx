import { Button, Tooltip } from '@patternfly/react-core';
import DownloadIcon from '@patternfly/react-icons/dist/esm/icons/download-icon';
import { Requires } from '../access/AccessProvider';
import { journalUrl } from './api';

const explanation =
  'All events of this cluster in one signed file without secrets. Others can replay it with: ' +
  'landfall journal replay FILE';

/** The link that downloads a cluster's journal. */
export const JournalLink = ({ clusterId }: { clusterId: string }) => (
  <Requires role="operator">
    <Tooltip content={explanation}>
      <Button
        component="a"
        variant="link"
        isInline
        icon={<DownloadIcon />}
        href={journalUrl(clusterId)}
        download
        id="journal"
      >
        Journal
      </Button>
    </Tooltip>
  </Requires>
);
