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

/** The login dialog. The appliance stores the credentials encrypted and never shows them again. */
export const LoginDialog = ({ act, onClose }: { act: Act; onClose: () => void }) => {
  const [isServiceAccount, setServiceAccount] = useState(true);
  const [id, setId] = useState('');
  const [secret, setSecret] = useState('');
  const send = async () => {
    const credentials = isServiceAccount
      ? { client_id: id.trim(), client_secret: secret.trim() }
      : { offline_token: secret.trim() };
    await act(() => logIn(credentials));
    onClose();
  };
  const complete = secret.trim() !== '' && (!isServiceAccount || id.trim() !== '');
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
              isChecked={isServiceAccount}
              onChange={() => {
                setServiceAccount(true);
              }}
            />
            <Radio
              id="ams-person"
              name="ams-kind"
              label="an offline token"
              isChecked={!isServiceAccount}
              onChange={() => {
                setServiceAccount(false);
              }}
            />
          </FormGroup>
          {isServiceAccount && (
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
          <FormGroup label={isServiceAccount ? 'Client secret' : 'Offline token'} fieldId="ams-secret" isRequired>
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
                <HelperTextItem>
                  The appliance stores the secret encrypted with its own key and never shows it.
                </HelperTextItem>
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
