import { Button, Card, CardBody, CardTitle, Checkbox, Flex, FlexItem, TextInput } from '@patternfly/react-core';
import { useState } from 'react';
import type { Act } from '../shell/useAct';
import { useAction } from '../shell/useAction';
import { useAccess } from './AccessProvider';
import { setPassword } from './api';

/** Changes the password of the person at the page. All sessions of the account end. */
export const Password = ({ act }: { act: Act }) => {
  const { caller, askForLogin } = useAccess();
  const [old, setOld] = useState('');
  const [next, setNext] = useState('');
  // A mistake in the password of the only administrator locks everybody out, so it can be read.
  const [isShown, setShown] = useState(false);
  const { isRunning, run } = useAction();
  const change = async () => {
    if (await act(() => setPassword(caller.name, next, old))) {
      setOld('');
      setNext('');
      askForLogin('Your password was changed. All your sessions have ended: log in with the new password.');
    }
  };
  return (
    <Card>
      <CardTitle>My password</CardTitle>
      <CardBody>
        <form
          onSubmit={(event) => {
            event.preventDefault();
            void run(change);
          }}
        >
          {/* Password managers store the password for this name. */}
          <input type="text" autoComplete="username" value={caller.name} readOnly hidden />
          <Flex className="landfall-row">
            <FlexItem>
              <TextInput
                aria-label="Present password"
                placeholder="Present password"
                type="password"
                autoComplete="current-password"
                value={old}
                onChange={(_event, value) => {
                  setOld(value);
                }}
              />
            </FlexItem>
            <FlexItem>
              <TextInput
                aria-label="New password"
                placeholder="New password"
                type={isShown ? 'text' : 'password'}
                autoComplete="new-password"
                value={next}
                onChange={(_event, value) => {
                  setNext(value);
                }}
              />
            </FlexItem>
            <FlexItem alignSelf={{ default: 'alignSelfCenter' }}>
              <Checkbox
                id="show-new-password"
                label="Show the new password"
                isChecked={isShown}
                onChange={(_event, checked) => {
                  setShown(checked);
                }}
              />
            </FlexItem>
            <FlexItem>
              <Button
                variant="secondary"
                type="submit"
                isDisabled={old === '' || next === ''}
                isAriaDisabled={isRunning}
                isLoading={isRunning}
              >
                Change the password
              </Button>
            </FlexItem>
          </Flex>
        </form>
      </CardBody>
    </Card>
  );
};
