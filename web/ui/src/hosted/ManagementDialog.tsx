import { useState } from 'react';
import { FormDialog } from '../shell/FormDialog';
import { TextField } from '../shell/TextField';
import { addManagement } from './api';

const empty = { consumer: '', base_domain: '', address: '', profiles: '' };

const fields: { key: keyof typeof empty; label: string; help: string; required?: boolean }[] = [
  { key: 'consumer', label: 'Name', help: 'Lower-case letters, digits and hyphens. It never changes.', required: true },
  {
    key: 'base_domain',
    label: 'Base domain',
    help: 'The hosted clusters have their domains below it, for example hosted.example.com.',
    required: true,
  },
  {
    key: 'address',
    label: 'Address of the nodes',
    help: 'The control planes are reached at this address, on ports from 30000. Empty: through load balancers.',
  },
  {
    key: 'profiles',
    label: 'Hardware profiles',
    help: 'The values of the label landfall.io/hardware-profile on its Agents, separated by commas. Empty: any.',
  },
];

/** The dialog to use a cluster for the control planes of hosted clusters. */
export const ManagementDialog = ({ onClose }: { onClose: () => void }) => {
  const [wanted, setWanted] = useState(empty);
  return (
    <FormDialog
      title="Use a cluster for control planes"
      action="Use it"
      isComplete={wanted.consumer.trim() !== '' && wanted.base_domain.trim() !== ''}
      onSend={() =>
        addManagement({
          consumer: wanted.consumer.trim(),
          base_domain: wanted.base_domain.trim(),
          publish: wanted.address.trim() === '' ? 'LoadBalancer' : 'NodePort',
          address: wanted.address.trim(),
          profiles: wanted.profiles
            .split(',')
            .map((profile) => profile.trim())
            .filter((profile) => profile !== ''),
        })
      }
      onClose={onClose}
    >
      {fields.map(({ key, label, help, required }) => (
        <TextField
          key={key}
          id={`management-${key}`}
          label={label}
          help={help}
          isRequired={required}
          value={wanted[key]}
          onChange={(value) => {
            setWanted({ ...wanted, [key]: value });
          }}
        />
      ))}
    </FormDialog>
  );
};
