import { FormGroup, Radio } from '@patternfly/react-core';
import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { logIn } from './api';

/** The login dialog. The appliance stores the credentials encrypted and never shows them again. */
export const LoginDialog = ({ onClose }: { onClose: () => void }) => {
  const [isServiceAccount, setServiceAccount] = useState(true);
  const [id, setId] = useState('');
  const [secret, setSecret] = useState('');
  const credentials = isServiceAccount
    ? { client_id: id.trim(), client_secret: secret.trim() }
    : { offline_token: secret.trim() };
  return (
    <FormDialog
      title="Log in to OpenShift Cluster Manager"
      action="Save the credentials"
      isComplete={secret.trim() !== '' && (!isServiceAccount || id.trim() !== '')}
      onSend={() => logIn(credentials)}
      onClose={onClose}
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
      {isServiceAccount && <TextField id="ams-id" label="Client ID" isRequired value={id} onChange={setId} />}
      <TextField
        id="ams-secret"
        label={isServiceAccount ? 'Client secret' : 'Offline token'}
        help="The appliance stores the secret encrypted with its own key and never shows it."
        isRequired
        type="password"
        value={secret}
        onChange={setSecret}
      />
    </FormDialog>
  );
};
