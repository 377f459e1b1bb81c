import { Alert, Content } from '@patternfly/react-core';
import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { remove } from './api';

type Props = {
  cluster: { id: string; name: string; status: string };
  onDone: () => void;
  onClose: () => void;
};

/** Asks before a cluster is deleted: says what is lost and what runs on, and wants the name. */
export const DeleteDialog = ({ cluster: { id, name, status }, onDone, onClose }: Props) => {
  const [typed, setTyped] = useState('');
  const isInstalled = ['installed', 'adding-hosts'].includes(status);
  return (
    <FormDialog
      title={`Delete cluster ${name}?`}
      action="Delete cluster"
      isComplete={typed === name}
      isDanger
      onSend={() => remove(id)}
      onSent={onDone}
      onClose={onClose}
    >
      <div>
        <Content component="p">Landfall removes the following. This cannot be undone:</Content>
        <Content component="ul">
          <li>the settings and manifests of the cluster</li>
          <li>its infra-envs with their discovery images and registered hosts</li>
          <li>{isInstalled ? 'its kubeconfig, the password of kubeadmin and its logs' : 'its logs'}</li>
        </Content>
        <Content component="p">The page can no longer show its events and its journal.</Content>
      </div>
      {isInstalled ? (
        <Alert isInline isPlain variant="info" title="The installed cluster runs on.">
          Its nodes and workloads are not changed. Save the kubeconfig and the password first: without them, nobody may
          be able to log in.
        </Alert>
      ) : (
        <Alert isInline isPlain variant="info" title="The hosts stay switched on.">
          A host that runs the discovery image is refused from then on. The data on its disks stays there.
        </Alert>
      )}
      <TextField
        id="delete-name"
        label={`Type the name ${name} to confirm`}
        isRequired
        value={typed}
        onChange={setTyped}
      />
    </FormDialog>
  );
};
