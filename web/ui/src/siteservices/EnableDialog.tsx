import { Alert, Checkbox, FormGroup, Radio } from '@patternfly/react-core';
import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { enable, type Mode, type ServiceName, type Settings } from './api';
import { lossOf, services } from './words';

type Props = { service: ServiceName; on: string; onClose: () => void };

const modes: { id: Mode; label: string; description: string }[] = [
  {
    id: 'proxy',
    label: 'Network boot only',
    description: "The site's DHCP server keeps giving the addresses. The appliance adds what machines boot.",
  },
  { id: 'reservations', label: 'Reserved machines', description: 'Machines with a reservation get their address.' },
  { id: 'range', label: 'All machines', description: 'All machines get an address of a range.' },
];

/** Switches a service on for an interface, after it has said what leaves with the appliance. */
export const EnableDialog = ({ service, on, onClose }: Props) => {
  const [mode, setMode] = useState<Mode>('proxy');
  const [range, setRange] = useState('');
  const [isLocal, setLocal] = useState(false);
  const { name } = services.find(({ id }) => id === service) ?? { name: service };
  const hasRange = service === 'dhcp' && mode === 'range';
  const settings: Settings = {
    ...(service === 'dhcp' && { mode }),
    ...(hasRange && { range: range.trim() }),
    ...(service === 'ntp' && isLocal && { local_clock: true }),
  };
  return (
    <FormDialog
      title={`Switch on ${name} on ${on}`}
      action="Switch on"
      isComplete={!hasRange || range.trim() !== ''}
      onSend={() => enable(service, on, settings)}
      onClose={onClose}
    >
      <Alert isInline variant="warning" title={lossOf(service, mode)} />
      {service === 'dhcp' && (
        <FormGroup role="radiogroup" label="Addresses for" fieldId="dhcp-mode">
          {modes.map(({ id, label, description }) => (
            <Radio
              key={id}
              id={`dhcp-mode-${id}`}
              name="dhcp-mode"
              label={label}
              description={description}
              isChecked={mode === id}
              onChange={() => {
                setMode(id);
              }}
            />
          ))}
        </FormGroup>
      )}
      {hasRange && (
        <TextField
          id="dhcp-range"
          label="Range"
          help="The first and the last address, such as 192.0.2.100-192.0.2.199."
          isRequired
          value={range}
          onChange={setRange}
        />
      )}
      {service === 'ntp' && (
        <Checkbox
          id="ntp-local-clock"
          label="Declare this machine's clock as the time of the site"
          description={
            'Only for a site without another clock. All hosts then have the same time, right or wrong, also while ' +
            'the clock is not synchronised. Set the clock of the machine before.'
          }
          isChecked={isLocal}
          onChange={(_event, checked) => {
            setLocal(checked);
          }}
        />
      )}
    </FormDialog>
  );
};
