import { Alert, Button, Checkbox } from '@patternfly/react-core';
import { useState } from 'react';
import { Requires } from '../access/AccessProvider';
import { setFencing, type HostRow } from '../hosts/api';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import type { Readiness } from './api';
import { fencingOf, type FencedHost } from './fencing';

type Props = { readiness: Readiness; onSet: () => void };

/**
 * The choice of a cluster with two control-plane nodes: an arbiter, or BMC credentials with which
 * each node can power the other off.
 */
export const FencingPanel = ({ readiness, onSet }: Props) => {
  const [host, setHost] = useState<HostRow>();
  const fencing = fencingOf(readiness);
  if (!fencing) {
    return null;
  }
  const { title, isComplete, advice, hosts } = fencing;
  return (
    <>
      <Alert isInline isPlain variant={isComplete ? 'success' : 'info'} title={title} component="h3">
        {advice}
        {hosts.length > 0 && (
          <ul className="landfall-advice" data-testid="fencing">
            {hosts.map((one) => (
              <FencedLine
                key={one.row.id}
                host={one}
                onOpen={() => {
                  setHost(one.row);
                }}
              />
            ))}
          </ul>
        )}
      </Alert>
      {host && (
        <FencingDialog
          host={host}
          onSet={onSet}
          onClose={() => {
            setHost(undefined);
          }}
        />
      )}
    </>
  );
};

const FencedLine = ({ host: { row, bmc }, onOpen }: { host: FencedHost; onOpen: () => void }) => (
  <li>
    {row.name}: {bmc ? `fenced through ${bmc}.` : 'no fencing credentials.'}{' '}
    <Requires role="operator">
      <Button
        variant="link"
        isInline
        aria-label={`${bmc ? 'Change' : 'Set'} fencing credentials of ${row.name}`}
        onClick={onOpen}
      >
        {bmc ? 'Change' : 'Set fencing credentials'}
      </Button>
    </Requires>
  </li>
);

const FencingDialog = ({ host, onSet, onClose }: { host: HostRow; onSet: () => void; onClose: () => void }) => {
  const [address, setAddress] = useState('');
  const [username, setUsername] = useState('');
  const [password, setPassword] = useState('');
  const [isVerified, setVerified] = useState(true);
  return (
    <FormDialog
      title={`Fencing credentials of ${host.name}`}
      action="Save"
      isComplete={[address, username, password].every((text) => text.trim() !== '')}
      onSend={async () => {
        await setFencing(host, {
          address: address.trim(),
          username,
          password,
          certificate_verification: isVerified ? 'Enabled' : 'Disabled',
        });
        onSet();
      }}
      onClose={onClose}
    >
      <TextField
        id="fencing-address"
        label="Address of the BMC"
        help="For example, redfish+https://192.0.2.7/redfish/v1/Systems/1. The other node sends its requests there."
        isRequired
        value={address}
        onChange={setAddress}
      />
      <TextField id="fencing-username" label="User name" isRequired value={username} onChange={setUsername} />
      <TextField
        id="fencing-password"
        label="Password"
        help="The appliance never shows the password again."
        type="password"
        isRequired
        value={password}
        onChange={setPassword}
      />
      <Checkbox
        id="fencing-verify"
        label="Verify the BMC's certificate"
        isChecked={isVerified}
        onChange={(_event, checked) => {
          setVerified(checked);
        }}
      />
    </FormDialog>
  );
};
