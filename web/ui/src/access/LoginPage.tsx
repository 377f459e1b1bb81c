import {
  ActionGroup,
  Alert,
  Bullseye,
  Button,
  Card,
  CardBody,
  CardTitle,
  Content,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  TextInput,
} from '@patternfly/react-core';
import { useEffect, useState, type FormEvent } from 'react';
import { Mark } from '../shell/Mark';
import { sentenceOf } from '../shell/request';
import { logIn, setUp, type Caller, type LoginMethods } from './api';

type Props = { methods: LoginMethods; notice: string; entered: (caller: Caller) => void };

/** The login. Without an account, it asks for the setup code and makes the first administrator. */
export const LoginPage = ({ methods, notice, entered }: Props) => {
  const [code, setCode] = useState('');
  const [name, setName] = useState('');
  const [password, setPassword] = useState('');
  const [failure, setFailure] = useState('');
  const [busy, setBusy] = useState(false);
  const { setup, fingerprint } = methods;
  useEffect(() => {
    document.title = setup ? 'Set up · Landfall' : 'Log in · Landfall';
  }, [setup]);
  const submit = async () => {
    setBusy(true);
    try {
      entered(await (setup ? setUp(code.trim(), name, password) : logIn(name, password)));
    } catch (error) {
      setFailure(sentenceOf(error));
      setPassword('');
    } finally {
      setBusy(false);
    }
  };
  const isComplete = name !== '' && password !== '' && (!setup || code.trim() !== '');
  return (
    <Bullseye className="landfall-login">
      <Card isLarge>
        <CardTitle component="h1">
          <Mark /> {setup ? 'Set up Landfall' : 'Log in to Landfall'}
        </CardTitle>
        <CardBody>
          {setup && (
            <Content component="p">
              This appliance has no account yet. Its setup code is in the output of its start, and in the file
              setup-code of its data directory.
            </Content>
          )}
          <Form
            onSubmit={(event: FormEvent) => {
              event.preventDefault();
              void submit();
            }}
          >
            {failure !== '' && <Alert isInline variant="danger" title={failure} />}
            {failure === '' && notice !== '' && <Alert isInline variant="info" title={notice} />}
            {setup && (
              <FormGroup label="Setup code" fieldId="code" isRequired>
                <TextInput
                  id="code"
                  value={code}
                  autoComplete="off"
                  autoFocus
                  onChange={(_event, value) => {
                    setCode(value);
                  }}
                />
              </FormGroup>
            )}
            <FormGroup label={setup ? 'Name of the first administrator' : 'Name'} fieldId="name" isRequired>
              <TextInput
                id="name"
                value={name}
                autoComplete="username"
                autoFocus={!setup}
                onChange={(_event, value) => {
                  setName(value);
                }}
              />
            </FormGroup>
            <FormGroup label="Password" fieldId="password" isRequired>
              <TextInput
                id="password"
                type="password"
                value={password}
                autoComplete={setup ? 'new-password' : 'current-password'}
                onChange={(_event, value) => {
                  setPassword(value);
                }}
              />
            </FormGroup>
            <ActionGroup>
              <Button type="submit" isDisabled={!isComplete || busy} isLoading={busy}>
                {setup ? 'Create the account' : 'Log in'}
              </Button>
            </ActionGroup>
            {fingerprint && (
              <FormHelperText>
                <HelperText>
                  <HelperTextItem>
                    Fingerprint of this appliance: <code className="landfall-fingerprint">{fingerprint}</code>
                  </HelperTextItem>
                </HelperText>
              </FormHelperText>
            )}
          </Form>
        </CardBody>
      </Card>
    </Bullseye>
  );
};
