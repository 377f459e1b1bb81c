import { Content } from '@patternfly/react-core';
import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { removeCluster, type Cluster } from './api';

type Props = { cluster: Cluster; onSettled: () => void; onClose: () => void };

/** Asks before a hosted cluster is deleted, and wants its name: all its nodes are lost. */
export const DeleteDialog = ({ cluster, onSettled, onClose }: Props) => {
  const [typed, setTyped] = useState('');
  return (
    <FormDialog
      title={`Delete the hosted cluster ${cluster.name}?`}
      action="Delete cluster"
      isDanger
      isComplete={typed.trim() === cluster.name}
      onSend={() => removeCluster(cluster).finally(onSettled)}
      onClose={onClose}
    >
      <Content component="p">
        Its control plane, its data and all its nodes are removed. If the management cluster is not connected, that
        happens when it is connected again.
      </Content>
      <TextField
        id="hosted-delete-name"
        label={`Type the name ${cluster.name} to confirm`}
        isRequired
        value={typed}
        onChange={setTyped}
      />
    </FormDialog>
  );
};
