import {
  Button,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  Radio,
  TextInput,
} from '@patternfly/react-core';
import { useState } from 'react';
import type { Act } from '../shell/useAct';
import { logIn } from './api';

/** Asks for the credentials. The appliance stores them encrypted and never shows them again. */
export const LoginDialog = ({ act, onClose }: { act: Act; onClose: () => void }) => {
  const [robot, setRobot] = useState(true);
  const [id, setId] = useState('');
  const [secret, setSecret] = useState('');
  const send = async () => {
    const credentials = robot
      ? { client_id: id.trim(), client_secret: secret.trim() }
      : { offline_token: secret.trim() };
    await act(() => logIn(credentials));
    onClose();
  };
  const complete = secret.trim() !== '' && (!robot || id.trim() !== '');
  return (
    <Modal isOpen variant="small" onClose={onClose} aria-label="Log in to OpenShift Cluster Manager">
      <ModalHeader title="Log in to OpenShift Cluster Manager" />
      <ModalBody>
        <Form
          onSubmit={(event) => {
            event.preventDefault();
            if (complete) {
              void send();
            }
          }}
        >
          <FormGroup role="radiogroup" fieldId="ams-kind" label="By">
            <Radio
              id="ams-robot"
              name="ams-kind"
              label="a service account"
              isChecked={robot}
              onChange={() => {
                setRobot(true);
              }}
            />
            <Radio
              id="ams-person"
              name="ams-kind"
              label="an offline token"
              isChecked={!robot}
              onChange={() => {
                setRobot(false);
              }}
            />
          </FormGroup>
          {robot && (
            <FormGroup label="Client ID" fieldId="ams-id" isRequired>
              <TextInput
                id="ams-id"
                value={id}
                onChange={(_event, value) => {
                  setId(value);
                }}
              />
            </FormGroup>
          )}
          <FormGroup label={robot ? 'Client secret' : 'Offline token'} fieldId="ams-secret" isRequired>
            <TextInput
              id="ams-secret"
              type="password"
              value={secret}
              onChange={(_event, value) => {
                setSecret(value);
              }}
            />
            <FormHelperText>
              <HelperText>
                <HelperTextItem>The appliance stores it encrypted with its own key and never shows it.</HelperTextItem>
              </HelperText>
            </FormHelperText>
          </FormGroup>
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button isDisabled={!complete} onClick={() => void send()}>
          Save the credentials
        </Button>
        <Button variant="link" onClick={onClose}>
          Cancel
        </Button>
      </ModalFooter>
    </Modal>
  );
};
