import { Checkbox, FormGroup } from '@patternfly/react-core';
import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { addServer, type InfraEnv } from './api';
import { InfraEnvSelect } from './InfraEnvSelect';

const empty = { name: '', address: '', username: '', password: '', boot_mac: '', infra_env_id: '', skip_verify: false };
type TextField = 'name' | 'address' | 'username' | 'password' | 'boot_mac';

const fields: { key: TextField; label: string; help?: string; required?: boolean }[] = [
  { key: 'name', label: 'Name', required: true },
  {
    key: 'address',
    label: 'Address of the BMC',
    help:
      'For example, redfish-virtualmedia://192.0.2.7 or idrac-virtualmedia://192.0.2.7. ' +
      'The path of the system is optional.',
    required: true,
  },
  { key: 'username', label: 'User name' },
  { key: 'password', label: 'Password', help: 'The appliance stores the password encrypted and never shows it again.' },
  {
    key: 'boot_mac',
    label: 'MAC address',
    help:
      'A MAC address of the server, which identifies its host. ' +
      'Without a MAC address, the serial number and the UUID identify the host.',
  },
];

/** The dialog to add a server. Adding a server does not change its power state. */
export const AddDialog = ({ infraEnvs, onClose }: { infraEnvs: InfraEnv[]; onClose: () => void }) => {
  const [server, setServer] = useState(empty);
  return (
    <FormDialog
      title="Add a server"
      action="Add"
      isComplete={server.name.trim() !== '' && server.address.trim() !== ''}
      onSend={() =>
        addServer({
          ...server,
          name: server.name.trim(),
          address: server.address.trim(),
          boot_mac: server.boot_mac.trim(),
        })
      }
      onClose={onClose}
    >
      {fields.map(({ key, label, help, required }) => (
        <TextField
          key={key}
          id={`bmc-${key}`}
          label={label}
          help={help}
          isRequired={required}
          type={key === 'password' ? 'password' : 'text'}
          value={server[key]}
          onChange={(value) => {
            setServer({ ...server, [key]: value });
          }}
        />
      ))}
      <FormGroup label="Boots the image of" fieldId="bmc-infra-env">
        <InfraEnvSelect
          id="bmc-infra-env"
          infraEnvs={infraEnvs}
          none="nothing yet"
          value={server.infra_env_id}
          onChange={(id) => {
            setServer({ ...server, infra_env_id: id });
          }}
        />
      </FormGroup>
      <Checkbox
        id="bmc-skip-verify"
        label="Accept any certificate of the BMC"
        description="For self-signed certificates. An attacker on the network could read the password."
        isChecked={server.skip_verify}
        onChange={(_event, checked) => {
          setServer({ ...server, skip_verify: checked });
        }}
      />
    </FormDialog>
  );
};
