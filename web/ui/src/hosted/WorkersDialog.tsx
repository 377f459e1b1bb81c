import { Content } from '@patternfly/react-core';
import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { setWorkers, type InfraEnv, type WorkerSource } from './api';

const about =
  'Node pools choose hosts by their hardware profile, for example large. If all are empty, the hosts come from the ' +
  'own assisted service of the management cluster.';
const without = 'Create an infra-env without a cluster first. Its hosts can become workers.';

type Props = { consumer: string; infraEnvs: InfraEnv[]; chosen: WorkerSource[]; onClose: () => void };

/** The dialog to choose the infra-envs whose hosts are offered to a management cluster. */
export const WorkersDialog = ({ consumer, infraEnvs, chosen, onClose }: Props) => {
  const [profiles, setProfiles] = useState<Record<string, string>>(
    Object.fromEntries(chosen.map(({ infra_env_id: id, profile }) => [id, profile])),
  );
  const offered = infraEnvs.filter(({ id, cluster_id: cluster }) => !cluster || profiles[id] !== undefined);
  const send = () =>
    setWorkers(
      consumer,
      offered
        .map(({ id }) => ({ infra_env_id: id, profile: (profiles[id] ?? '').trim() }))
        .filter(({ profile }) => profile !== ''),
    );
  return (
    <FormDialog title={`Offer hosts to ${consumer}`} action="Save" onSend={send} onClose={onClose}>
      <Content component="p">{offered.length === 0 ? without : about}</Content>
      {offered.map(({ id, name }) => (
        <TextField
          key={id}
          id={`workers-${id}`}
          label={`Hardware profile of the hosts in ${name}`}
          help="Empty: its hosts are not offered."
          value={profiles[id] ?? ''}
          onChange={(profile) => {
            setProfiles({ ...profiles, [id]: profile });
          }}
        />
      ))}
    </FormDialog>
  );
};
