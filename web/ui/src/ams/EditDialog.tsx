import { Content } from '@patternfly/react-core';
import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { editCluster, type ClusterLine } from './api';

type Props = { line: ClusterLine; by: string | undefined; onClose: () => void };

/** Values that are sent to AMS instead of the cluster's own. */
export const EditDialog = ({ line, by, onClose }: Props) => {
  const [name, setName] = useState(line.edited.display_name ?? '');
  const [url, setURL] = useState(line.edited.console_url ?? '');
  const fields = {
    ...(name.trim() !== '' && { display_name: name.trim() }),
    ...(url.trim() !== '' && { console_url: url.trim() }),
  };
  return (
    <FormDialog
      title={`Values for OpenShift Cluster Manager: ${line.name}`}
      action="Send"
      onSend={() => editCluster(line.cluster_id, fields, by)}
      onClose={onClose}
    >
      <Content component="p">If a field is empty, the cluster&apos;s own value is sent.</Content>
      <TextField id="ams-name" label="Name" value={name} onChange={setName} />
      <TextField id="ams-url" label="URL of the console" value={url} onChange={setURL} />
    </FormDialog>
  );
};
