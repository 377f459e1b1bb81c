import {
  Alert,
  Bullseye,
  Button,
  Card,
  CardBody,
  Checkbox,
  Content,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  TextInput,
} from '@patternfly/react-core';
import { useState, type FormEvent } from 'react';
import { Authority } from '../shell/Authority';
import { Mark } from '../shell/Mark';
import { sentenceOf } from '../shell/request';
import { useAction } from '../shell/useAction';
import { usePageTitle } from '../shell/usePageTitle';
import { rememberPlace } from './returning';
import { logIn, setUp, type Caller, type LoginMethods } from './api';

type FormProps = {
  methods: LoginMethods;
  entered: (caller: Caller) => void;
  /** The name that the form begins with. */
  name?: string;
  notice?: string;
};

/** The login. Without an account, it asks for the setup code and makes the first administrator. */
export const LoginForm = ({ methods, entered, name: known = '', notice = '' }: FormProps) => {
  const { setup, oidc, fingerprint } = methods;
  const [code, setCode] = useState('');
  const [name, setName] = useState(known);
  const [password, setPassword] = useState('');
  // A mistake in the first password would lock the administrator out, so it can be read.
  const [isShown, setShown] = useState(false);
  const [failure, setFailure] = useState('');
  const { isRunning, run } = useAction();
  const submit = async () => {
    try {
      entered(await (setup ? setUp(code.trim(), name.trim(), password) : logIn(name.trim(), password)));
    } catch (error) {
      setFailure(sentenceOf(error));
    }
  };
  const isComplete = name.trim() !== '' && password !== '' && (!setup || code.trim() !== '');
  return (
    <>
      <Content component="h1" className="landfall-login-title">
        <Mark /> {setup ? 'Set up Landfall' : 'Log in to Landfall'}
      </Content>
      {setup && (
        <Content component="p">
          This appliance has no account yet. It printed a setup code at its start. The code is also in the file
          setup-code of its data directory.
        </Content>
      )}
      <Form
        onSubmit={(event: FormEvent) => {
          event.preventDefault();
          void run(submit);
        }}
      >
        {failure !== '' && (
          <div role="alert">
            <Alert isInline variant="danger" title={failure} data-testid="login-failure" />
          </div>
        )}
        {failure === '' && notice !== '' && <Alert isInline variant="info" title={notice} />}
        {setup && (
          <FormGroup label="Setup code" fieldId="code">
            <TextInput
              id="code"
              value={code}
              autoComplete="one-time-code"
              spellCheck={false}
              placeholder="XXXX-XXXX-XXXX-XXXX"
              autoFocus
              onChange={(_event, value) => {
                setCode(value);
              }}
            />
          </FormGroup>
        )}
        <FormGroup label={setup ? 'Name of the first administrator' : 'Name'} fieldId="name">
          <TextInput
            id="name"
            value={name}
            autoComplete="username"
            autoCapitalize="none"
            spellCheck={false}
            autoFocus={!setup && known === ''}
            onChange={(_event, value) => {
              setName(value);
            }}
          />
        </FormGroup>
        <FormGroup label="Password" fieldId="password">
          <TextInput
            id="password"
            type={isShown ? 'text' : 'password'}
            value={password}
            autoComplete={setup ? 'new-password' : 'current-password'}
            autoFocus={!setup && known !== ''}
            onChange={(_event, value) => {
              setPassword(value);
            }}
          />
          {setup && (
            <>
              <FormHelperText>
                <HelperText>
                  <HelperTextItem>At least 8 characters.</HelperTextItem>
                </HelperText>
              </FormHelperText>
              <Checkbox
                id="show-password"
                label="Show the password"
                isChecked={isShown}
                onChange={(_event, checked) => {
                  setShown(checked);
                }}
              />
            </>
          )}
        </FormGroup>
        <Button type="submit" isBlock isDisabled={!isComplete} isAriaDisabled={isRunning} isLoading={isRunning}>
          {setup ? 'Create the account' : 'Log in'}
        </Button>
        {oidc && !setup && (
          <Button
            variant="secondary"
            component="a"
            isBlock
            href="/api/landfall/v1/login/oidc"
            onClick={() => {
              rememberPlace(window);
            }}
          >
            Log in with the site&rsquo;s provider
          </Button>
        )}
      </Form>
      {fingerprint && <Authority fingerprint={fingerprint} />}
    </>
  );
};

/** The page of the login. */
export const LoginPage = (props: FormProps) => {
  const { setup } = props.methods;
  usePageTitle(setup ? 'Set up' : 'Log in');
  return (
    <Bullseye component="main" className="landfall-login">
      <Card isLarge className="landfall-login-card">
        <CardBody>
          <LoginForm {...props} />
        </CardBody>
      </Card>
    </Bullseye>
  );
};
