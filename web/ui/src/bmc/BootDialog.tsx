import { Content, FormGroup } from '@patternfly/react-core';
import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { boot, hostEndedBy, type InfraEnv, type Server } from './api';
import { InfraEnvSelect } from './InfraEnvSelect';

type Props = { server: Server; infraEnvs: InfraEnv[]; onClose: () => void };

/**
 * Boots a server immediately. If that would end the host on the server, its user types the host's
 * name first.
 */
export const BootDialog = ({ server, infraEnvs, onClose }: Props) => {
  const [infraEnv, setInfraEnv] = useState(server.infra_env_id ?? '');
  const [ended, setEnded] = useState<string>();
  const [typed, setTyped] = useState('');
  const send = async () => {
    try {
      await boot(server.id, infraEnv, ended !== undefined);
    } catch (thrown) {
      setEnded(hostEndedBy(thrown));
      throw thrown;
    }
  };
  return (
    <FormDialog
      title={`Boot ${server.name} now`}
      action="Boot it"
      isComplete={infraEnv !== '' && (ended === undefined || typed.trim() === ended)}
      isDanger={ended !== undefined}
      onSend={send}
      onClose={onClose}
    >
      <Content component="p">
        The server restarts immediately, even if a system runs on it, and boots the image once.
      </Content>
      <FormGroup label="From the image of" fieldId="bmc-boot">
        <InfraEnvSelect
          id="bmc-boot"
          infraEnvs={infraEnvs}
          none="choose an infra-env"
          value={infraEnv}
          onChange={setInfraEnv}
        />
      </FormGroup>
      {ended !== undefined && (
        <TextField id="bmc-boot-host" label={`Type ${ended} to end this host`} value={typed} onChange={setTyped} />
      )}
    </FormDialog>
  );
};
