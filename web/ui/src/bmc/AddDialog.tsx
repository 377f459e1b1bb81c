import {
  Alert,
  Button,
  Checkbox,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  TextInput,
} from '@patternfly/react-core';
import { useState } from 'react';
import { sentenceOf } from '../shell/request';
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
  const [failure, setFailure] = useState('');
  const complete = server.name.trim() !== '' && server.address.trim() !== '';
  const send = async () => {
    try {
      await addServer({
        ...server,
        name: server.name.trim(),
        address: server.address.trim(),
        boot_mac: server.boot_mac.trim(),
      });
      onClose();
    } catch (thrown) {
      setFailure(sentenceOf(thrown));
    }
  };
  return (
    <Modal isOpen variant="small" onClose={onClose} aria-label="Add a server">
      <ModalHeader title="Add a server" />
      <ModalBody>
        <Form
          onSubmit={(event) => {
            event.preventDefault();
            if (complete) {
              void send();
            }
          }}
        >
          {failure !== '' && <Alert isInline variant="danger" title={failure} />}
          {fields.map(({ key, label, help, required }) => (
            <FormGroup key={key} label={label} fieldId={`bmc-${key}`} isRequired={required ?? false}>
              <TextInput
                id={`bmc-${key}`}
                type={key === 'password' ? 'password' : 'text'}
                autoComplete="off"
                value={server[key]}
                onChange={(_event, value) => {
                  setServer({ ...server, [key]: value });
                }}
              />
              {help && (
                <FormHelperText>
                  <HelperText>
                    <HelperTextItem>{help}</HelperTextItem>
                  </HelperText>
                </FormHelperText>
              )}
            </FormGroup>
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
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button isDisabled={!complete} onClick={() => void send()}>
          Add
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};
